package cpu

func bindSwiGLU(b *binder) step {
	gate, up, out := b.in32(0), b.in32(1), b.out32(0)
	return perElem(b.outType(0), func(s *Session, lo, hi, _ int) {
		s.set.SwiGLU(out[lo:hi], gate[lo:hi], up[lo:hi])
	})
}

func bindSwiGLUGrad(b *binder) step {
	da, gate, up, dgate, dup := b.in32(0), b.in32(1), b.in32(2), b.out32(0), b.out32(1)
	return perElem(b.outType(0), func(s *Session, lo, hi, _ int) {
		s.set.SwiGLUGrad(dgate[lo:hi], dup[lo:hi], da[lo:hi], gate[lo:hi], up[lo:hi])
	})
}
