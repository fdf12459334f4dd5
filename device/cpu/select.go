package cpu

func bindSelect(b *binder) step {
	x, rows, out := b.in32(0), b.inInt(1), b.out32(0)
	from, t := b.inType(0), b.outType(0)
	d := t.Shape.Last()
	f := fn(func(_ *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			copy(out[r*d:(r+1)*d], x[int(rows[r])*d:])
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
