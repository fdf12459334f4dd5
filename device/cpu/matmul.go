package cpu

func bindMatMul(b *binder) step {
	x, w, bias, y := b.in32(0), b.in32(1), b.in32(2), b.out32(0)
	xt, f := b.inType(0), b.outType(0).Shape.Last()
	k := xt.Shape.Last()
	return stepFunc(func(s *Session) error {
		n := xt.Shape.Lead(s.b)
		s.gemm(rowMajor(y, n, f), rowMajor(x, n, k), rowMajor(w, f, k).T(), false, nil, bias)
		return nil
	})
}

func bindMatMulDX(b *binder) step {
	dy, w, acc, dx := b.in32(0), b.in32(1), b.in32(2), b.out32(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		s.gemm(rowMajor(dx, n, k), rowMajor(dy, n, f), rowMajor(w, f, k), acc != nil, acc, nil)
		return nil
	})
}

func bindMatMulDW(b *binder) step {
	dy, x, acc, dw := b.in32(0), b.in32(1), b.in32(2), b.out32(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		s.gemm(rowMajor(dw, f, k), rowMajor(dy, n, f).T(), rowMajor(x, n, k), acc != nil, acc, nil)
		return nil
	})
}

// bindBiasGrad gives each thread columns, so that every element is one sum over ascending rows.
func bindBiasGrad(b *binder) step {
	dy, acc, out := b.in32(0), b.in32(1), b.out32(0)
	t := b.inType(0)
	d := t.Shape.Last()
	var c copyTask
	var n int
	f := fn(func(s *Session, lo, hi, _ int) {
		for r := range n {
			s.set.Add(out[lo:hi], out[lo:hi], dy[r*d+lo:r*d+hi])
		}
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		s.carry(&c, out, acc)
		s.cols(d, f)
		return nil
	})
}
