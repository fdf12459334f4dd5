package graph

import "loadline/mem"

// MatMul is y = x·wᵀ (+ bias): x (…,K), w (F,K), bias (F) or None → (…,F). Each element is one sum over K in
// ascending order, so a row's bits do not depend on the other rows.
//
// Rows of f32 also meet a weight that is stored as f16, bf16 or a block type; sums are f32. With a block type the rows are rounded
// to eight bits first (unless its codes are of a table, dtype.Type.Rounds), each 32 elements with a scale of their own: d = max|x|/127, q = x/d to the nearest integer, and d·q takes
// x's place.
type MatMul struct{}

// MatMulDX is the gradient for x: dy (…,F), w (F,K), acc (…,K) or None → acc + dy·w.
type MatMulDX struct{}

// MatMulDW is the gradient for w: dy (…,F), x (…,K), acc (F,K) or None → acc + dyᵀ·x, summed over rows in ascending
// order, continuing acc.
type MatMulDW struct{}

// BiasGrad sums rows: dy (…,F), acc (F) or None → (F), in ascending order, continuing acc.
type BiasGrad struct{}

func (MatMul) Kind() string   { return "matmul" }
func (MatMulDX) Kind() string { return "matmul_dx" }
func (MatMulDW) Kind() string { return "matmul_dw" }
func (BiasGrad) Kind() string { return "bias_grad" }

func (MatMul) Outputs(in []Type) []Type {
	x, w := in[0], in[1]
	want(w.Shape.N == 2 && w.weighs(x), "matmul: x %v does not fit w %v", x, w)
	want(len(in) < 3 || in[2].Shape.N == 0 || in[2].Shape == S(w.Shape.Dims[0]), "matmul: bias does not fit w %v", w)
	x.Shape = x.Shape.WithLast(w.Shape.Dims[0].N)
	return []Type{x}
}

func (MatMulDX) Outputs(in []Type) []Type {
	dy, w := in[0], in[1]
	want(w.Shape.N == 2 && dy.Shape.Last() == w.Shape.Dims[0].N, "matmul_dx: dy %v does not fit w %v", dy, w)
	dy.Shape = dy.Shape.WithLast(w.Shape.Last())
	return []Type{dy}
}

func (MatMulDW) Outputs(in []Type) []Type {
	return []Type{F(D(in[0].Shape.Last()), D(in[1].Shape.Last()))}
}

func (BiasGrad) Outputs(in []Type) []Type {
	return []Type{F(D(in[0].Shape.Last()))}
}

func (MatMul) FLOPs(b Bounds, in, out []Type) float64 {
	return 2 * elems(b, out[0]) * float64(in[0].Shape.Last())
}
func (MatMulDX) FLOPs(b Bounds, in, out []Type) float64 {
	return 2 * elems(b, out[0]) * float64(in[0].Shape.Last())
}
func (MatMulDW) FLOPs(b Bounds, in, out []Type) float64 {
	return 2 * elems(b, in[0]) * float64(in[1].Shape.Last())
}
func (BiasGrad) FLOPs(b Bounds, in, out []Type) float64 { return elems(b, in[0]) }

func (MatMulDX) InPlace() []Alias        { return []Alias{{0, 2}} }
func (MatMulDW) InPlace() []Alias        { return []Alias{{0, 2}} }
func (BiasGrad) InPlace() []Alias        { return []Alias{{0, 1}} }
func (MatMulDW) Purpose(int) mem.Purpose { return mem.Grads }
func (BiasGrad) Purpose(int) mem.Purpose { return mem.Grads }

// Gradient takes the weight's gradient first: it may be the last reader of x. Where x was widened for the product, it is widened again
// rather than kept.
func (MatMul) Gradient(w *Backprop) {
	x, wt, dy := w.Node.In[0], w.Node.In[1], w.Dout(0)
	if w.Needs(1) {
		if d := w.G.Values[x].Def; d >= 0 {
			if c, ok := w.G.Ops[d].Op.(Cast); ok {
				x = w.one(c, w.G.Ops[d].In[0])
			}
		}
		w.Set(1, w.one(MatMulDW{}, dy, x, w.So(1)))
	}
	if w.Needs(2) {
		w.Set(2, w.one(BiasGrad{}, dy, w.So(2)))
	}
	if w.Needs(0) {
		w.Set(0, w.one(MatMulDX{}, dy, wt, w.So(0)))
	}
}

// MatMul appends y = x·wᵀ.
func (b *Builder) MatMul(x, w Value) Value { return b.one(MatMul{}, x, w) }

// Linear appends y = x·wᵀ + bias; bias may be None.
func (b *Builder) Linear(x, w, bias Value) Value {
	if bias == None {
		return b.MatMul(x, w)
	}
	return b.one(MatMul{}, x, w, bias)
}
