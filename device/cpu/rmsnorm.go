package cpu

import "loadline/graph"

func bindRMSNorm(b *binder, o graph.RMSNorm) step {
	x, w, y, rstd := b.inF(0), b.in32(1), b.outF(0), b.out32(1)
	d := b.inType(1).Shape.Last()
	t := stretches(b.outType(0), d)
	return perRow(t, func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			i, j := r*d, (r+1)*d
			to := y.room(i, j, &c)
			v := s.set.RMSNorm(to, x.load(s, i, j, &c), w, o.Eps)
			y.store(s, i, j, to)
			if rstd != nil {
				rstd[r] = v
			}
		}
	})
}

// stretches is t with rows of d elements: every row of t is one or more of them.
func stretches(t graph.Type, d int) graph.Type {
	n := t.Shape.Last() / d
	if t.Shape.N == 1 {
		return graph.Type{DType: t.DType, Shape: graph.S(graph.D(n), graph.D(d))}
	}
	t.Shape.Dims[0].N *= n
	t.Shape = t.Shape.WithLast(d)
	return t
}

// bindRMSNormGrad takes the weight's gradient first: dx may lie in the place of dy.
func bindRMSNormGrad(b *binder) step {
	dy, x, rstd, w, acc, accW := b.inF(0), b.inF(1), b.in32(2), b.in32(3), b.inF(4), b.in32(5)
	dx, dw := b.outF(0), b.out32(1)
	d := b.inType(3).Shape.Last()
	t := stretches(b.inType(1), d)
	var cp copyTask
	var n int
	weight := fn(func(s *Session, lo, hi, worker int) {
		for r := range n {
			c := s.carver(worker)
			i, j := r*d+lo, r*d+hi
			s.set.RMSNormGradWeight(dw[lo:hi], dy.load(s, i, j, &c), x.load(s, i, j, &c), rstd[r])
		}
	})
	input := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			i, j := r*d, (r+1)*d
			to := dx.room(i, j, &c)
			g, h := dy.load(s, i, j, &c), x.load(s, i, j, &c)
			if acc.absent() {
				s.set.RMSNormGrad(to, g, h, w, rstd[r])
			} else {
				tmp := c.take(d)
				s.set.RMSNormGrad(tmp, g, h, w, rstd[r])
				s.set.Add(to, acc.load(s, i, j, &c), tmp)
			}
			dx.store(s, i, j, to)
		}
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		if dw != nil {
			s.carry(&cp, dw, accW)
			s.cols(d, weight)
		}
		if !dx.absent() {
			s.rows(n, d, input)
		}
		return nil
	})
}
