package graph

import "fmt"

// ClampedGLU is gpt-oss's gated activation: with g = min(gate, Limit) and u = up within ±Limit, (u + 1)·g·σ(Alpha·g): gate, up (…,F)
// → (…,F).
type ClampedGLU struct{ Alpha, Limit float64 }

// ClampedGLUGrad is its gradient: da, gate, up → dgate, dup; 0 where an operand is beyond its limit.
type ClampedGLUGrad struct{ Alpha, Limit float64 }

func (ClampedGLU) Kind() string        { return "clampedglu" }
func (ClampedGLUGrad) Kind() string    { return "clampedglu_grad" }
func (o ClampedGLU) Attrs() string     { return fmt.Sprintf("alpha=%g limit=%g", o.Alpha, o.Limit) }
func (o ClampedGLUGrad) Attrs() string { return ClampedGLU(o).Attrs() }
func (ClampedGLU) Outputs(in []Type) []Type {
	want(in[0] == in[1], "clampedglu: gate %v, up %v", in[0], in[1])
	return in[:1]
}
func (ClampedGLUGrad) Outputs(in []Type) []Type             { return []Type{in[1], in[2]} }
func (ClampedGLU) FLOPs(b Bounds, in, _ []Type) float64     { return 9 * elems(b, in[0]) }
func (ClampedGLUGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 16 * elems(b, in[0]) }
func (ClampedGLU) InPlace() []Alias                         { return []Alias{{0, 0}, {0, 1}} }
func (ClampedGLUGrad) InPlace() []Alias                     { return []Alias{{0, 0}, {0, 1}, {1, 2}, {1, 1}} }

// Gradient reads both operands.
func (o ClampedGLU) Gradient(w *Backprop) {
	d := w.Apply(ClampedGLUGrad(o), w.Dout(0), w.Node.In[0], w.Node.In[1])
	w.Add(0, d[0])
	w.Add(1, d[1])
}

// ClampedGLU appends gpt-oss's activation.
func (b *Builder) ClampedGLU(gate, up Value, alpha, limit float64) Value {
	return b.one(ClampedGLU{alpha, limit}, gate, up)
}
