package ref

import "loadline/graph"

func affine[T real](c *call[T], o graph.Affine) error {
	x, out := c.in[0].f, c.out[0].f
	for i := range out {
		out[i] = T(float64(T(o.Scale))*float64(x[i])) + T(o.Shift)
	}
	return nil
}
