package ref

import "fmt"

// eachExpert calls f with the rows lo..hi of every expert.
func eachExpert[T real](offsets *view[T], rows int, f func(e, lo, hi int)) error {
	n := len(offsets.i) - 1
	if offsets.i[0] != 0 || int(offsets.i[n]) != rows {
		return fmt.Errorf("expert offsets run from %d to %d, want 0 to %d", offsets.i[0], offsets.i[n], rows)
	}
	for e := range n {
		if offsets.i[e] > offsets.i[e+1] {
			return fmt.Errorf("expert offsets %d and %d do not ascend", offsets.i[e], offsets.i[e+1])
		}
	}
	for e := range n {
		f(e, int(offsets.i[e]), int(offsets.i[e+1]))
	}
	return nil
}

func grouped[T real](c *call[T]) error {
	x, w, offsets, y := &c.in[0], &c.in[1], &c.in[2], &c.out[0]
	return eachExpert(offsets, x.rows(), func(e, lo, hi int) {
		for r := lo; r < hi; r++ {
			in, out := weighed(x.row(r), w), y.row(r)
			for j := range out {
				out[j] = T(dot(in, w.row(e*len(out)+j)))
			}
		}
	})
}

func groupedDX[T real](c *call[T]) error {
	dy, w, offsets, acc, dx := &c.in[0], &c.in[1], &c.in[2], c.opt(3), &c.out[0]
	k := w.last()
	sum := make([]float64, k) //mem:ok ref is the definition: it is clear before it is small
	return eachExpert(offsets, dy.rows(), func(e, lo, hi int) {
		for r := lo; r < hi; r++ {
			clear(sum)
			for j, d := range dy.row(r) {
				for i, a := range w.row(e*dy.last() + j) {
					sum[i] += float64(float64(d) * float64(a))
				}
			}
			for i, s := range sum {
				dx.f[r*k+i] = T(acc.at(r*k+i) + s)
			}
		}
	})
}

func groupedDW[T real](c *call[T]) error {
	dy, x, offsets, acc, dw := &c.in[0], &c.in[1], &c.in[2], c.opt(3), &c.out[0]
	f := dy.last()
	return eachExpert(offsets, dy.rows(), func(e, lo, hi int) {
		for j := range f {
			var start []T
			if acc.on {
				start = acc.row(e*f + j)
			}
			sum := newTotal(x.last(), start)
			for r := lo; r < hi; r++ {
				d := float64(dy.f[r*f+j])
				for i, a := range x.row(r) {
					sum.sum[i] += float64(d * float64(a))
				}
				sum.next()
			}
			sum.into(dw.row(e*f + j))
		}
	})
}
