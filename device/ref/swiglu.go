package ref

import "math"

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func swiGLU[T real](c *call[T]) error {
	gate, up, out := c.in[0].f, c.in[1].f, c.out[0].f
	for i := range out {
		g := float64(gate[i])
		out[i] = T(g * sigmoid(g) * float64(up[i]))
	}
	return nil
}

func swiGLUGrad[T real](c *call[T]) error {
	da, gate, up, dgate, dup := c.in[0].f, c.in[1].f, c.in[2].f, c.out[0].f, c.out[1].f
	for i := range da {
		d, g, u := float64(da[i]), float64(gate[i]), float64(up[i])
		s := sigmoid(g)
		dgate[i] = T(d * u * s * (1 + float64(g*(1-s))))
		dup[i] = T(d * g * s)
	}
	return nil
}
