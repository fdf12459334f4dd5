package ref

import (
	"math"

	"loadline/graph"
)

func rmsNorm[T real](c *call[T], o graph.RMSNorm) error {
	x, w, y, stat := &c.in[0], &c.in[1], &c.out[0], &c.out[1]
	d := w.last()
	for r := range x.rows() * x.last() / d {
		row := head(x.f, r, d)
		rstd := 1 / math.Sqrt(dot(row, row)/float64(len(row))+float64(o.Eps))
		out := head(y.f, r, d)
		for i, a := range row {
			out[i] = T(float64(a) * rstd * float64(w.f[i]))
		}
		stat.f[r] = T(rstd)
	}
	return nil
}

// With h = x·rstd and g = dy·w: dx = rstd·(g − h·mean(g·h)), dw = Σ dy·h.
func rmsNormGrad[T real](c *call[T]) error {
	dy, x, stat, w, acc, accW := &c.in[0], &c.in[1], &c.in[2], &c.in[3], c.opt(4), c.opt(5)
	dx, dw := &c.out[0], &c.out[1]
	d := w.last()
	sum := newTotal(d, accW.f)
	for r := range x.rows() * x.last() / d {
		xr, dr, out, rstd := head(x.f, r, d), head(dy.f, r, d), head(dx.f, r, d), float64(stat.f[r])
		var mean float64
		for i := range d {
			h := float64(xr[i]) * rstd
			mean += float64(float64(dr[i]) * float64(w.f[i]) * h)
			sum.sum[i] += float64(float64(dr[i]) * h)
		}
		mean /= float64(d)
		sum.next()
		for i := range d {
			g := float64(dr[i]) * float64(w.f[i])
			out[i] = T(rstd*(g-float64(float64(xr[i])*rstd*mean)) + acc.at(r*d+i))
		}
	}
	sum.into(dw.f)
	return nil
}
