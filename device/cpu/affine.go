package cpu

import "loadline/graph"

func bindAffine(b *binder, o graph.Affine) step {
	x, out := b.inF(0), b.outF(0)
	scale, shift := float32(o.Scale), float32(o.Shift)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		to := out.room(lo, hi, &c)
		s.set.Scale(to, scale, x.load(s, lo, hi, &c))
		if shift != 0 {
			for i := range to {
				to[i] += shift
			}
		}
		out.store(s, lo, hi, to)
	})
}
