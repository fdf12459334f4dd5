package graph

import (
	"fmt"

	"loadline/mem"
	"loadline/tensor/dtype"
)

// RMSNorm is y = x·rstd·w with rstd = 1/√(mean(x²)+Eps) over the last axis (arXiv 1910.07467): x (…,D), w (D) → y
// (…,D), rstd (…). Where w is shorter, (K), each K elements of a row are normed apart, as heads are: x (…,H·K) → y (…,H·K),
// rstd (…,H). The statistic is kept for the backward half whatever the recompute policy.
type RMSNorm struct{ Eps float32 }

// RMSNormGrad is both gradients in one pass: dy, x (…,D), rstd, w (D), acc (…,D) or None, accW (D) or None → dx + acc,
// dw + accW. The sum over rows, and heads within them, for dw runs in ascending order, continuing accW.
type RMSNormGrad struct{}

func (RMSNorm) Kind() string     { return "rmsnorm" }
func (RMSNormGrad) Kind() string { return "rmsnorm_grad" }
func (o RMSNorm) Attrs() string  { return fmt.Sprintf("eps=%g", o.Eps) }

// dropLast is the shape of one statistic per row.
func dropLast(s Shape) Shape {
	s.N--
	s.Dims[s.N] = Dim{}
	return s
}

func (RMSNorm) Outputs(in []Type) []Type {
	d, k := in[0].Shape.Last(), in[1].Shape.Last()
	want(in[1].DType == dtype.F32 && in[1].Shape == S(D(k)) && k > 0 && d%k == 0, "rmsnorm: x %v does not fit w %v", in[0], in[1])
	if d == k {
		return []Type{in[0], {dtype.F32, dropLast(in[0].Shape)}}
	}
	return []Type{in[0], {dtype.F32, in[0].Shape.WithLast(d / k)}}
}
func (RMSNormGrad) Outputs(in []Type) []Type { return []Type{in[1], in[3]} }

func (RMSNorm) FLOPs(b Bounds, in, _ []Type) float64     { return 4 * elems(b, in[0]) }
func (RMSNormGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 9 * elems(b, in[0]) }
func (RMSNormGrad) InPlace() []Alias                     { return []Alias{{0, 4}, {0, 0}, {1, 5}} }

// Purpose books dw under gradients.
func (RMSNormGrad) Purpose(out int) mem.Purpose { return gradAfter(1, out) }

// gradAfter is Activations for the outputs before first and Grads from first on.
func gradAfter(first, out int) mem.Purpose {
	if out < first {
		return mem.Activations
	}
	return mem.Grads
}

// Gradient reads x, the statistic and w.
func (RMSNorm) Gradient(w *Backprop) {
	n := w.Node
	d := w.Apply(RMSNormGrad{}, w.Dout(0), n.In[0], n.Out[1], n.In[1], w.So(0), w.So(1))
	if w.Needs(0) {
		w.Set(0, d[0])
	}
	if w.Needs(1) {
		w.Set(1, d[1])
	}
}

// RMSNorm appends a root-mean-square norm over the last axis, or over stretches of it as long as w.
func (b *Builder) RMSNorm(x, w Value, eps float32) Value { return b.Apply(RMSNorm{eps}, x, w)[0] }
