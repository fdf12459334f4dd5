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
