package cpu

import (
	"math"

	"loadline/graph"
)

// bindSoftCap takes workspace for exponentials, as GeGLU does for gelu.
func bindSoftCap(b *binder, o graph.SoftCap) step {
	x, out := b.inF(0), b.outF(0)
	limit := float32(o.Cap)
	return inPieces(b.outType(0), func(s *Session, lo, hi int, c carver) {
		to, tmp := out.room(lo, hi, &c), c.take(hi-lo)
		s.set.SoftCap(to, x.load(s, lo, hi, &c), tmp, 1, limit)
		out.store(s, lo, hi, to)
	})
}

func bindSoftCapGrad(b *binder, o graph.SoftCapGrad) step {
	dy, y, out := b.inF(0), b.inF(1), b.outF(0)
	limit := float32(o.Cap)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		to, d := out.room(lo, hi, &c), dy.load(s, lo, hi, &c)
		for i, v := range y.load(s, lo, hi, &c) {
			if t := v / limit; math.IsInf(float64(t), -1) {
				to[i] = 0
			} else {
				to[i] = d[i] * (1 - float32(t*t))
			}
		}
		out.store(s, lo, hi, to)
	})
}
