package graph

// Softmax normalises the last axis: x → p of the same shape; an element −Inf becomes 0.
type Softmax struct{}

// SoftmaxGrad is ds = p·(dp − Σ dp·p) over the last axis: dp, p → ds.
type SoftmaxGrad struct{}

func (Softmax) Kind() string                             { return "softmax" }
func (SoftmaxGrad) Kind() string                         { return "softmax_grad" }
func (Softmax) Outputs(in []Type) []Type                 { return in[:1] }
func (SoftmaxGrad) Outputs(in []Type) []Type             { return in[:1] }
func (Softmax) FLOPs(b Bounds, in, _ []Type) float64     { return 5 * elems(b, in[0]) }
func (SoftmaxGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 4 * elems(b, in[0]) }
func (Softmax) InPlace() []Alias                         { return []Alias{{0, 0}} }
func (SoftmaxGrad) InPlace() []Alias                     { return []Alias{{0, 0}} }

// Gradient reads the probabilities.
func (Softmax) Gradient(w *Backprop) {
	w.Add(0, w.one(SoftmaxGrad{}, w.Dout(0), w.Node.Out[0]))
}

// Softmax appends a softmax over the last axis.
func (b *Builder) Softmax(x Value) Value { return b.one(Softmax{}, x) }
