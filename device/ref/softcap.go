package ref

import (
	"math"

	"loadline/graph"
)

func softCap[T real](c *call[T], o graph.SoftCap) error {
	x, out := c.in[0].f, c.out[0].f
	for i := range out {
		if v := float64(x[i]); math.IsInf(v, -1) {
			out[i] = x[i]
		} else {
			out[i] = T(o.Cap * math.Tanh(v/o.Cap))
		}
	}
	return nil
}

func softCapGrad[T real](c *call[T], o graph.SoftCapGrad) error {
	dy, y, out := c.in[0].f, c.in[1].f, c.out[0].f
	for i := range out {
		if v := float64(y[i]); math.IsInf(v, -1) {
			out[i] = 0
		} else {
			t := v / o.Cap
			out[i] = T(float64(dy[i]) * (1 - float64(t*t)))
		}
	}
	return nil
}
