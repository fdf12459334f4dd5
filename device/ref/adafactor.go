package ref

import (
	"math"

	"loadline/graph"
)

// adafactorEps is what is added to squares of gradients.
const adafactorEps = 1e-30

// adafactorMoments sums in float64, and rounds moments and factors once.
func adafactorMoments[T real](c *call[T], _ graph.AdafactorMoments) error {
	g, hyper := &c.in[0], c.in[3].f
	scale, beta := float64(gradFactor(c, 4, hyper)), float64(hyper[graph.HyperDecay2])
	mean := func(out, in []T, i int, squares, n float64) { // of a row or a column
		out[i] = T(float64(beta*float64(in[i])) + float64((1-beta)*(squares*scale*scale/n+adafactorEps)))
	}
	row, r := c.out[0].f, c.out[1].f
	if c.opt(2).on {
		rows, cols := g.dims[g.typ.Shape.N-2], g.last()
		col, factor := c.out[2].f, c.out[3].f
		for m := 0; m < len(g.f); m += rows * cols { // one matrix
			var sum float64
			at, to := m/cols, m/rows
			for i := range rows {
				x := g.f[m+i*cols : m+(i+1)*cols]
				mean(row, c.in[1].f, at+i, dot(x, x), float64(cols))
				sum += float64(row[at+i])
			}
			for j := range cols {
				var squares float64
				for i := range rows {
					x := float64(g.f[m+i*cols+j])
					squares += float64(x * x)
				}
				mean(col, c.in[2].f, to+j, squares, float64(rows))
				factor[to+j] = T(1 / math.Sqrt(float64(col[to+j])))
			}
			for i := range rows {
				r[at+i] = T(1 / math.Sqrt(float64(row[at+i])/(sum/float64(rows))))
			}
		}
	} else {
		for i, x := range g.f {
			mean(row, c.in[1].f, i, float64(x)*float64(x), 1)
			r[i] = T(1 / math.Sqrt(float64(row[i])))
		}
	}
	var squares float64
	each(c, func(i, ri, ci int) {
		u := float64(g.f[i]) * scale * float64(r[ri])
		if ci >= 0 {
			u *= float64(c.out[3].f[ci])
		}
		squares += float64(u * u)
	})
	div := math.Max(1, math.Sqrt(squares/float64(len(g.f))))
	for i, x := range r {
		r[i] = T(float64(x) * scale / div)
	}
	return nil
}

// each calls f with the places of every element's factors; that of a column is negative where there are no columns.
func each[T real](c *call[T], f func(i, row, col int)) {
	g := &c.in[0]
	if !c.opt(2).on {
		for i := range g.f {
			f(i, i, -1)
		}
		return
	}
	rows, cols := g.dims[g.typ.Shape.N-2], g.last()
	for i := range g.f {
		f(i, i/cols, i/(rows*cols)*cols+i%cols)
	}
}

// adafactorUpdate computes in T, rounding every operation.
func adafactorUpdate[T real](c *call[T], o graph.AdafactorUpdate) error {
	g, r, factor, hyper := only(o.Target, c.in[1].f), c.in[2].f, c.opt(3), c.in[4].f
	w := updates(c, o.Target, 5, hyper)
	lr := hyper[graph.HyperLR]
	for i, x := range w.from {
		e := w.first + i
		if e >= o.Elems && o.Ranks > 0 { // beyond the shard
			break
		}
		var u T
		if factor.on {
			u = T(T(g[i]*r[e/o.Cols]) * factor.f[e/(o.Rows*o.Cols)*o.Cols+e%o.Cols])
		} else {
			u = T(g[i] * r[e])
		}
		w.to[i] = x - T(T(lr*T(o.Decay))*x) - T(lr*u)
	}
	w.end()
	return nil
}
