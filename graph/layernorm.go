package graph

import (
	"fmt"

	"loadline/mem"
	"loadline/tensor/dtype"
)

// LayerNorm is y = (x−mean)·rstd·w + bias over the last axis (arXiv 1607.06450): x (…,D), w (D), bias (D) → y (…,D),
// stats (…,2) holding mean and rstd.
type LayerNorm struct{ Eps float32 }

// LayerNormGrad is all three gradients in one pass: dy, x (…,D), stats (…,2), w (D), acc (…,D), accW (D), accB (D)
// (each may be None) → dx + acc, dw + accW, db + accB; sums over rows in ascending order, continuing the accumulators.
type LayerNormGrad struct{}

func (LayerNorm) Kind() string     { return "layernorm" }
func (LayerNormGrad) Kind() string { return "layernorm_grad" }
func (o LayerNorm) Attrs() string  { return fmt.Sprintf("eps=%g", o.Eps) }

func (LayerNorm) Outputs(in []Type) []Type {
	want(in[1].DType == dtype.F32 && in[1].Shape == S(D(in[0].Shape.Last())) && in[2] == in[1], "layernorm: x %v does not fit w %v, bias %v", in[0], in[1], in[2])
	return []Type{in[0], {dtype.F32, in[0].Shape.WithLast(2)}}
}
func (LayerNormGrad) Outputs(in []Type) []Type { return []Type{in[1], in[3], in[3]} }

func (LayerNorm) FLOPs(b Bounds, in, _ []Type) float64     { return 7 * elems(b, in[0]) }
func (LayerNormGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 13 * elems(b, in[0]) }
func (LayerNormGrad) InPlace() []Alias                     { return []Alias{{0, 4}, {0, 0}, {1, 5}, {2, 6}} }

// Purpose books dw and db under gradients.
func (LayerNormGrad) Purpose(out int) mem.Purpose { return gradAfter(1, out) }

// Gradient reads x, the statistics and w.
func (LayerNorm) Gradient(w *Backprop) {
	n := w.Node
	d := w.Apply(LayerNormGrad{}, w.Dout(0), n.In[0], n.Out[1], n.In[1], w.So(0), w.So(1), w.So(2))
	for i := range d {
		if w.Needs(i) {
			w.Set(i, d[i])
		}
	}
}

// LayerNorm appends a layer norm with bias over the last axis.
func (b *Builder) LayerNorm(x, w, bias Value, eps float32) Value {
	return b.Apply(LayerNorm{eps}, x, w, bias)[0]
}
