package cpu

import "loadline/graph"

func bindLayerNorm(b *binder, o graph.LayerNorm) step {
	x, w, bias, y, stats := b.inF(0), b.in32(1), b.in32(2), b.outF(0), b.out32(1)
	t := b.outType(0)
	d := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			i, j := r*d, (r+1)*d
			to := y.room(i, j, &c)
			mean, rstd := s.set.LayerNorm(to, x.load(s, i, j, &c), w, bias, o.Eps)
			y.store(s, i, j, to)
			if stats != nil {
				stats[2*r], stats[2*r+1] = mean, rstd
			}
		}
	})
}

// bindLayerNormGrad takes the weights' gradients first: dx may lie in the place of dy.
func bindLayerNormGrad(b *binder) step {
	dy, x, stats, w := b.inF(0), b.inF(1), b.in32(2), b.in32(3)
	acc, accW, accB := b.inF(4), b.in32(5), b.in32(6)
	dx, dw, db := b.outF(0), b.out32(1), b.out32(2)
	t := b.inType(1)
	d := t.Shape.Last()
	var cp copyTask
	var n int
	weight := fn(func(s *Session, lo, hi, worker int) {
		for r := range n {
			c := s.carver(worker)
			g := dy.load(s, r*d+lo, r*d+hi, &c)
			if dw != nil {
				s.set.LayerNormGradWeight(dw[lo:hi], part(db, lo, hi), g, x.load(s, r*d+lo, r*d+hi, &c), stats[2*r], stats[2*r+1])
			} else {
				s.set.Add(db[lo:hi], db[lo:hi], g)
			}
		}
	})
	input := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			i, j := r*d, (r+1)*d
			to := dx.room(i, j, &c)
			g, h := dy.load(s, i, j, &c), x.load(s, i, j, &c)
			if acc.absent() {
				s.set.LayerNormGrad(to, g, h, w, stats[2*r], stats[2*r+1])
			} else {
				tmp := c.take(d)
				s.set.LayerNormGrad(tmp, g, h, w, stats[2*r], stats[2*r+1])
				s.set.Add(to, acc.load(s, i, j, &c), tmp)
			}
			dx.store(s, i, j, to)
		}
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		s.carry(&cp, dw, accW)
		s.carry(&cp, db, accB)
		if dw != nil || db != nil {
			s.cols(d, weight)
		}
		if !dx.absent() {
			s.rows(n, d, input)
		}
		return nil
	})
}
