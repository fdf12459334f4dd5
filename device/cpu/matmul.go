package cpu

func bindMatMul(b *binder) step {
	if stores(b.in) {
		return bindStored(b)
	}
	x, w, bias, y := b.inF(0), b.inF(1), b.in32(2), b.outF(0)
	xt, f := b.inType(0), b.outType(0).Shape.Last()
	k := xt.Shape.Last()
	return stepFunc(func(s *Session) error {
		n := xt.Shape.Lead(s.b)
		s.gemm(matrixOf(y, n, f), matrixOf(x, n, k), matrixOf(w, f, k).transposed(), false, floats{}, bias)
		return nil
	})
}

func bindMatMulDX(b *binder) step {
	dy, w, acc, dx := b.inF(0), b.inF(1), b.inF(2), b.outF(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		s.gemm(matrixOf(dx, n, k), matrixOf(dy, n, f), matrixOf(w, f, k), !acc.absent(), acc, nil)
		return nil
	})
}

func bindMatMulDW(b *binder) step {
	dy, x, acc, dw := b.inF(0), b.inF(1), b.inF(2), b.outF(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		s.gemm(matrixOf(dw, f, k), matrixOf(dy, n, f).transposed(), matrixOf(x, n, k), !acc.absent(), acc, nil)
		return nil
	})
}

// bindBiasGrad gives each thread columns, so that every element is one sum over ascending rows.
func bindBiasGrad(b *binder) step {
	dy, acc, out := b.inF(0), b.in32(1), b.out32(0)
	t := b.inType(0)
	d := t.Shape.Last()
	var cp copyTask
	var n int
	f := fn(func(s *Session, lo, hi, worker int) {
		for r := range n {
			c := s.carver(worker)
			s.set.Add(out[lo:hi], out[lo:hi], dy.load(s, r*d+lo, r*d+hi, &c))
		}
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		s.carry(&cp, out, acc)
		s.cols(d, f)
		return nil
	})
}
