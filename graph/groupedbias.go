package graph

import "loadline/mem"

// GroupedBias adds a row of b to every row of y, by expert: y (M,F) sorted by expert, b (E,F), offsets i32 (E+1) → (M,F).
type GroupedBias struct{}

// GroupedBiasGrad sums the rows of every expert: dy (M,F), offsets, acc (E,F) or None → (E,F), rows ascending, continuing acc.
type GroupedBiasGrad struct{}

func (GroupedBias) Kind() string     { return "grouped_bias" }
func (GroupedBiasGrad) Kind() string { return "grouped_bias_grad" }
func (GroupedBias) Outputs(in []Type) []Type {
	want(in[1].Shape == S(D(in[2].Shape.Dims[0].N-1), D(in[0].Shape.Last())), "grouped_bias: y %v, b %v, offsets %v", in[0], in[1], in[2])
	return in[:1]
}
func (GroupedBiasGrad) Outputs(in []Type) []Type {
	return []Type{F(D(in[1].Shape.Dims[0].N-1), D(in[0].Shape.Last()))}
}
func (GroupedBias) FLOPs(b Bounds, in, _ []Type) float64     { return elems(b, in[0]) }
func (GroupedBiasGrad) FLOPs(b Bounds, in, _ []Type) float64 { return elems(b, in[0]) }
func (GroupedBias) InPlace() []Alias                         { return []Alias{{0, 0}} }
func (GroupedBiasGrad) InPlace() []Alias                     { return []Alias{{0, 2}} }
func (GroupedBiasGrad) Purpose(int) mem.Purpose              { return mem.Grads }

// Gradient reads only the offsets.
func (GroupedBias) Gradient(w *Backprop) {
	if w.Needs(1) {
		w.Set(1, w.one(GroupedBiasGrad{}, w.Dout(0), w.Node.In[2], w.So(1)))
	}
	w.Add(0, w.Dout(0))
}

// GroupedBias appends a bias by expert.
func (b *Builder) GroupedBias(y, bias, offsets Value) Value {
	return b.one(GroupedBias{}, y, bias, offsets)
}
