package cpu

import "math"

// bindSinkGrad gives every head to one thread: its sum runs over ascending rows, in float64.
func bindSinkGrad(b *binder) step {
	do, o, lse, sinks, acc, out := b.inF(0), b.inF(1), b.in32(2), b.in32(3), b.in32(4), b.out32(0)
	t, heads := b.inType(1), b.inType(3).Shape.Last()
	k := t.Shape.Last() / heads
	var n int
	f := fn(func(s *Session, h, _, worker int) {
		var sum float64
		if acc != nil {
			sum = float64(acc[h])
		}
		for r := range n {
			c := s.carver(worker)
			i := r*heads + h
			sum -= math.Exp(float64(sinks[h])-float64(lse[i])) * s.set.SumMul(do.load(s, i*k, (i+1)*k, &c), o.load(s, i*k, (i+1)*k, &c))
		}
		out[h] = float32(sum)
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		s.each(heads, 1, f)
		return nil
	})
}

func bindSoftmaxSinkGrad(b *binder) step {
	dp, p, acc, out := b.inF(0), b.inF(1), b.in32(2), b.out32(0)
	t, heads := b.inType(1), b.outType(0).Shape.Last()
	d := t.Shape.Last()
	var n int
	f := fn(func(s *Session, h, _, worker int) {
		var sum float64
		if acc != nil {
			sum = float64(acc[h])
		}
		for r := h; r < n; r += heads {
			c := s.carver(worker)
			row := p.load(s, r*d, (r+1)*d, &c)
			sum -= (1 - s.set.Sum(row)) * s.set.SumMul(dp.load(s, r*d, (r+1)*d, &c), row)
		}
		out[h] = float32(sum)
	})
	return stepFunc(func(s *Session) error {
		n = t.Shape.Lead(s.b)
		s.each(heads, 1, f)
		return nil
	})
}
