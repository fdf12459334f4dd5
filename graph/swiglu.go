package graph

// SwiGLU is silu(gate)·up (arXiv 2002.05202): gate, up (…,F) → (…,F).
type SwiGLU struct{}

// SwiGLUGrad is its gradient: da, gate, up → dgate, dup.
type SwiGLUGrad struct{}

func (SwiGLU) Kind() string     { return "swiglu" }
func (SwiGLUGrad) Kind() string { return "swiglu_grad" }
func (SwiGLU) Outputs(in []Type) []Type {
	want(in[0] == in[1], "swiglu: gate %v, up %v", in[0], in[1])
	return in[:1]
}
func (SwiGLUGrad) Outputs(in []Type) []Type             { return []Type{in[1], in[2]} }
func (SwiGLU) FLOPs(b Bounds, in, _ []Type) float64     { return 6 * elems(b, in[0]) }
func (SwiGLUGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 12 * elems(b, in[0]) }
func (SwiGLU) InPlace() []Alias                         { return []Alias{{0, 0}, {0, 1}} }
func (SwiGLUGrad) InPlace() []Alias                     { return []Alias{{0, 0}, {0, 1}, {1, 2}, {1, 1}} }

// Gradient reads both operands.
func (SwiGLU) Gradient(w *Backprop) {
	d := w.Apply(SwiGLUGrad{}, w.Dout(0), w.Node.In[0], w.Node.In[1])
	w.Add(0, d[0])
	w.Add(1, d[1])
}

// SwiGLU appends silu(gate)·up.
func (b *Builder) SwiGLU(gate, up Value) Value { return b.one(SwiGLU{}, gate, up) }
