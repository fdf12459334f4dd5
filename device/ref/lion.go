package ref

import "loadline/graph"

// lion computes in T, rounding every operation.
func lion[T real](c *call[T], o graph.Lion) error {
	g, m, hyper := only(o.Target, c.in[1].f), c.in[2].f, c.in[3].f
	w := updates(c, o.Target, 5, hyper)
	factor := gradFactor(c, 4, hyper)
	lr, b1, b2 := hyper[graph.HyperLR], T(o.Beta1), T(o.Beta2)
	for i, x := range w.from {
		gi, mi := T(g[i]*factor), m[i]
		x -= T(T(lr*T(o.Decay)) * x)
		switch u := T(b1*mi) + T((1-b1)*gi); {
		case u > 0:
			x -= lr
		case u < 0:
			x += lr
		case u != u:
			x = u
		}
		w.to[i] = x
		c.out[1].f[i] = T(b2*mi) + T((1-b2)*gi)
	}
	w.end()
	return nil
}
