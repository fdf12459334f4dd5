package cpu

func bindGroupedBias(b *binder) step {
	y, bias, offsets, out := b.inF(0), b.inF(1), b.inInt(2), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, worker int) {
		e := 0
		for r := lo; r < hi; r++ {
			for r >= int(offsets[e+1]) {
				e++
			}
			c := s.carver(worker)
			to := out.room(r*d, (r+1)*d, &c)
			s.set.Add(to, y.load(s, r*d, (r+1)*d, &c), bias.load(s, e*d, (e+1)*d, &c))
			out.store(s, r*d, (r+1)*d, to)
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkOffsets(offsets, n); err != nil {
			return err
		}
		s.rows(n, d, f)
		return nil
	})
}

// bindGroupedBiasGrad gives each thread columns, so that every element is one sum over ascending rows.
func bindGroupedBiasGrad(b *binder) step {
	dy, offsets, acc, out := b.inF(0), b.inInt(1), b.in32(2), b.out32(0)
	t := b.inType(0)
	d := t.Shape.Last()
	var cp copyTask
	f := fn(func(s *Session, lo, hi, worker int) {
		for e := range len(offsets) - 1 {
			to := out[e*d+lo : e*d+hi]
			for r := int(offsets[e]); r < int(offsets[e+1]); r++ {
				c := s.carver(worker)
				s.set.Add(to, to, dy.load(s, r*d+lo, r*d+hi, &c))
			}
		}
	})
	return stepFunc(func(s *Session) error {
		if err := checkOffsets(offsets, t.Shape.Lead(s.b)); err != nil {
			return err
		}
		s.carry(&cp, out, acc)
		s.cols(d, f)
		return nil
	})
}
