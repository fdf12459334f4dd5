package graph

import "fmt"

// Affine is Scale·x + Shift, element by element, two roundings: Gemma's embedding (Scale) and the weights of its norms (Shift).
type Affine struct{ Scale, Shift float64 }

func (Affine) Kind() string                         { return "affine" }
func (o Affine) Attrs() string                      { return fmt.Sprintf("scale=%g shift=%g", o.Scale, o.Shift) }
func (Affine) Outputs(in []Type) []Type             { return in[:1] }
func (Affine) FLOPs(b Bounds, in, _ []Type) float64 { return 2 * elems(b, in[0]) }
func (Affine) InPlace() []Alias                     { return []Alias{{0, 0}} }

// Gradient reads nothing; where Scale is 1 it is the gradient itself.
func (o Affine) Gradient(w *Backprop) {
	d := w.Dout(0)
	if o.Scale != 1 {
		d = w.one(Affine{Scale: o.Scale}, d)
	}
	w.Add(0, d)
}

// Affine appends scale·x + shift.
func (b *Builder) Affine(x Value, scale, shift float64) Value { return b.one(Affine{scale, shift}, x) }
