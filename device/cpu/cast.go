package cpu

import "fmt"

func bindCast(b *binder) step {
	x, out := b.inF(0), b.outF(0)
	if b.err == nil && (x.absent() || out.absent()) {
		b.err = fmt.Errorf("no conversion from %v to %v", b.inType(0).DType, b.outType(0).DType)
	}
	return b.perPiece(b.in.Out[0], func(s *Session, lo, hi int, c carver) {
		out.copy(s, lo, x, lo, hi-lo, &c)
	})
}
