package cpu

import "fmt"

// checkOffsets refuses offsets that do not ascend from 0 to rows.
func checkOffsets(offsets []int32, rows int) error {
	at := int32(0)
	for e, o := range offsets {
		if o < at || int(o) > rows {
			return fmt.Errorf("offset %d of expert %d: want at least %d and at most %d", o, e, at, rows)
		}
		at = o
	}
	if offsets[0] != 0 || int(at) != rows {
		return fmt.Errorf("offsets from %d to %d: want from 0 to %d", offsets[0], at, rows)
	}
	return nil
}

func bindGrouped(b *binder) step {
	x, w, offsets, y := b.in32(0), b.in32(1), b.inInt(2), b.out32(0)
	t, f := b.inType(0), b.outType(0).Shape.Last()
	k := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		if err := checkOffsets(offsets, t.Shape.Lead(s.b)); err != nil {
			return err
		}
		for e := range len(offsets) - 1 {
			lo, hi := int(offsets[e]), int(offsets[e+1])
			s.gemm(rowMajor(y[lo*f:hi*f], hi-lo, f), rowMajor(x[lo*k:hi*k], hi-lo, k), rowMajor(w[e*f*k:(e+1)*f*k], f, k).T(), false, nil, nil)
		}
		return nil
	})
}

func bindGroupedDX(b *binder) step {
	dy, w, offsets, acc, dx := b.in32(0), b.in32(1), b.inInt(2), b.in32(3), b.out32(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		if err := checkOffsets(offsets, t.Shape.Lead(s.b)); err != nil {
			return err
		}
		for e := range len(offsets) - 1 {
			lo, hi := int(offsets[e]), int(offsets[e+1])
			s.gemm(rowMajor(dx[lo*k:hi*k], hi-lo, k), rowMajor(dy[lo*f:hi*f], hi-lo, f), rowMajor(w[e*f*k:(e+1)*f*k], f, k), acc != nil, part(acc, lo*k, hi*k), nil)
		}
		return nil
	})
}

func bindGroupedDW(b *binder) step {
	dy, x, offsets, acc, dw := b.in32(0), b.in32(1), b.inInt(2), b.in32(3), b.out32(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		if err := checkOffsets(offsets, t.Shape.Lead(s.b)); err != nil {
			return err
		}
		for e := range len(offsets) - 1 { // an expert without rows gets its accumulator, or zeros
			lo, hi := int(offsets[e]), int(offsets[e+1])
			at, end := e*f*k, (e+1)*f*k
			s.gemm(rowMajor(dw[at:end], f, k), rowMajor(dy[lo*f:hi*f], hi-lo, f).T(), rowMajor(x[lo*k:hi*k], hi-lo, k), acc != nil, part(acc, at, end), nil)
		}
		return nil
	})
}

// part is x[lo:hi], or nil of nil.
func part(x []float32, lo, hi int) []float32 {
	if x == nil {
		return nil
	}
	return x[lo:hi]
}
