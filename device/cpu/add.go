package cpu

func bindAdd(b *binder) step {
	x, y, out := b.in32(0), b.in32(1), b.out32(0)
	return perElem(b.outType(0), func(s *Session, lo, hi, _ int) {
		s.set.Add(out[lo:hi], x[lo:hi], y[lo:hi])
	})
}
