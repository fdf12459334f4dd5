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
	if stores(b.in) {
		return bindGroupedStored(b)
	}
	x, w, offsets, y := b.inF(0), b.inF(1), b.inInt(2), b.outF(0)
	t, f := b.inType(0), b.outType(0).Shape.Last()
	k := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		if err := checkOffsets(offsets, t.Shape.Lead(s.b)); err != nil {
			return err
		}
		for e := range len(offsets) - 1 {
			lo, hi := int(offsets[e]), int(offsets[e+1])
			s.gemm(matrixOf(y.slice(lo*f, hi*f), hi-lo, f), matrixOf(x.slice(lo*k, hi*k), hi-lo, k), matrixOf(w.slice(e*f*k, (e+1)*f*k), f, k).transposed(), false, floats{}, nil)
		}
		return nil
	})
}

func bindGroupedDX(b *binder) step {
	dy, w, offsets, acc, dx := b.inF(0), b.inF(1), b.inInt(2), b.inF(3), b.outF(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		if err := checkOffsets(offsets, t.Shape.Lead(s.b)); err != nil {
			return err
		}
		for e := range len(offsets) - 1 {
			lo, hi := int(offsets[e]), int(offsets[e+1])
			s.gemm(matrixOf(dx.slice(lo*k, hi*k), hi-lo, k), matrixOf(dy.slice(lo*f, hi*f), hi-lo, f), matrixOf(w.slice(e*f*k, (e+1)*f*k), f, k), !acc.absent(), acc.slice(lo*k, hi*k), nil)
		}
		return nil
	})
}

func bindGroupedDW(b *binder) step {
	dy, x, offsets, acc, dw := b.inF(0), b.inF(1), b.inInt(2), b.inF(3), b.outF(0)
	t, k := b.inType(0), b.outType(0).Shape.Last()
	f := t.Shape.Last()
	return stepFunc(func(s *Session) error {
		if err := checkOffsets(offsets, t.Shape.Lead(s.b)); err != nil {
			return err
		}
		for e := range len(offsets) - 1 { // an expert without rows gets its accumulator, or zeros
			lo, hi := int(offsets[e]), int(offsets[e+1])
			at, end := e*f*k, (e+1)*f*k
			s.gemm(matrixOf(dw.slice(at, end), f, k), matrixOf(dy.slice(lo*f, hi*f), hi-lo, f).transposed(), matrixOf(x.slice(lo*k, hi*k), hi-lo, k), !acc.absent(), acc.slice(at, end), nil)
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
