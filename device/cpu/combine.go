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
	y, weights, place, out := b.in32(0), b.in32(1), b.inInt(3), b.out32(0)
	t := b.outType(0)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			row := out[r*d : (r+1)*d]
			for k := range o.TopK {
				i, p := r*o.TopK+k, int(place[r*o.TopK+k])
				if k == 0 {
					s.set.Scale(row, weights[i], y[p*d:(p+1)*d])
				} else {
					s.set.Axpy(row, weights[i], y[p*d:(p+1)*d])
				}
			}
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
	do, y, weights, order := b.in32(0), b.in32(1), b.in32(2), b.inInt(3)
	dy, dw := b.out32(0), b.out32(1)
	t := b.inType(1)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			pair := int(order[i])
			g := do[pair/o.TopK*d:][:d]
			if dw != nil {
				dw[pair] = float32(s.set.SumMul(g, y[i*d:(i+1)*d]))
			}
			if dy != nil {
				s.set.Scale(dy[i*d:(i+1)*d], weights[pair], g)
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
