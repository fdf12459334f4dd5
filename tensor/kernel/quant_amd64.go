//go:build amd64 && !purego

package kernel

import (
	"math/bits"

	"golang.org/x/sys/cpu"

	"loadline/tensor/quant"
)

//go:generate go -C gen run . -set quant512 -out ../quant_vnni_amd64.s -stubs ../quant_vnni_amd64.go -pkg kernel
//go:generate go -C gen run . -set quantamx -out ../quant_amx_amd64.s -stubs ../quant_amx_amd64.go -pkg kernel
//go:generate go -C gen run . -set quant2 -out ../quant_avx2_amd64.s -stubs ../quant_avx2_amd64.go -pkg kernel

// quant returns the quantised kernels of a set: for AVX-512 those with VNNI, where the CPU has it, and tiles for many rows, else those for
// AVX2. All have the same bits.
func (s Set) quant() *quantTable {
	switch {
	case s.t.name == "generic":
		return &genericQuant
	case s.t.name == "avx512amx" && cpu.X86.HasAVX512VNNI && cpu.X86.HasAMXInt8:
		return &amxQuant
	case s.t.name != "avx2" && cpu.X86.HasAVX512VNNI:
		return &vnniQuant
	}
	return &avx2Quant
}

var vnniQuant = quantTable{
	quantize: func(dst []byte, x []float32) {
		if len(x) > 0 {
			quantizeRowVNNI(&dst[0], &x[0], len(x)/QuantGroup)
		}
	},
	gemm: microsVNNI.gemm, grouped: microsVNNI.grouped, half: microsVNNI.half, half4: microsVNNI.half4, widen: microsVNNI.widen,
}

var avx2Quant = quantTable{
	quantize: func(dst []byte, x []float32) {
		if len(x) > 0 {
			quantizeRowAVX2(&dst[0], &x[0], len(x)/QuantGroup)
		}
	},
	gemm: microsAVX2.gemm, grouped: microsAVX2.grouped, half: microsAVX2.half, half4: microsAVX2.half4, widen: microsAVX2.widen,
}

// quantSizes are how many sizes of micro-kernels there are at most: for 1, 2, 4 and 8 rows.
const quantSizes = 4

// microsQuant are the micro-kernels of a format by the logarithm of their rows; the larger may be missing.
type microsQuant [quantSizes]func(blocks int, b, a *byte, lda int, c *float32, ldc, cols int)

// microsHalf are those of F16 or BF16.
type microsHalf [quantSizes]func(k int, b *byte, a *float32, lda int, c *float32, ldc, cols int)

// microsGrouped are those of GroupedWeights.
type microsGrouped [quantSizes]func(blocks, steps int, b, a *byte, lda int, c *float32, ldc, cols int)

// quantSet is the micro-kernels of an instruction set.
type quantSet struct {
	q4_0, q4_1, q5_0, q5_1, q8_0, q2_K, q3_K, q4_K, q5_K, q6_K, iq4_nl, iq4_xs, mxfp4 microsQuant

	g4, g8        microsGrouped
	f16, bf16     microsHalf
	f16x4, bf16x4 func(k int, b *byte, stride int, a, c *float32)

	widenF16, widenBF16 func(k int, b *byte, out *float32, ld int)
}

// power is the largest logarithm of a number of rows, at most rows, that has a micro-kernel.
func power(rows, sizes int) int { return min(bits.Len(uint(rows)), sizes) - 1 }

func (s *quantSet) gemm(t quant.Type, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, blocks int) {
	micros := s.of(t)
	for m := 0; m < rows; {
		p := power(rows-m, s.sizes())
		micros[p](blocks, &b[0], &a[m*lda], lda, &c[m*ldc], ldc, cols)
		m += 1 << p
	}
}

func (s *quantSet) grouped(bits, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, groups, steps int) {
	micros := &s.g4
	if bits == 8 {
		micros = &s.g8
	}
	for m := 0; m < rows; {
		p := power(rows-m, s.sizes())
		micros[p](groups, steps, &b[0], &a[m*lda], lda, &c[m*ldc], ldc, cols)
		m += 1 << p
	}
}

func (s *quantSet) half(t quant.Type, rows, cols int, c []float32, ldc int, a []float32, lda int, b []byte, k int) {
	micros := &s.f16
	if t == quant.BF16 {
		micros = &s.bf16
	}
	for m := 0; m < rows; {
		p := power(rows-m, s.sizes())
		micros[p](k, &b[0], &a[m*lda], 4*lda, &c[m*ldc], ldc, cols)
		m += 1 << p
	}
}

func (s *quantSet) half4(t quant.Type, c, a []float32, b []byte, stride, k int) {
	if t == quant.BF16 {
		s.bf16x4(k, &b[0], stride, &a[0], &c[0])
		return
	}
	s.f16x4(k, &b[0], stride, &a[0], &c[0])
}

func (s *quantSet) widen(t quant.Type, k int, b []byte, out []float32, ld int) {
	_, _ = b[2*QuantPanel*k-1], out[(k-1)*ld+QuantPanel-1]
	if t == quant.BF16 {
		s.widenBF16(k, &b[0], &out[0], ld)
		return
	}
	s.widenF16(k, &b[0], &out[0], ld)
}

// sizes is how many sizes there are.
func (s *quantSet) sizes() int {
	if s.f16[quantSizes-1] == nil {
		return quantSizes - 1
	}
	return quantSizes
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
	q4_0:   microsQuant{quantQ4_0x1VNNI, quantQ4_0x2VNNI, quantQ4_0x4VNNI, quantQ4_0x8VNNI},
	q4_1:   microsQuant{quantQ4_1x1VNNI, quantQ4_1x2VNNI, quantQ4_1x4VNNI, quantQ4_1x8VNNI},
	q5_0:   microsQuant{quantQ5_0x1VNNI, quantQ5_0x2VNNI, quantQ5_0x4VNNI, quantQ5_0x8VNNI},
	q5_1:   microsQuant{quantQ5_1x1VNNI, quantQ5_1x2VNNI, quantQ5_1x4VNNI, quantQ5_1x8VNNI},
	q8_0:   microsQuant{quantQ8_0x1VNNI, quantQ8_0x2VNNI, quantQ8_0x4VNNI, quantQ8_0x8VNNI},
	q2_K:   microsQuant{quantQ2_Kx1VNNI, quantQ2_Kx2VNNI, quantQ2_Kx4VNNI, quantQ2_Kx8VNNI},
	q3_K:   microsQuant{quantQ3_Kx1VNNI, quantQ3_Kx2VNNI, quantQ3_Kx4VNNI, quantQ3_Kx8VNNI},
	q4_K:   microsQuant{quantQ4_Kx1VNNI, quantQ4_Kx2VNNI, quantQ4_Kx4VNNI, quantQ4_Kx8VNNI},
	q5_K:   microsQuant{quantQ5_Kx1VNNI, quantQ5_Kx2VNNI, quantQ5_Kx4VNNI, quantQ5_Kx8VNNI},
	q6_K:   microsQuant{quantQ6_Kx1VNNI, quantQ6_Kx2VNNI, quantQ6_Kx4VNNI, quantQ6_Kx8VNNI},
	iq4_nl: microsQuant{quantIQ4_NLx1VNNI, quantIQ4_NLx2VNNI, quantIQ4_NLx4VNNI, quantIQ4_NLx8VNNI},
	iq4_xs: microsQuant{quantIQ4_XSx1VNNI, quantIQ4_XSx2VNNI, quantIQ4_XSx4VNNI, quantIQ4_XSx8VNNI},
	mxfp4:  microsQuant{quantMXFP4x1VNNI, quantMXFP4x2VNNI, quantMXFP4x4VNNI, quantMXFP4x8VNNI},
	g4:     microsGrouped{quantG4x1VNNI, quantG4x2VNNI, quantG4x4VNNI, quantG4x8VNNI},
	g8:     microsGrouped{quantG8x1VNNI, quantG8x2VNNI, quantG8x4VNNI, quantG8x8VNNI},
	f16:    microsHalf{quantF16x1VNNI, quantF16x2VNNI, quantF16x4VNNI, quantF16x8VNNI},
	bf16:   microsHalf{quantBF16x1VNNI, quantBF16x2VNNI, quantBF16x4VNNI, quantBF16x8VNNI},
	f16x4:  quantF16x1by4VNNI, bf16x4: quantBF16x1by4VNNI,
	widenF16: widenPanelF16VNNI, widenBF16: widenPanelBF16VNNI,
}

var microsAVX2 = quantSet{
	q4_0:   microsQuant{quantQ4_0x1AVX2, quantQ4_0x2AVX2, quantQ4_0x4AVX2},
	q4_1:   microsQuant{quantQ4_1x1AVX2, quantQ4_1x2AVX2, quantQ4_1x4AVX2},
	q5_0:   microsQuant{quantQ5_0x1AVX2, quantQ5_0x2AVX2, quantQ5_0x4AVX2},
	q5_1:   microsQuant{quantQ5_1x1AVX2, quantQ5_1x2AVX2, quantQ5_1x4AVX2},
	q8_0:   microsQuant{quantQ8_0x1AVX2, quantQ8_0x2AVX2, quantQ8_0x4AVX2},
	q2_K:   microsQuant{quantQ2_Kx1AVX2, quantQ2_Kx2AVX2, quantQ2_Kx4AVX2},
	q3_K:   microsQuant{quantQ3_Kx1AVX2, quantQ3_Kx2AVX2, quantQ3_Kx4AVX2},
	q4_K:   microsQuant{quantQ4_Kx1AVX2, quantQ4_Kx2AVX2, quantQ4_Kx4AVX2},
	q5_K:   microsQuant{quantQ5_Kx1AVX2, quantQ5_Kx2AVX2, quantQ5_Kx4AVX2},
	q6_K:   microsQuant{quantQ6_Kx1AVX2, quantQ6_Kx2AVX2, quantQ6_Kx4AVX2},
	iq4_nl: microsQuant{quantIQ4_NLx1AVX2, quantIQ4_NLx2AVX2, quantIQ4_NLx4AVX2},
	iq4_xs: microsQuant{quantIQ4_XSx1AVX2, quantIQ4_XSx2AVX2, quantIQ4_XSx4AVX2},
	mxfp4:  microsQuant{quantMXFP4x1AVX2, quantMXFP4x2AVX2, quantMXFP4x4AVX2},
	g4:     microsGrouped{quantG4x1AVX2, quantG4x2AVX2, quantG4x4AVX2},
	g8:     microsGrouped{quantG8x1AVX2, quantG8x2AVX2, quantG8x4AVX2},
	f16:    microsHalf{quantF16x1AVX2, quantF16x2AVX2, quantF16x4AVX2},
	bf16:   microsHalf{quantBF16x1AVX2, quantBF16x2AVX2, quantBF16x4AVX2},
	f16x4:  quantF16x1by4AVX2, bf16x4: quantBF16x1by4AVX2,
	widenF16: widenPanelF16AVX2, widenBF16: widenPanelBF16AVX2,
}
