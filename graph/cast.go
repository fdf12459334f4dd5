package graph

import "loadline/tensor/dtype"

// Cast converts elements to another type, rounding to nearest, ties to even: x → the same shape.
type Cast struct{ To dtype.Type }

func (Cast) Kind() string                         { return "cast" }
func (o Cast) Attrs() string                      { return o.To.String() }
func (o Cast) Outputs(in []Type) []Type           { return []Type{{o.To, in[0].Shape}} }
func (Cast) FLOPs(b Bounds, in, _ []Type) float64 { return elems(b, in[0]) }

// Gradient casts back; it reads nothing.
func (o Cast) Gradient(w *Backprop) {
	w.Add(0, w.one(Cast{w.G.Values[w.Node.In[0]].Type.DType}, w.Dout(0)))
}

// Cast appends a conversion.
func (b *Builder) Cast(x Value, to dtype.Type) Value { return b.one(Cast{to}, x) }
