package cpu

import "loadline/graph"

func bindLayerNorm(b *binder, o graph.LayerNorm) step {
	x, w, bias, y, stats := b.in32(0), b.in32(1), b.in32(2), b.out32(0), b.out32(1)
	t := b.outType(0)
	d := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			mean, rstd := s.set.LayerNorm(y[r*d:(r+1)*d], x[r*d:(r+1)*d], w, bias, o.Eps)
			if stats != nil {
				stats[2*r], stats[2*r+1] = mean, rstd
			}
		}
	})
}

// bindLayerNormGrad takes the weights' gradients first: dx may lie in the place of dy.
func bindLayerNormGrad(b *binder) step {
	dy, x, stats, w := b.in32(0), b.in32(1), b.in32(2), b.in32(3)
	acc, accW, accB := b.in32(4), b.in32(5), b.in32(6)
	dx, dw, db := b.out32(0), b.out32(1), b.out32(2)
	t := b.inType(1)
	d := t.Shape.Last()
	var c copyTask
	var n int
	weight := fn(func(s *Session, lo, hi, worker int) {
		for r := range n {
			g := dy[r*d+lo : r*d+hi]
			if dw != nil {
				s.set.LayerNormGradWeight(dw[lo:hi], part(db, lo, hi), g, x[r*d+lo:r*d+hi], stats[2*r], stats[2*r+1])
			} else {
				s.set.Add(db[lo:hi], db[lo:hi], g)
			}
		}
	})
	input := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			to := dx[r*d : (r+1)*d]
			if acc == nil {
				s.set.LayerNormGrad(to, dy[r*d:(r+1)*d], x[r*d:(r+1)*d], w, stats[2*r], stats[2*r+1])
				continue
			}
			tmp := s.worker[worker][:d]
			s.set.LayerNormGrad(tmp, dy[r*d:(r+1)*d], x[r*d:(r+1)*d], w, stats[2*r], stats[2*r+1])
			s.set.Add(to, acc[r*d:(r+1)*d], tmp)
		}
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		s.carry(&c, dw, accW)
		s.carry(&c, db, accB)
		if dw != nil || db != nil {
			s.cols(d, weight)
		}
		if dx != nil {
			s.rows(n, d, input)
		}
		return nil
	})
}
