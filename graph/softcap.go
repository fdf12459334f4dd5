package graph

import "fmt"

// SoftCap is Cap·tanh(x/Cap) (Gemma 2, arXiv 2408.00118, section 2): x → the same shape. An element −Inf, which is a score that a
// row does not see, stays.
type SoftCap struct{ Cap float64 }

// SoftCapGrad is its gradient: dy, y → dy·(1 − (y/Cap)²); 0 where y is −Inf.
type SoftCapGrad struct{ Cap float64 }

func (SoftCap) Kind() string                             { return "softcap" }
func (SoftCapGrad) Kind() string                         { return "softcap_grad" }
func (o SoftCap) Attrs() string                          { return fmt.Sprintf("cap=%g", o.Cap) }
func (o SoftCapGrad) Attrs() string                      { return fmt.Sprintf("cap=%g", o.Cap) }
func (SoftCap) Outputs(in []Type) []Type                 { return in[:1] }
func (SoftCapGrad) Outputs(in []Type) []Type             { return in[:1] }
func (SoftCap) FLOPs(b Bounds, in, _ []Type) float64     { return 10 * elems(b, in[0]) }
func (SoftCapGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 4 * elems(b, in[0]) }
func (SoftCap) InPlace() []Alias                         { return []Alias{{0, 0}} }
func (SoftCapGrad) InPlace() []Alias                     { return []Alias{{0, 0}, {0, 1}} }

// Gradient reads the result.
func (o SoftCap) Gradient(w *Backprop) {
	w.Add(0, w.one(SoftCapGrad(o), w.Dout(0), w.Node.Out[0]))
}

// SoftCap appends cap·tanh(x/cap).
func (b *Builder) SoftCap(x Value, cap float64) Value { return b.one(SoftCap{cap}, x) }
