package ref

import "loadline/graph"

func geGLU[T real](c *call[T], o graph.GeGLU) error {
	gate, up, out := c.in[0].f, c.in[1].f, c.out[0].f
	for i := range out {
		out[i] = T(geluOf(float64(gate[i]), o.Tanh) * float64(up[i]))
	}
	return nil
}

func geGLUGrad[T real](c *call[T], o graph.GeGLUGrad) error {
	da, gate, up, dgate, dup := c.in[0].f, c.in[1].f, c.in[2].f, c.out[0].f, c.out[1].f
	for i := range da {
		d, g, u := float64(da[i]), float64(gate[i]), float64(up[i])
		dgate[i] = T(d * u * geluSlope(g, o.Tanh))
		dup[i] = T(d * geluOf(g, o.Tanh))
	}
	return nil
}
