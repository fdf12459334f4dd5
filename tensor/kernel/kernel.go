// Package kernel holds the inner loops of the engine: free functions over slices of float32 and of bf16 (as
// uint16), grouped in a Set, one value per instruction set.
//
// Letters in comments: M rows and N columns of an output, K the summed dimension, n a slice length.
//
// Invariants:
//   - A kernel allocates nothing, starts no goroutine and keeps no state; workspace is handed in.
//   - Batch-invariant: the bits of a row, or of an element of an elementwise kernel, do not depend on
//     its position, on how many others share the call, or on how callers split work over threads.
//   - Every reduction has one fixed order, written in its comment.
//   - A call in assembly cannot be preempted: hand elementwise kernels at most some 2¹⁶ elements.
//   - Out may be the very slice of an input where a comment says "in place"; otherwise slices of one
//     call must not overlap.
//
// The generic functions (*_generic.go) define each kernel and stay in every build; the tag purego
// selects them alone. Sets agree bit for bit on the kernels whose comments say "exact", and within the
// stated bound on the others, which use fused multiply-adds or polynomials. The vector sets agree with each
// other bit for bit on all; avx512bf16 but for denormals of the bf16 product, avx512amx but for its order, and both but for attention
// in bf16 (flash_half.go), which they multiply as such.
//
// It knows no tensors and no shapes beyond Mat; what quantised blocks mean is tensor/quant's. Attention (flash.go) takes small operands
// as they lie in cache, without packing: Dao et al., arXiv 2205.14135. The matrix product follows Goto
// and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008.
package kernel

// Set is the kernels of one instruction set. The zero value is not usable: take one from Generic, Best
// or Sets. A Set is small, immutable and safe for concurrent use; two Sets of one instruction set are ==.
type Set struct{ t *table }

// Name returns the instruction set: "generic", "avx2", "avx512", "avx512bf16", "avx512amx" or, of its Parts, "avx512amx-parts".
func (s Set) Name() string { return s.t.name }

// SameBits tells whether the set of a name gives the bits of s in all that it computes, in parts included: it is s, or both are of those that
// differ in width alone.
func (s Set) SameBits(name string) bool {
	plain := func(name string) bool { return name == "avx2" || name == "avx512" }
	return s.t.name == name || plain(s.t.name) && plain(name)
}

// Generic returns the plain Go kernels, the definition of all others.
func Generic() Set { return Set{&genericTable} }

// table is the part of a Set that differs between instruction sets. Each field's contract is that of
// its generic function. Lengths are checked before a call through the table.
type table struct {
	name string

	f32, bf16 *product
	flash     *flash
	parts     *table // the same with the float32 product in parts, or nil

	add     func(out, x, y []float32)
	mul     func(out, x, y []float32)
	axpy    func(y []float32, a float32, x []float32)
	scale   func(out []float32, a float32, x []float32)
	normMul func(out, x, w []float32, s float32)
	normSub func(dx, dy, x, w []float32, r, k float32)
	mulAdd  func(dw, dy, x []float32, r float32)
	subMul  func(dx, dy, y []float32, d float32)

	dot        func(x, y []float32) float32
	sum        func(x []float32) float64
	sumSquares func(x []float32) float64
	sumMul     func(x, y []float32) float64
	sumMul3    func(x, y, z []float32) float64
	max        func(x []float32) float32

	exp          func(out, x []float32)
	expShift     func(out, x []float32, shift float32) float64
	silu         func(out, x []float32)
	swiGLU       func(out, gate, up []float32)
	swiGLUGrad   func(dgate, dup, dout, gate, up []float32)
	gelu         func(out, x []float32)
	geluGrad     func(dx, dy, x []float32)
	geluTanh     func(out, x []float32)
	geluTanhGrad func(dx, dy, x []float32)

	adamW func(w, m, v, g []float32, p AdamW)
	rope  func(out, x, cos, sin []float32, sign float32)

	// Whole groups of 32 elements.
	roundBF16      func(out []uint16, x []float32)
	widenBF16      func(out []float32, x []uint16)
	stochasticBF16 func(out []uint16, x []float32, key uint32, counter uint64)
	roundF16       func(out []uint16, x []float32)
	widenF16       func(out []float32, x []uint16)
}

var genericTable = table{
	name: "generic",
	f32:  &genericF32, bf16: &genericBF16, flash: &genericFlash,
	add: addGeneric, mul: mulGeneric, axpy: axpyGeneric, scale: scaleGeneric,
	normMul: normMulGeneric, normSub: normSubGeneric, mulAdd: mulAddGeneric, subMul: subMulGeneric,
	dot: dotGeneric, sum: sumGeneric, sumSquares: sumSquaresGeneric,
	sumMul: sumMulGeneric, sumMul3: sumMul3Generic, max: maxGeneric,
	exp: expGeneric, expShift: expShiftGeneric, silu: siluGeneric,
	swiGLU: swiGLUGeneric, swiGLUGrad: swiGLUGradGeneric,
	gelu: geluGeneric, geluGrad: geluGradGeneric,
	geluTanh: geluTanhGeneric, geluTanhGrad: geluTanhGradGeneric,
	adamW: adamWGeneric, rope: ropeGeneric,
	roundBF16: roundBF16Generic, widenBF16: widenBF16Generic, stochasticBF16: stochasticWholeGeneric,
	roundF16: roundF16Generic, widenF16: widenF16Generic,
}

// want panics unless every length equals n: a caller's mistake, never the world's.
func want(op string, n int, lens ...int) {
	for _, l := range lens {
		if l != n {
			panic("kernel: " + op + ": slices differ in length")
		}
	}
}
