package cpu

import "loadline/graph"

func bindGelu(b *binder, o graph.Gelu) step {
	x, out := b.inF(0), b.outF(0)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		to, from := out.room(lo, hi, &c), x.load(s, lo, hi, &c)
		s.gelu(to, from, o.Tanh)
		out.store(s, lo, hi, to)
	})
}

func bindGeluGrad(b *binder, o graph.GeluGrad) step {
	dy, x, out := b.inF(0), b.inF(1), b.outF(0)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		to, dy, x := out.room(lo, hi, &c), dy.load(s, lo, hi, &c), x.load(s, lo, hi, &c)
		if o.Tanh {
			s.set.GeluTanhGrad(to, dy, x)
		} else {
			s.set.GeluGrad(to, dy, x)
		}
		out.store(s, lo, hi, to)
	})
}
