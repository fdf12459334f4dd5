package graph

// Softmax normalises the last axis: x, sinks (H) or None → p of the same shape; an element −Inf becomes 0. With sinks x is
// (N,H,C), and the sink of a row's head is one more element of it, whose probability is left out.
type Softmax struct{}

// SoftmaxGrad is ds = p·(dp − Σ dp·p) over the last axis: dp, p → ds.
type SoftmaxGrad struct{}

func (Softmax) Kind() string     { return "softmax" }
func (SoftmaxGrad) Kind() string { return "softmax_grad" }
func (Softmax) Outputs(in []Type) []Type {
	want(len(in) < 2 || in[1].Shape.N == 0 || in[0].Shape.N == 3 && in[1] == F(in[0].Shape.Dims[1]), "softmax: sinks do not fit %v", in[0])
	return in[:1]
}
func (SoftmaxGrad) Outputs(in []Type) []Type             { return in[:1] }
func (Softmax) FLOPs(b Bounds, in, _ []Type) float64     { return 5 * elems(b, in[0]) }
func (SoftmaxGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 4 * elems(b, in[0]) }
func (Softmax) InPlace() []Alias                         { return []Alias{{0, 0}} }
func (SoftmaxGrad) InPlace() []Alias                     { return []Alias{{0, 0}} }

// Gradient reads the probabilities.
func (Softmax) Gradient(w *Backprop) {
	if w.Needs(1) {
		w.Set(1, w.one(SoftmaxSinkGrad{}, w.Dout(0), w.Node.Out[0], w.So(1)))
	}
	w.Add(0, w.one(SoftmaxGrad{}, w.Dout(0), w.Node.Out[0]))
}

// Softmax appends a softmax over the last axis.
func (b *Builder) Softmax(x Value) Value { return b.one(Softmax{}, x) }
