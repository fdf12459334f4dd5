//go:build amd64 && !purego

package kernel

import "golang.org/x/sys/cpu"

//go:generate go -C gen run . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel

// Sets returns every set this CPU can run, slowest first; Generic is always among them.
func Sets() []Set {
	sets := []Set{Generic()}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		sets = append(sets, Set{&avx2Table})
	}
	return sets
}

var avx2Table = table{
	name:  "avx2",
	micro: microAVX2, packA: packAAVX2, packB: packBAVX2,
	add: addAVX2, mul: mulAVX2, axpy: axpyAVX2, scale: scaleAVX2,
	normMul: normMulAVX2, normSub: normSubAVX2, mulAdd: mulAddAVX2, subMul: subMulAVX2,
	dot: dotAVX2, sum: sumAVX2, sumSquares: sumSquaresAVX2,
	sumMul: sumMulAVX2, sumMul3: sumMul3AVX2, max: maxAVX2,
	exp: expAVX2, expShift: expShiftAVX2, silu: siluAVX2,
	swiGLU: swiGLUAVX2, swiGLUGrad: swiGLUGradAVX2,
	gelu: geluAVX2, geluGrad: geluGradAVX2,
	geluTanh: geluTanhAVX2, geluTanhGrad: geluTanhGradAVX2,
	adamW: adamWAVX2, rope: ropeAVX2,
}

func adamWAVX2(w, m, v, g []float32, p AdamW) {
	decay, step, root, c1, c2 := p.derive()
	k := [9]float32{p.GradScale, p.Beta1, c1, p.Beta2, c2, root, p.Eps, decay, step}
	adamWStepAVX2(w, m, v, g, &k)
}
