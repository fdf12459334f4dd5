package cpu

import "loadline/graph"

func bindRMSNorm(b *binder, o graph.RMSNorm) step {
	x, w, y, rstd := b.in32(0), b.in32(1), b.out32(0), b.out32(1)
	t := b.outType(0)
	d := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			v := s.set.RMSNorm(y[r*d:(r+1)*d], x[r*d:(r+1)*d], w, o.Eps)
			if rstd != nil {
				rstd[r] = v
			}
		}
	})
}

// bindRMSNormGrad takes the weight's gradient first: dx may lie in the place of dy.
func bindRMSNormGrad(b *binder) step {
	dy, x, rstd, w, acc, accW := b.in32(0), b.in32(1), b.in32(2), b.in32(3), b.in32(4), b.in32(5)
	dx, dw := b.out32(0), b.out32(1)
	t := b.inType(1)
	d := t.Shape.Last()
	var c copyTask
	var n int
	weight := fn(func(s *Session, lo, hi, _ int) {
		for r := range n {
			s.set.RMSNormGradWeight(dw[lo:hi], dy[r*d+lo:r*d+hi], x[r*d+lo:r*d+hi], rstd[r])
		}
	})
	input := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			to := dx[r*d : (r+1)*d]
			if acc == nil {
				s.set.RMSNormGrad(to, dy[r*d:(r+1)*d], x[r*d:(r+1)*d], w, rstd[r])
				continue
			}
			tmp := s.worker[worker][:d]
			s.set.RMSNormGrad(tmp, dy[r*d:(r+1)*d], x[r*d:(r+1)*d], w, rstd[r])
			s.set.Add(to, acc[r*d:(r+1)*d], tmp)
		}
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		if dw != nil {
			s.carry(&c, dw, accW)
			s.cols(d, weight)
		}
		if dx != nil {
			s.rows(n, d, input)
		}
		return nil
	})
}
