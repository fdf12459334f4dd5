package graph

// AddOp is x + y, element by element: the residual connection, and the sum of two gradients.
type AddOp struct{}

func (AddOp) Kind() string { return "add" }
func (AddOp) Outputs(in []Type) []Type {
	want(in[0] == in[1], "add: %v and %v", in[0], in[1])
	return in[:1]
}
func (AddOp) FLOPs(b Bounds, in, _ []Type) float64 { return elems(b, in[0]) }
func (AddOp) InPlace() []Alias                     { return []Alias{{0, 0}, {0, 1}} }

// Gradient reads nothing and makes nothing: both operands get the gradient itself.
func (AddOp) Gradient(w *Backprop) {
	w.Add(0, w.Dout(0))
	w.Add(1, w.Dout(0))
}

// Add appends x + y.
func (b *Builder) Add(x, y Value) Value { return b.one(AddOp{}, x, y) }
