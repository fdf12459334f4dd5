package graph

// Gelu is x·Φ(x) (arXiv 1606.08415), exact through erf, or with Tanh the tanh approximation of GPT-2.
type Gelu struct{ Tanh bool }

// GeluGrad is its gradient: dy, x → dx.
type GeluGrad struct{ Tanh bool }

func (Gelu) Kind() string                             { return "gelu" }
func (GeluGrad) Kind() string                         { return "gelu_grad" }
func (o Gelu) Attrs() string                          { return tanhAttr(o.Tanh) }
func (o GeluGrad) Attrs() string                      { return tanhAttr(o.Tanh) }
func (Gelu) Outputs(in []Type) []Type                 { return in[:1] }
func (GeluGrad) Outputs(in []Type) []Type             { return in[:1] }
func (Gelu) FLOPs(b Bounds, in, _ []Type) float64     { return 10 * elems(b, in[0]) }
func (GeluGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 18 * elems(b, in[0]) }
func (Gelu) InPlace() []Alias                         { return []Alias{{0, 0}} }
func (GeluGrad) InPlace() []Alias                     { return []Alias{{0, 0}, {0, 1}} }

func tanhAttr(t bool) string {
	if t {
		return "tanh"
	}
	return ""
}

// Gradient reads x.
func (o Gelu) Gradient(w *Backprop) {
	w.Add(0, w.one(GeluGrad{o.Tanh}, w.Dout(0), w.Node.In[0]))
}

// Gelu appends a Gaussian error linear unit.
func (b *Builder) Gelu(x Value, tanh bool) Value { return b.one(Gelu{tanh}, x) }
