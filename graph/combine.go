package graph

import "fmt"

// Combine sums a token's expert outputs by router weight, choices ascending: y (N·TopK,D), weights (N,TopK), order, place →
// (N,D).
type Combine struct{ TopK int }

// CombineGrad is both gradients: do (N,D), y (N·TopK,D), weights (N,TopK), order, place → dy (N·TopK,D), dweights (N,TopK).
type CombineGrad struct{ TopK int }

func (Combine) Kind() string        { return "combine" }
func (CombineGrad) Kind() string    { return "combine_grad" }
func (o Combine) Attrs() string     { return fmt.Sprintf("topk=%d", o.TopK) }
func (o CombineGrad) Attrs() string { return fmt.Sprintf("topk=%d", o.TopK) }
func (o Combine) Outputs(in []Type) []Type {
	d := in[0].Shape.Dims[0]
	d.N /= o.TopK
	want(in[1].Shape == S(d, D(o.TopK)), "combine: y %v, weights %v", in[0], in[1])
	return []Type{{in[0].DType, S(d, in[0].Shape.Dims[1])}}
}
func (CombineGrad) Outputs(in []Type) []Type             { return []Type{in[1], in[2]} }
func (Combine) FLOPs(b Bounds, in, _ []Type) float64     { return 2 * elems(b, in[0]) }
func (CombineGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 3 * elems(b, in[1]) }

// InPlace is safe for dy over y: place i is read before it is written, and by no other.
func (CombineGrad) InPlace() []Alias { return []Alias{{0, 1}} }

// Gradient reads the expert outputs and the weights.
func (o Combine) Gradient(w *Backprop) {
	in := w.Node.In
	d := w.Apply(CombineGrad(o), w.Dout(0), in[0], in[1], in[2], in[3])
	w.Add(0, d[0])
	w.Add(1, d[1])
}

// Combine appends the weighted sum of expert outputs.
func (b *Builder) Combine(y, weights, order, place Value, topK int) Value {
	return b.one(Combine{topK}, y, weights, order, place)
}
