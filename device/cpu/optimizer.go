package cpu

import (
	"loadline/graph"
	"loadline/tensor/kernel"
)

// gradScale is what gradients are multiplied by: the loss scale's inverse times the clip factor.
func gradScale(hyper, scale []float32) float32 {
	g := hyper[graph.HyperGrad]
	if scale != nil {
		g *= scale[0]
	}
	return g
}

// carried makes part of a state's next version begin as the old one where they do not share memory.
func carried(out, in []float32, lo, hi int) []float32 {
	if !same(out, in) {
		copy(out[lo:hi], in[lo:hi])
	}
	return out[lo:hi]
}

func bindAdamW(b *binder, o graph.AdamW) step {
	g, m, v, hyper, scale, w := b.in32(1), b.in32(2), b.in32(3), b.in32(4), b.in32(5), b.in32(6)
	mo, vo, wo, rounded := b.out32(1), b.out32(2), b.out32(3), b.outF(0)
	if wo == nil { // no master
		w, wo, rounded = b.in32(0), b.out32(0), floats{}
	}
	return perElem(b.outType(0), func(s *Session, lo, hi, _ int) {
		p := kernel.AdamW{
			LR: hyper[graph.HyperLR], Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, WeightDecay: o.Decay,
			Correction1: hyper[graph.HyperBias1], Correction2: hyper[graph.HyperBias2], GradScale: gradScale(hyper, scale),
		}
		to := carried(wo, w, lo, hi)
		s.set.AdamW(to, carried(mo, m, lo, hi), carried(vo, v, lo, hi), g[lo:hi], p)
		if !rounded.absent() {
			rounded.put(s, lo, to)
		}
	})
}

func bindSGD(b *binder, o graph.SGD) step {
	w, g, buf, hyper, scale := b.in32(0), b.in32(1), b.in32(2), b.in32(3), b.in32(4)
	wo, bo := b.out32(0), b.out32(1)
	return perElem(b.outType(0), func(s *Session, lo, hi, _ int) {
		var m []float32
		if buf != nil {
			m = carried(bo, buf, lo, hi)
		}
		s.set.SGD(carried(wo, w, lo, hi), m, g[lo:hi], hyper[graph.HyperLR], o.Momentum, o.Decay, gradScale(hyper, scale))
	})
}
