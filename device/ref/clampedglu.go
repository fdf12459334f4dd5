package ref

import "loadline/graph"

func clampedGLU[T real](c *call[T], o graph.ClampedGLU) error {
	gate, up, out := c.in[0].f, c.in[1].f, c.out[0].f
	for i := range out {
		g, u := min(float64(gate[i]), o.Limit), min(max(float64(up[i]), -o.Limit), o.Limit)
		out[i] = T((u + 1) * g * sigmoid(o.Alpha*g))
	}
	return nil
}

func clampedGLUGrad[T real](c *call[T], o graph.ClampedGLUGrad) error {
	da, gate, up, dgate, dup := c.in[0].f, c.in[1].f, c.in[2].f, c.out[0].f, c.out[1].f
	for i := range da {
		d, g, u := float64(da[i]), min(float64(gate[i]), o.Limit), min(max(float64(up[i]), -o.Limit), o.Limit)
		inside, within := float64(gate[i]) <= o.Limit, u == float64(up[i])
		s := sigmoid(o.Alpha * g)
		dgate[i], dup[i] = 0, 0
		if inside {
			dgate[i] = T(d * (u + 1) * s * (1 + float64(o.Alpha*g*(1-s))))
		}
		if within {
			dup[i] = T(d * g * s)
		}
	}
	return nil
}
