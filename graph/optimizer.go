package graph

import (
	"fmt"

	"loadline/tensor/dtype"
)

// Places in the hyper input, f32 (HyperLen), that the trainer fills each step.
const (
	HyperLR    = iota // learning rate
	HyperBias1        // 1 − β1^t
	HyperBias2        // 1 − β2^t
	HyperGrad         // what gradients are multiplied by before anything else (1 unless the loss is scaled)
	HyperLen   = 8
)

// AdamW is one update with decoupled weight decay (arXiv 1711.05101, in torch.optim.AdamW's order of operations): w, g, m, v
// of one shape, hyper (8), scale (1) or None, master f32 or None → w, m, v and, with a master, master. g, m and v are f32. With a master the
// update is of the master, and w is the master rounded to w's type, to nearest, ties to even. With g' = g·hyper[HyperGrad]·scale: w −= lr·Decay·w; m and v are
// the moving means of g' and g'²; w −= lr/bias1 · m / (√v/√bias2 + Eps). Arithmetic in f32, element by element.
type AdamW struct{ Beta1, Beta2, Eps, Decay float32 }

// SGD is one update with momentum and coupled weight decay in torch.optim.SGD's order: w, g, buf or None, hyper, scale (1)
// or None → w, buf. g' += Decay·w; buf = Momentum·buf + g'; w −= lr·buf. Without buf, w −= lr·g' and the second result
// is of no elements.
type SGD struct{ Momentum, Decay float32 }

func (AdamW) Kind() string { return "adamw" }
func (SGD) Kind() string   { return "sgd" }
func (o AdamW) Attrs() string {
	return fmt.Sprintf("beta1=%g beta2=%g eps=%g decay=%g", o.Beta1, o.Beta2, o.Eps, o.Decay)
}
func (o SGD) Attrs() string { return fmt.Sprintf("momentum=%g decay=%g", o.Momentum, o.Decay) }

func (AdamW) Outputs(in []Type) []Type {
	f := Type{dtype.F32, in[0].Shape}
	want(f == in[1] && f == in[2] && f == in[3], "adamw: w %v, g %v, m %v, v %v", in[0], in[1], in[2], in[3])
	if len(in) > 6 && in[6].Shape.N > 0 {
		want(in[6] == f, "adamw: w %v, master %v", in[0], in[6])
		return []Type{in[0], in[2], in[3], in[6]}
	}
	want(in[0] == f, "adamw: w %v has no master", in[0])
	return []Type{in[0], in[2], in[3]}
}
func (SGD) Outputs(in []Type) []Type {
	want(in[0] == in[1], "sgd: w %v, g %v", in[0], in[1])
	if in[2].Shape.N == 0 {
		return in[:1]
	}
	return []Type{in[0], in[2]}
}
func (AdamW) FLOPs(b Bounds, in, _ []Type) float64 { return 15 * elems(b, in[0]) }
func (SGD) FLOPs(b Bounds, in, _ []Type) float64   { return 6 * elems(b, in[0]) }
func (AdamW) Writes() []Alias                      { return []Alias{{0, 0}, {1, 2}, {2, 3}, {3, 6}} }
func (SGD) Writes() []Alias                        { return []Alias{{0, 0}, {1, 2}} }

// InPlace lets a gathered or sliced weight be updated where it lies.
func (AdamW) InPlace() []Alias { return []Alias{{0, 0}} }

// InPlace lets a gathered or sliced weight be updated where it lies.
func (SGD) InPlace() []Alias { return []Alias{{0, 0}} }
