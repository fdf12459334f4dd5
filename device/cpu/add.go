package cpu

func bindAdd(b *binder) step {
	x, y, out := b.inF(0), b.inF(1), b.outF(0)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		o := out.room(lo, hi, &c)
		s.set.Add(o, x.load(s, lo, hi, &c), y.load(s, lo, hi, &c))
		out.store(s, lo, hi, o)
	})
}
