package ref

import (
	"math"

	"loadline/graph"
)

func router[T real](c *call[T], o graph.Router) error {
	logits, weights, ids := &c.in[0], &c.out[0], &c.out[1]
	k := weights.last()
	for r := range logits.rows() {
		row := logits.row(r)
		picked := make([]bool, len(row))
		p := make([]float64, k) //mem:ok ref is the definition: it is clear before it is small
		var z float64
		for n := range k {
			best := -1
			for e, a := range row {
				if !picked[e] && (best < 0 || a > row[best]) {
					best = e
				}
			}
			picked[best] = true
			ids.i[r*k+n] = int32(best)
			p[n] = math.Exp(float64(row[best]) - float64(row[ids.i[r*k]]))
			z += p[n]
		}
		if o.All {
			z = routed(row, float64(row[ids.i[r*k]]))
		}
		for n := range k {
			weights.f[r*k+n] = T(p[n] / z)
		}
	}
	return nil
}

// routed is what softmax over all experts divides by.
func routed[T real](row []T, top float64) (z float64) {
	for _, a := range row {
		z += math.Exp(float64(a) - top)
	}
	return z
}

func routerGrad[T real](c *call[T], o graph.RouterGrad) error {
	dw, w, ids, dl := &c.in[0], &c.in[1], &c.in[2], &c.out[0]
	k := w.last()
	for r := range w.rows() {
		out, s := dl.row(r), dot(dw.row(r), w.row(r))
		clear(out)
		if o.All {
			row := c.in[3].row(r)
			top := float64(row[0])
			for _, a := range row {
				top = max(top, float64(a))
			}
			z := routed(row, top)
			for e, a := range row {
				out[e] = T(-math.Exp(float64(a)-top) / z * s)
			}
		}
		for n := range k {
			e, err := index("expert", ids.i[r*k+n], len(out))
			if err != nil {
				return err
			}
			out[e] = T(float64(w.f[r*k+n]) * (float64(dw.f[r*k+n]) - s))
		}
	}
	return nil
}
