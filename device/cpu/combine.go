package cpu

import "loadline/graph"

// checkPlaces refuses an order or place that is no permutation's.
func checkPlaces(name string, v []int32) error {
	for i, p := range v {
		if p < 0 || int(p) >= len(v) {
			return idError(name, i, p, len(v))
		}
	}
	return nil
}

func bindCombine(b *binder, o graph.Combine) step {
	y, weights, place, out := b.inF(0), b.in32(1), b.inInt(3), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			row := out.room(r*d, (r+1)*d, &c)
			for k := range o.TopK {
				c := c
				i, p := r*o.TopK+k, int(place[r*o.TopK+k])
				x := y.load(s, p*d, (p+1)*d, &c)
				if k == 0 {
					s.set.Scale(row, weights[i], x)
				} else {
					s.set.Axpy(row, weights[i], x)
				}
			}
			out.store(s, r*d, (r+1)*d, row)
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkPlaces("place", place[:n*o.TopK]); err != nil {
			return err
		}
		s.rows(n, d*o.TopK, f)
		return nil
	})
}

// bindCombineGrad goes by places, so that dy may lie where y did: place i is read, then written, by one thread.
func bindCombineGrad(b *binder, o graph.CombineGrad) step {
	do, y, weights, order := b.inF(0), b.inF(1), b.in32(2), b.inInt(3)
	dy, dw := b.outF(0), b.out32(1)
	t := b.inType(1)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, worker int) {
		for i := lo; i < hi; i++ {
			pair := int(order[i])
			c := s.carver(worker)
			at := pair / o.TopK * d
			g := do.load(s, at, at+d, &c)
			if dw != nil {
				dw[pair] = float32(s.set.SumMul(g, y.load(s, i*d, (i+1)*d, &c)))
			}
			if !dy.absent() {
				to := dy.room(i*d, (i+1)*d, &c)
				s.set.Scale(to, weights[pair], g)
				dy.store(s, i*d, (i+1)*d, to)
			}
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkPlaces("order", order[:n]); err != nil {
			return err
		}
		s.rows(n, d, f)
		return nil
	})
}
