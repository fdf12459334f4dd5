package cpu

func bindSwiGLU(b *binder) step {
	gate, up, out := b.inF(0), b.inF(1), b.outF(0)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		o := out.room(lo, hi, &c)
		s.set.SwiGLU(o, gate.load(s, lo, hi, &c), up.load(s, lo, hi, &c))
		out.store(s, lo, hi, o)
	})
}

func bindSwiGLUGrad(b *binder) step {
	da, gate, up, dgate, dup := b.inF(0), b.inF(1), b.inF(2), b.outF(0), b.outF(1)
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		dg, du := dgate.room(lo, hi, &c), dup.room(lo, hi, &c)
		s.set.SwiGLUGrad(dg, du, da.load(s, lo, hi, &c), gate.load(s, lo, hi, &c), up.load(s, lo, hi, &c))
		dgate.store(s, lo, hi, dg)
		dup.store(s, lo, hi, du)
	})
}
