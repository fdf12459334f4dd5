package graph

// GeGLU is gelu(gate)·up (arXiv 2002.05202), gelu exact through erf, or with Tanh its tanh approximation: gate, up (…,F) → (…,F).
type GeGLU struct{ Tanh bool }

// GeGLUGrad is its gradient: da, gate, up → dgate, dup.
type GeGLUGrad struct{ Tanh bool }

func (GeGLU) Kind() string        { return "geglu" }
func (GeGLUGrad) Kind() string    { return "geglu_grad" }
func (o GeGLU) Attrs() string     { return tanhAttr(o.Tanh) }
func (o GeGLUGrad) Attrs() string { return tanhAttr(o.Tanh) }
func (GeGLU) Outputs(in []Type) []Type {
	want(in[0] == in[1], "geglu: gate %v, up %v", in[0], in[1])
	return in[:1]
}
func (GeGLUGrad) Outputs(in []Type) []Type             { return []Type{in[1], in[2]} }
func (GeGLU) FLOPs(b Bounds, in, _ []Type) float64     { return 11 * elems(b, in[0]) }
func (GeGLUGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 30 * elems(b, in[0]) }
func (GeGLU) InPlace() []Alias                         { return []Alias{{0, 0}, {0, 1}} }
func (GeGLUGrad) InPlace() []Alias                     { return []Alias{{0, 0}, {0, 1}, {1, 2}, {1, 1}} }

// Gradient reads both operands.
func (o GeGLU) Gradient(w *Backprop) {
	d := w.Apply(GeGLUGrad(o), w.Dout(0), w.Node.In[0], w.Node.In[1])
	w.Add(0, d[0])
	w.Add(1, d[1])
}

// GeGLU appends gelu(gate)·up.
func (b *Builder) GeGLU(gate, up Value, tanh bool) Value { return b.one(GeGLU{tanh}, gate, up) }
