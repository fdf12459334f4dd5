package ref

import (
	"math"

	"loadline/graph"
)

func layerNorm[T real](c *call[T], o graph.LayerNorm) error {
	x, w, bias, y, stats := &c.in[0], &c.in[1], &c.in[2], &c.out[0], &c.out[1]
	d := float64(x.last())
	for r := range x.rows() {
		row, out := x.row(r), y.row(r)
		var mean, variance float64
		for _, a := range row {
			mean += float64(a)
		}
		mean /= d
		for _, a := range row {
			variance += float64((float64(a) - mean) * (float64(a) - mean))
		}
		variance /= d
		rstd := 1 / math.Sqrt(variance+float64(o.Eps))
		for i, a := range row {
			out[i] = T(float64((float64(a)-mean)*rstd*float64(w.f[i])) + float64(bias.f[i]))
		}
		stats.f[2*r], stats.f[2*r+1] = T(mean), T(rstd)
	}
	return nil
}

// With h = (x−mean)·rstd and g = dy·w: dx = rstd·(g − mean(g) − h·mean(g·h)), dw = Σ dy·h, db = Σ dy.
func layerNormGrad[T real](c *call[T]) error {
	dy, x, stats, w, acc, accW, accB := &c.in[0], &c.in[1], &c.in[2], &c.in[3], c.opt(4), c.opt(5), c.opt(6)
	dx, dw, db := &c.out[0], &c.out[1], &c.out[2]
	d := x.last()
	sumW, sumB := newTotal(d, accW.f), newTotal(d, accB.f)
	for r := range x.rows() {
		xr, dr, out := x.row(r), dy.row(r), dx.row(r)
		mean, rstd := float64(stats.f[2*r]), float64(stats.f[2*r+1])
		var g1, gh float64
		for i := range d {
			h := (float64(xr[i]) - mean) * rstd
			g := float64(float64(dr[i]) * float64(w.f[i]))
			g1 += g
			gh += float64(g * h)
			sumW.sum[i] += float64(float64(dr[i]) * h)
			sumB.sum[i] += float64(dr[i])
		}
		g1, gh = g1/float64(d), gh/float64(d)
		sumW.next()
		sumB.next()
		for i := range d {
			h := (float64(xr[i]) - mean) * rstd
			g := float64(float64(dr[i]) * float64(w.f[i]))
			out[i] = T(rstd*(g-g1-float64(h*gh)) + acc.at(r*d+i))
		}
	}
	sumW.into(dw.f)
	sumB.into(db.f)
	return nil
}
