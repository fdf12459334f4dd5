package cpu

func bindSelect(b *binder) step {
	x, rows, out := b.inF(0), b.inInt(1), b.outF(0)
	from, t := b.inType(0), b.outType(0)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			out.copy(s, r*d, x, int(rows[r])*d, d, &c)
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("row", rows[:n], from.Shape.Lead(s.b), false); err != nil {
			return err
		}
		s.rows(n, d, f)
		return nil
	})
}

func bindSelectColumns(b *binder) step {
	x, order, out := b.inF(0), b.inInt(1), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	f := fn(func(_ *Session, lo, hi, _ int) {
		for r := lo * d; r < hi*d; r += d {
			if out.narrow() {
				gather(out.h[r:r+d], x.h[r:r+d], order)
			} else {
				gather(out.f[r:r+d], x.f[r:r+d], order)
			}
		}
	})
	return stepFunc(func(s *Session) error {
		if err := checkIDs("column", order, d, false); err != nil {
			return err
		}
		s.rows(t.Shape.Lead(s.b), d, f)
		return nil
	})
}

// gather takes elements of from in an order.
func gather[T any](to, from []T, order []int32) {
	for k, at := range order {
		to[k] = from[at]
	}
}
