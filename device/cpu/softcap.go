package cpu

import (
	"math"

	"loadline/graph"
)

func bindSoftCap(b *binder, o graph.SoftCap) step {
	x, out := b.inF(0), b.outF(0)
	limit := float32(o.Cap)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		to, from := out.room(lo, hi, &c), x.load(s, lo, hi, &c)
		for i, v := range from {
			if math.IsInf(float64(v), -1) {
				to[i] = v
			} else {
				s.set.SoftCap(to[i:i+1], from[i:i+1], 1, limit)
			}
		}
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
