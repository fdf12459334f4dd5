//go:build amd64 && !purego

package kernel

import (
	"golang.org/x/sys/cpu"

	"loadline/tensor/quant"
)

//go:generate go -C gen run . -set quant512 -out ../quant_vnni_amd64.s -stubs ../quant_vnni_amd64.go -pkg kernel
//go:generate go -C gen run . -set quant2 -out ../quant_avx2_amd64.s -stubs ../quant_avx2_amd64.go -pkg kernel

// quant returns the quantised kernels of a set: for AVX-512 those with VNNI, where the CPU has it, else those for AVX2 (with F16C, which
// every CPU with AVX2 has). All have the same bits.
func (s Set) quant() *quantTable {
	switch {
	case s.t.name == "generic":
		return &genericQuant
	case s.t.name != "avx2" && cpu.X86.HasAVX512VNNI:
		return &vnniQuant
	}
	return &avx2Quant
}

var vnniQuant = quantTable{
	halfRows: quantRows,
	half: func(t quant.Type, rows, cols int, c []float32, ldc int, a []float32, lda int, b []byte, k int) {
		micros := &microsVNNI.f16
		if t == quant.BF16 {
			micros = &microsVNNI.bf16
		}
		micros[rows-1](k, &b[0], &a[0], 4*lda, &c[0], ldc, cols)
	},
	half4: func(t quant.Type, c, a []float32, b []byte, stride, k int) {
		if t == quant.BF16 {
			quantBF16x1by4VNNI(k, &b[0], stride, &a[0], &c[0])
			return
		}
		quantF16x1by4VNNI(k, &b[0], stride, &a[0], &c[0])
	},
	quantize: func(dst []byte, x []float32) {
		if len(x) > 0 {
			quantizeRowVNNI(&dst[0], &x[0], len(x)/QuantGroup)
		}
	},
	gemm: func(t quant.Type, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, blocks int) {
		microsVNNI.of(t)[rows-1](blocks, &b[0], &a[0], lda, &c[0], ldc, cols)
	},
}

// quantRows2 is the most rows of A that a micro-kernel for AVX2 takes.
const quantRows2 = 4

// halfRows2 is the same of F16 and BF16.
const halfRows2 = 6

var avx2Quant = quantTable{
	halfRows: halfRows2,
	half: func(t quant.Type, rows, cols int, c []float32, ldc int, a []float32, lda int, b []byte, k int) {
		micros := &microsAVX2.f16
		if t == quant.BF16 {
			micros = &microsAVX2.bf16
		}
		micros[rows-1](k, &b[0], &a[0], 4*lda, &c[0], ldc, cols)
	},
	half4: func(t quant.Type, c, a []float32, b []byte, stride, k int) {
		if t == quant.BF16 {
			quantBF16x1by4AVX2(k, &b[0], stride, &a[0], &c[0])
			return
		}
		quantF16x1by4AVX2(k, &b[0], stride, &a[0], &c[0])
	},
	quantize: func(dst []byte, x []float32) {
		if len(x) > 0 {
			quantizeRowAVX2(&dst[0], &x[0], len(x)/QuantGroup)
		}
	},
	gemm: func(t quant.Type, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, blocks int) {
		for m := 0; m < rows; m += quantRows2 {
			microsAVX2.of(t)[min(rows-m, quantRows2)-1](blocks, &b[0], &a[m*lda], lda, &c[m*ldc], ldc, cols)
		}
	},
}

// microsQuant are the micro-kernels of a format by their rows less one.
type microsQuant [quantRows]func(blocks int, b, a *byte, lda int, c *float32, ldc, cols int)

// quantSet is the micro-kernels of an instruction set.
type quantSet struct {
	q4_0, q4_1, q5_0, q5_1, q8_0, q2_K, q3_K, q4_K, q5_K, q6_K, iq4_nl, iq4_xs, mxfp4 microsQuant

	f16, bf16 [quantRows]func(k int, b *byte, a *float32, lda int, c *float32, ldc, cols int)
}

func (s *quantSet) of(t quant.Type) *microsQuant {
	switch t {
	case quant.Q4_0:
		return &s.q4_0
	case quant.Q4_1:
		return &s.q4_1
	case quant.Q5_0:
		return &s.q5_0
	case quant.Q5_1:
		return &s.q5_1
	case quant.Q8_0:
		return &s.q8_0
	case quant.Q2_K:
		return &s.q2_K
	case quant.Q3_K:
		return &s.q3_K
	case quant.Q4_K:
		return &s.q4_K
	case quant.Q5_K:
		return &s.q5_K
	case quant.Q6_K:
		return &s.q6_K
	case quant.IQ4_NL:
		return &s.iq4_nl
	case quant.IQ4_XS:
		return &s.iq4_xs
	case quant.MXFP4:
		return &s.mxfp4
	}
	panic("kernel: GemmQuant: no kernel of " + t.String())
}

var microsVNNI = quantSet{
	q4_0:   microsQuant{quantQ4_0x1VNNI, quantQ4_0x2VNNI, quantQ4_0x3VNNI, quantQ4_0x4VNNI, quantQ4_0x5VNNI, quantQ4_0x6VNNI, quantQ4_0x7VNNI, quantQ4_0x8VNNI},
	q4_1:   microsQuant{quantQ4_1x1VNNI, quantQ4_1x2VNNI, quantQ4_1x3VNNI, quantQ4_1x4VNNI, quantQ4_1x5VNNI, quantQ4_1x6VNNI, quantQ4_1x7VNNI, quantQ4_1x8VNNI},
	q5_0:   microsQuant{quantQ5_0x1VNNI, quantQ5_0x2VNNI, quantQ5_0x3VNNI, quantQ5_0x4VNNI, quantQ5_0x5VNNI, quantQ5_0x6VNNI, quantQ5_0x7VNNI, quantQ5_0x8VNNI},
	q5_1:   microsQuant{quantQ5_1x1VNNI, quantQ5_1x2VNNI, quantQ5_1x3VNNI, quantQ5_1x4VNNI, quantQ5_1x5VNNI, quantQ5_1x6VNNI, quantQ5_1x7VNNI, quantQ5_1x8VNNI},
	q8_0:   microsQuant{quantQ8_0x1VNNI, quantQ8_0x2VNNI, quantQ8_0x3VNNI, quantQ8_0x4VNNI, quantQ8_0x5VNNI, quantQ8_0x6VNNI, quantQ8_0x7VNNI, quantQ8_0x8VNNI},
	q2_K:   microsQuant{quantQ2_Kx1VNNI, quantQ2_Kx2VNNI, quantQ2_Kx3VNNI, quantQ2_Kx4VNNI, quantQ2_Kx5VNNI, quantQ2_Kx6VNNI, quantQ2_Kx7VNNI, quantQ2_Kx8VNNI},
	q3_K:   microsQuant{quantQ3_Kx1VNNI, quantQ3_Kx2VNNI, quantQ3_Kx3VNNI, quantQ3_Kx4VNNI, quantQ3_Kx5VNNI, quantQ3_Kx6VNNI, quantQ3_Kx7VNNI, quantQ3_Kx8VNNI},
	q4_K:   microsQuant{quantQ4_Kx1VNNI, quantQ4_Kx2VNNI, quantQ4_Kx3VNNI, quantQ4_Kx4VNNI, quantQ4_Kx5VNNI, quantQ4_Kx6VNNI, quantQ4_Kx7VNNI, quantQ4_Kx8VNNI},
	q5_K:   microsQuant{quantQ5_Kx1VNNI, quantQ5_Kx2VNNI, quantQ5_Kx3VNNI, quantQ5_Kx4VNNI, quantQ5_Kx5VNNI, quantQ5_Kx6VNNI, quantQ5_Kx7VNNI, quantQ5_Kx8VNNI},
	q6_K:   microsQuant{quantQ6_Kx1VNNI, quantQ6_Kx2VNNI, quantQ6_Kx3VNNI, quantQ6_Kx4VNNI, quantQ6_Kx5VNNI, quantQ6_Kx6VNNI, quantQ6_Kx7VNNI, quantQ6_Kx8VNNI},
	iq4_nl: microsQuant{quantIQ4_NLx1VNNI, quantIQ4_NLx2VNNI, quantIQ4_NLx3VNNI, quantIQ4_NLx4VNNI, quantIQ4_NLx5VNNI, quantIQ4_NLx6VNNI, quantIQ4_NLx7VNNI, quantIQ4_NLx8VNNI},
	iq4_xs: microsQuant{quantIQ4_XSx1VNNI, quantIQ4_XSx2VNNI, quantIQ4_XSx3VNNI, quantIQ4_XSx4VNNI, quantIQ4_XSx5VNNI, quantIQ4_XSx6VNNI, quantIQ4_XSx7VNNI, quantIQ4_XSx8VNNI},
	mxfp4:  microsQuant{quantMXFP4x1VNNI, quantMXFP4x2VNNI, quantMXFP4x3VNNI, quantMXFP4x4VNNI, quantMXFP4x5VNNI, quantMXFP4x6VNNI, quantMXFP4x7VNNI, quantMXFP4x8VNNI},
	f16:    [quantRows]func(k int, b *byte, a *float32, lda int, c *float32, ldc, cols int){quantF16x1VNNI, quantF16x2VNNI, quantF16x3VNNI, quantF16x4VNNI, quantF16x5VNNI, quantF16x6VNNI, quantF16x7VNNI, quantF16x8VNNI},
	bf16:   [quantRows]func(k int, b *byte, a *float32, lda int, c *float32, ldc, cols int){quantBF16x1VNNI, quantBF16x2VNNI, quantBF16x3VNNI, quantBF16x4VNNI, quantBF16x5VNNI, quantBF16x6VNNI, quantBF16x7VNNI, quantBF16x8VNNI},
}

var microsAVX2 = quantSet{
	q4_0:   microsQuant{quantQ4_0x1AVX2, quantQ4_0x2AVX2, quantQ4_0x3AVX2, quantQ4_0x4AVX2},
	q4_1:   microsQuant{quantQ4_1x1AVX2, quantQ4_1x2AVX2, quantQ4_1x3AVX2, quantQ4_1x4AVX2},
	q5_0:   microsQuant{quantQ5_0x1AVX2, quantQ5_0x2AVX2, quantQ5_0x3AVX2, quantQ5_0x4AVX2},
	q5_1:   microsQuant{quantQ5_1x1AVX2, quantQ5_1x2AVX2, quantQ5_1x3AVX2, quantQ5_1x4AVX2},
	q8_0:   microsQuant{quantQ8_0x1AVX2, quantQ8_0x2AVX2, quantQ8_0x3AVX2, quantQ8_0x4AVX2},
	q2_K:   microsQuant{quantQ2_Kx1AVX2, quantQ2_Kx2AVX2, quantQ2_Kx3AVX2, quantQ2_Kx4AVX2},
	q3_K:   microsQuant{quantQ3_Kx1AVX2, quantQ3_Kx2AVX2, quantQ3_Kx3AVX2, quantQ3_Kx4AVX2},
	q4_K:   microsQuant{quantQ4_Kx1AVX2, quantQ4_Kx2AVX2, quantQ4_Kx3AVX2, quantQ4_Kx4AVX2},
	q5_K:   microsQuant{quantQ5_Kx1AVX2, quantQ5_Kx2AVX2, quantQ5_Kx3AVX2, quantQ5_Kx4AVX2},
	q6_K:   microsQuant{quantQ6_Kx1AVX2, quantQ6_Kx2AVX2, quantQ6_Kx3AVX2, quantQ6_Kx4AVX2},
	iq4_nl: microsQuant{quantIQ4_NLx1AVX2, quantIQ4_NLx2AVX2, quantIQ4_NLx3AVX2, quantIQ4_NLx4AVX2},
	iq4_xs: microsQuant{quantIQ4_XSx1AVX2, quantIQ4_XSx2AVX2, quantIQ4_XSx3AVX2, quantIQ4_XSx4AVX2},
	mxfp4:  microsQuant{quantMXFP4x1AVX2, quantMXFP4x2AVX2, quantMXFP4x3AVX2, quantMXFP4x4AVX2},
	f16:    [quantRows]func(k int, b *byte, a *float32, lda int, c *float32, ldc, cols int){quantF16x1AVX2, quantF16x2AVX2, quantF16x3AVX2, quantF16x4AVX2, quantF16x5AVX2, quantF16x6AVX2},
	bf16:   [quantRows]func(k int, b *byte, a *float32, lda int, c *float32, ldc, cols int){quantBF16x1AVX2, quantBF16x2AVX2, quantBF16x3AVX2, quantBF16x4AVX2, quantBF16x5AVX2, quantBF16x6AVX2},
}
