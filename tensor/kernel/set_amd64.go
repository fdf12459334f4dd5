//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

//go:generate go -C gen run . -set avx2 -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel
//go:generate go -C gen run . -set avx512 -out ../avx512_amd64.s -stubs ../avx512_amd64.go -pkg kernel
//go:generate go -C gen run . -set amx -out ../amx_amd64.s -stubs ../amx_amd64.go -pkg kernel

// Sets returns every set this CPU can run; Generic is the first of them.
func Sets() []Set {
	sets := []Set{Generic()}
	for _, f := range []func() (Set, bool){AVX2, AVX512, AVX512BF16, AVX512AMX} {
		if s, ok := f(); ok {
			sets = append(sets, s)
		}
	}
	return sets
}

// AVX2 returns the kernels of AVX2 with FMA and F16C, and whether this CPU can run them.
func AVX2() (Set, bool) {
	return Set{&avx2Table}, cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C
}

// AVX512 returns the kernels of AVX-512 (F, BW, DQ and VL), and whether this CPU can run them. Its bf16
// product widens: no faster than float32, in half the memory.
func AVX512() (Set, bool) {
	x := &cpu.X86
	return Set{&avx512Table}, x.HasAVX2 && x.HasFMA && x.HasBMI2 && x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL
}

// AVX512BF16 returns AVX512 but for the bf16 product, which uses VDPBF16PS, and whether this CPU can run it.
func AVX512BF16() (Set, bool) {
	_, ok := AVX512()
	return Set{&avx512BF16Table}, ok && cpu.X86.HasAVX512BF16
}

// AVX512AMX returns AVX512 but for the bf16 product, which uses the tiles of AMX, and whether this CPU can run it
// and the system lets this process.
func AVX512AMX() (Set, bool) {
	_, ok := AVX512BF16() // whose conversions it uses
	return Set{&avx512AMXTable}, ok && cpu.X86.HasAMXTile && cpu.X86.HasAMXBF16 && tilesPermitted()
}

var avx2Table = table{
	name: "avx2",
	f32:  &avx2F32, bf16: &avx2BF16, flash: &avx2Flash,
	add: addAVX2, mul: mulAVX2, axpy: axpyAVX2, scale: scaleAVX2,
	normMul: normMulAVX2, normSub: normSubAVX2, mulAdd: mulAddAVX2, subMul: subMulAVX2,
	dot: dotAVX2, sum: sumAVX2, sumSquares: sumSquaresAVX2,
	sumMul: sumMulAVX2, sumMul3: sumMul3AVX2, max: maxAVX2,
	exp: expAVX2, expShift: expShiftAVX2, silu: siluAVX2,
	swiGLU: swiGLUAVX2, swiGLUGrad: swiGLUGradAVX2,
	gelu: geluAVX2, geluGrad: geluGradAVX2,
	geluTanh: geluTanhAVX2, geluTanhGrad: geluTanhGradAVX2,
	adamW: adamWAVX2, rope: ropeAVX2,
	roundBF16: roundBF16AVX2, widenBF16: widenBF16AVX2, stochasticBF16: stochasticBF16AVX2,
	roundF16: roundF16AVX2, widenF16: widenF16AVX2,
}

var avx512Table = table{
	name: "avx512",
	f32:  &avx512F32, bf16: &avx512Wide, flash: &avx512Flash,
	add: addAVX512, mul: mulAVX512, axpy: axpyAVX512, scale: scaleAVX512,
	normMul: normMulAVX512, normSub: normSubAVX512, mulAdd: mulAddAVX512, subMul: subMulAVX512,
	dot: dotAVX512, sum: sumAVX512, sumSquares: sumSquaresAVX512,
	sumMul: sumMulAVX512, sumMul3: sumMul3AVX512, max: maxAVX512,
	exp: expAVX512, expShift: expShiftAVX512, silu: siluAVX512,
	swiGLU: swiGLUAVX512, swiGLUGrad: swiGLUGradAVX512,
	gelu: geluAVX512, geluGrad: geluGradAVX512,
	geluTanh: geluTanhAVX512, geluTanhGrad: geluTanhGradAVX512,
	adamW: adamWAVX512, rope: ropeAVX512,
	roundBF16: roundBF16AVX512, widenBF16: widenBF16AVX512, stochasticBF16: stochasticBF16AVX512,
	roundF16: roundF16AVX512, widenF16: widenF16AVX512,
}

// avx512BF16Table is avx512Table with VDPBF16PS.
var avx512BF16Table = func() table {
	t := avx512Table
	t.name, t.bf16 = "avx512bf16", &avx512BF16
	return t
}()

// avx512AMXTable is avx512Table with TDPBF16PS.
var avx512AMXTable = func() table {
	t := avx512Table
	t.name, t.bf16 = "avx512amx", &avx512AMX
	t.parts = &avx512PartsTable
	return t
}()

// avx512PartsTable is avx512AMXTable with the float32 product in parts.
var avx512PartsTable = func() table {
	t := avx512Table
	t.name, t.f32, t.bf16 = "avx512amx-parts", &avx512Parts, &avx512AMX
	return t
}()

func adamWAVX2(w, m, v, g []float32, p AdamW) {
	decay, step, root, c1, c2 := p.derive()
	k := [9]float32{p.GradScale, p.Beta1, c1, p.Beta2, c2, root, p.Eps, decay, step}
	adamWStepAVX2(w, m, v, g, &k)
}

func adamWAVX512(w, m, v, g []float32, p AdamW) {
	decay, step, root, c1, c2 := p.derive()
	k := [9]float32{p.GradScale, p.Beta1, c1, p.Beta2, c2, root, p.Eps, decay, step}
	adamWStepAVX512(w, m, v, g, &k)
}
