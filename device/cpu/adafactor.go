package cpu

import (
	"math"

	"loadline/graph"
)

// adafactorEps is what is added to squares of gradients.
const adafactorEps = 1e-30

// adafactor is an AdafactorMoments over matrices of rows and cols; one of one axis is rows of one element and has no col.
type adafactor struct {
	g, row, col, rowOut, colOut []float32
	r, c                        []float32 // factors
	hyper, scale                []float32
	sums                        []float32 // by row: the mean square of its update, times its elements
	rows, cols                  int
}

func (a *adafactor) mean(old float32, squares, n float64) float32 {
	k, beta := float64(gradScale(a.hyper, a.scale)), float64(a.hyper[graph.HyperDecay2])
	return float32(float64(beta*float64(old)) + float64((1-beta)*(squares*k*k/n+adafactorEps)))
}

func bindAdafactorMoments(b *binder) step {
	a := &adafactor{
		g: b.in32(0), row: b.in32(1), col: b.in32(2), hyper: b.in32(3), scale: b.in32(4),
		rowOut: b.out32(0), r: b.out32(1), colOut: b.out32(2), c: b.out32(3), sums: b.scratch32(),
	}
	t := b.inType(0).Shape
	if a.rows, a.cols = len(a.g), 1; a.col != nil {
		a.rows, a.cols = t.Dims[t.N-2].N, t.Last()
	}
	rows := fn(func(s *Session, lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			a.rowOut[i] = a.mean(a.row[i], s.set.SumSquares(a.g[i*a.cols:(i+1)*a.cols]), float64(a.cols))
		}
	})
	cols := fn(func(_ *Session, lo, hi, _ int) {
		for lo < hi { // a stretch of columns in one matrix
			m := lo / a.cols
			n := min(hi-lo, (m+1)*a.cols-lo, grainCols)
			a.columns(m, lo, n)
			lo += n
		}
	})
	squares := fn(func(_ *Session, lo, hi, _ int) {
		for i := lo; i < hi; i++ {
			a.sums[i] = a.updateSquares(i)
		}
	})
	return stepFunc(func(s *Session) error {
		all := len(a.g) / a.cols
		s.rows(all, a.cols, rows)
		if a.col != nil {
			s.cols(len(a.col), cols)
		}
		a.rowFactors()
		s.rows(all, a.cols, squares)
		var sum float64
		for _, x := range a.sums[:all] {
			sum += float64(x)
		}
		k, div := float64(gradScale(a.hyper, a.scale)), math.Max(1, math.Sqrt(sum/float64(len(a.g))))
		for i, x := range a.r {
			a.r[i] = float32(float64(x) * k / div)
		}
		return nil
	})
}

// columns makes n column moments, from at on, of matrix m. Rows are taken in ascending order.
func (a *adafactor) columns(m, at, n int) {
	var sums [grainCols]float64
	base := m*a.rows*a.cols + at%a.cols
	for i := range a.rows {
		for j, x := range a.g[base+i*a.cols:][:n] {
			sums[j] += float64(float64(x) * float64(x))
		}
	}
	for j := range n {
		v := a.mean(a.col[at+j], sums[j], float64(a.rows))
		a.colOut[at+j] = v
		a.c[at+j] = float32(1 / math.Sqrt(float64(v)))
	}
}

// rowFactors makes r of the row moments, without what is common to all rows.
func (a *adafactor) rowFactors() {
	if a.col == nil {
		for i, v := range a.rowOut {
			a.r[i] = float32(1 / math.Sqrt(float64(v)))
		}
		return
	}
	for m := 0; m < len(a.rowOut); m += a.rows {
		var sum float64
		for _, v := range a.rowOut[m : m+a.rows] {
			sum += float64(v)
		}
		mean := sum / float64(a.rows)
		for i, v := range a.rowOut[m : m+a.rows] {
			a.r[m+i] = float32(1 / math.Sqrt(float64(v)/mean))
		}
	}
}

// updateSquares is the sum of squares of row i of the update.
func (a *adafactor) updateSquares(i int) float32 {
	k := float64(gradScale(a.hyper, a.scale)) * float64(a.r[i])
	x := a.g[i*a.cols : (i+1)*a.cols]
	if a.col == nil {
		u := float64(x[0]) * k
		return float32(u * u)
	}
	m := i / a.rows * a.cols
	var sum float64
	for j, c := range a.c[m : m+a.cols] {
		u := float64(x[j]) * float64(c)
		sum += float64(u * u)
	}
	return float32(sum * k * k)
}

func bindAdafactorUpdate(b *binder, o graph.AdafactorUpdate) step {
	g, r, c, hyper := b.gradient(o.Target), b.in32(2), b.in32(3), b.in32(4)
	rank, _ := b.s.ranks()
	first := o.First(rank)
	return b.update(o.Target, 5, hyper, func(_ *Session, w []float32, lo, hi int) {
		if o.Ranks > 0 {
			hi = min(hi, max(lo, o.Elems-first)) // the last shard may be short
		}
		lr := hyper[graph.HyperLR]
		decay := float32(lr * o.Decay)
		for at := lo; at < hi; {
			e, n := first+at, hi-at
			x, d := w[at-lo:], g[at:]
			if c == nil {
				for i, v := range r[e : e+n] {
					x[i] = x[i] - float32(decay*x[i]) - float32(lr*float32(d[i]*v))
				}
			} else {
				i, j := e/o.Cols, e%o.Cols
				n = min(n, o.Cols-j)
				ri := r[i]
				for j, v := range c[i/o.Rows*o.Cols+j:][:n] {
					x[j] = x[j] - float32(decay*x[j]) - float32(lr*float32(float32(d[j]*ri)*v))
				}
			}
			at += n
		}
	})
}
