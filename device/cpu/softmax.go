package cpu

import "math"

// maskBlock is how many elements at the end of a row are looked at together.
const maskBlock = 128

// unmasked is the length of the row without the blocks at its end that are −Inf throughout: half of all scores of a causal step.
func (s *Session) unmasked(row []float32) int {
	n := len(row)
	for n > 0 {
		lo := (n - 1) / maskBlock * maskBlock
		if !math.IsInf(float64(s.set.Max(row[lo:n])), -1) {
			break
		}
		n = lo
	}
	return n
}

func bindSoftmax(b *binder) step {
	x, sinks, out := b.inF(0), b.in32(1), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			row := out.room(r*d, (r+1)*d, &c)
			if !out.same(x) || x.narrow() {
				x.get(s, r*d, row)
			}
			n := s.unmasked(row)
			top, sum := s.set.Softmax(row[:n])
			if sinks != nil { // one more element, which is left out
				s.set.Scale(row[:n], besideSink(sinks[r%len(sinks)], top, sum), row[:n])
			}
			clear(row[n:])
			out.store(s, r*d, (r+1)*d, row)
		}
	})
}

func bindSoftmaxGrad(b *binder) step {
	dp, p, out := b.inF(0), b.inF(1), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			i, j := r*d, (r+1)*d
			row := out.room(i, j, &c)
			s.set.SoftmaxGrad(row, dp.load(s, i, j, &c), p.load(s, i, j, &c))
			out.store(s, i, j, row)
		}
	})
}
