//go:build amd64 && !purego

package kernel

import (
	"golang.org/x/sys/cpu"

	"loadline/tensor/quant"
)

//go:generate go -C gen run . -set quant512 -out ../quant_vnni_amd64.s -stubs ../quant_vnni_amd64.go -pkg kernel

// quant returns the quantised kernels of a set: those with VNNI for AVX-512 where the CPU has it. All have the same bits.
func (s Set) quant() *quantTable {
	switch {
	case s.t.name == "generic":
		return &genericQuant
	case s.t.name != "avx2" && cpu.X86.HasAVX512VNNI:
		return &vnniQuant
	}
	return &genericQuant
}

var vnniQuant = quantTable{
	quantize: func(dst []byte, x []float32) {
		if len(x) > 0 {
			quantizeRowVNNI(&dst[0], &x[0], len(x)/QuantGroup)
		}
	},
	gemm: func(t quant.Type, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, blocks int) {
		micros := &microsQ4_0VNNI
		switch t {
		case quant.Q4_1:
			micros = &microsQ4_1VNNI
		case quant.Q8_0:
			micros = &microsQ8_0VNNI
		case quant.Q4_K:
			micros = &microsQ4_KVNNI
		case quant.Q6_K:
			micros = &microsQ6_KVNNI
		}
		micros[rows-1](blocks, &b[0], &a[0], lda, &c[0], ldc, cols)
	},
}

// microsQuant are the micro-kernels of a format by their rows less one.
type microsQuant [quantRows]func(blocks int, b, a *byte, lda int, c *float32, ldc, cols int)

var (
	microsQ4_0VNNI = microsQuant{quantQ4_0x1VNNI, quantQ4_0x2VNNI, quantQ4_0x3VNNI, quantQ4_0x4VNNI, quantQ4_0x5VNNI, quantQ4_0x6VNNI, quantQ4_0x7VNNI, quantQ4_0x8VNNI}
	microsQ4_1VNNI = microsQuant{quantQ4_1x1VNNI, quantQ4_1x2VNNI, quantQ4_1x3VNNI, quantQ4_1x4VNNI, quantQ4_1x5VNNI, quantQ4_1x6VNNI, quantQ4_1x7VNNI, quantQ4_1x8VNNI}
	microsQ8_0VNNI = microsQuant{quantQ8_0x1VNNI, quantQ8_0x2VNNI, quantQ8_0x3VNNI, quantQ8_0x4VNNI, quantQ8_0x5VNNI, quantQ8_0x6VNNI, quantQ8_0x7VNNI, quantQ8_0x8VNNI}
	microsQ4_KVNNI = microsQuant{quantQ4_Kx1VNNI, quantQ4_Kx2VNNI, quantQ4_Kx3VNNI, quantQ4_Kx4VNNI, quantQ4_Kx5VNNI, quantQ4_Kx6VNNI, quantQ4_Kx7VNNI, quantQ4_Kx8VNNI}
	microsQ6_KVNNI = microsQuant{quantQ6_Kx1VNNI, quantQ6_Kx2VNNI, quantQ6_Kx3VNNI, quantQ6_Kx4VNNI, quantQ6_Kx5VNNI, quantQ6_Kx6VNNI, quantQ6_Kx7VNNI, quantQ6_Kx8VNNI}
)
