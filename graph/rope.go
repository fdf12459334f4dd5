package graph

import "fmt"

// Rope rotates pairs of a head's halves by position (arXiv 2104.09864; the rotate-half convention of published
// checkpoints): x (N,H·K), pos i32 (N) → (N,H·K). Element i < K/2 of a head pairs with i + K/2; the angle is
// pos · Theta^(−2i/K), computed in float64. Inverse turns the other way: the gradient.
type Rope struct {
	Heads, HeadDim int
	Theta          float64
	Inverse        bool
}

func (Rope) Kind() string { return "rope" }
func (o Rope) Attrs() string {
	s := fmt.Sprintf("heads=%d head=%d theta=%g", o.Heads, o.HeadDim, o.Theta)
	if o.Inverse {
		s += " inverse"
	}
	return s
}
func (o Rope) Outputs(in []Type) []Type {
	want(in[0].Shape.Last() == o.Heads*o.HeadDim && o.HeadDim%2 == 0, "rope: x %v is not %d heads of %d", in[0], o.Heads, o.HeadDim)
	return in[:1]
}
func (Rope) FLOPs(b Bounds, in, _ []Type) float64 { return 3 * elems(b, in[0]) }
func (Rope) InPlace() []Alias                     { return []Alias{{0, 0}} }

// Gradient is the inverse rotation; it reads only the positions.
func (o Rope) Gradient(w *Backprop) {
	o.Inverse = !o.Inverse
	w.Add(0, w.one(o, w.Dout(0), w.Node.In[1]))
}

// Rope appends a rotary position embedding.
func (b *Builder) Rope(x, pos Value, heads, headDim int, theta float64) Value {
	return b.one(Rope{Heads: heads, HeadDim: headDim, Theta: theta}, x, pos)
}
