package graph

import "loadline/mem"

// GroupedMatMul is a matrix product by expert: x (M,K) sorted by expert, w (E,F,K), offsets i32 (E+1) → (M,F); rows
// offsets[e]..offsets[e+1] meet w[e]. Each row's bits are those of MatMul with that expert's weight.
type GroupedMatMul struct{}

// GroupedMatMulDX is the gradient for x: dy (M,F), w (E,F,K), offsets, acc (M,K) or None → (M,K).
type GroupedMatMulDX struct{}

// GroupedMatMulDW is the gradient for w: dy (M,F), x (M,K), offsets, acc (E,F,K) or None → (E,F,K), rows ascending.
type GroupedMatMulDW struct{}

func (GroupedMatMul) Kind() string   { return "grouped" }
func (GroupedMatMulDX) Kind() string { return "grouped_dx" }
func (GroupedMatMulDW) Kind() string { return "grouped_dw" }

func (GroupedMatMul) Outputs(in []Type) []Type {
	want(in[1].Shape.N == 3 && in[1].weighs(in[0]), "grouped: x %v does not fit w %v", in[0], in[1])
	return []Type{{in[0].DType, in[0].Shape.WithLast(in[1].Shape.Dims[1].N)}}
}
func (GroupedMatMulDX) Outputs(in []Type) []Type {
	return []Type{{in[0].DType, in[0].Shape.WithLast(in[1].Shape.Last())}}
}
func (GroupedMatMulDW) Outputs(in []Type) []Type {
	e := in[2].Shape.Dims[0].N - 1
	return []Type{F(D(e), D(in[0].Shape.Last()), D(in[1].Shape.Last()))}
}
func (GroupedMatMul) FLOPs(b Bounds, in, out []Type) float64 {
	return 2 * elems(b, out[0]) * float64(in[0].Shape.Last())
}
func (GroupedMatMulDX) FLOPs(b Bounds, in, out []Type) float64 {
	return 2 * elems(b, out[0]) * float64(in[0].Shape.Last())
}
func (GroupedMatMulDW) FLOPs(b Bounds, in, _ []Type) float64 {
	return 2 * elems(b, in[0]) * float64(in[1].Shape.Last())
}
func (GroupedMatMulDX) InPlace() []Alias        { return []Alias{{0, 3}} }
func (GroupedMatMulDW) InPlace() []Alias        { return []Alias{{0, 3}} }
func (GroupedMatMulDW) Purpose(int) mem.Purpose { return mem.Grads }

// Gradient takes the weight's gradient first.
func (GroupedMatMul) Gradient(w *Backprop) {
	in, dy := w.Node.In, w.Dout(0)
	if w.Needs(1) {
		w.Set(1, w.one(GroupedMatMulDW{}, dy, in[0], in[2], w.So(1)))
	}
	if w.Needs(0) {
		w.Set(0, w.one(GroupedMatMulDX{}, dy, in[1], in[2], w.So(0)))
	}
}

// GroupedMatMul appends a matrix product by expert.
func (b *Builder) GroupedMatMul(x, w, offsets Value) Value {
	return b.one(GroupedMatMul{}, x, w, offsets)
}
