package cpu

func bindSoftmax(b *binder) step {
	x, out := b.in32(0), b.out32(0)
	t := b.outType(0)
	d := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			s.set.Softmax(carried(out, x, r*d, (r+1)*d))
		}
	})
}

func bindSoftmaxGrad(b *binder) step {
	dp, p, out := b.in32(0), b.in32(1), b.out32(0)
	t := b.outType(0)
	d := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			s.set.SoftmaxGrad(out[r*d:(r+1)*d], dp[r*d:(r+1)*d], p[r*d:(r+1)*d])
		}
	})
}
