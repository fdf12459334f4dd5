package cpu

import "loadline/graph"

func bindGelu(b *binder, o graph.Gelu) step {
	x, out := b.in32(0), b.out32(0)
	return perElem(b.outType(0), func(s *Session, lo, hi, _ int) {
		if o.Tanh {
			s.set.GeluTanh(out[lo:hi], x[lo:hi])
		} else {
			s.set.Gelu(out[lo:hi], x[lo:hi])
		}
	})
}

func bindGeluGrad(b *binder, o graph.GeluGrad) step {
	dy, x, out := b.in32(0), b.in32(1), b.out32(0)
	return perElem(b.outType(0), func(s *Session, lo, hi, _ int) {
		if o.Tanh {
			s.set.GeluTanhGrad(out[lo:hi], dy[lo:hi], x[lo:hi])
		} else {
			s.set.GeluGrad(out[lo:hi], dy[lo:hi], x[lo:hi])
		}
	})
}
