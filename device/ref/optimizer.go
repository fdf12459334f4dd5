package ref

import (
	"math"

	"loadline/graph"
)

// adamW computes in T, rounding every operation. An explicit conversion keeps products from being fused.
func adamW[T real](c *call[T], o graph.AdamW) error {
	w, g, m, v, hyper, out := c.in[0].f, c.in[1].f, c.in[2].f, c.in[3].f, c.in[4].f, c.out[0].f
	if master := c.opt(6); master.on {
		w, out = master.f, c.out[3].f
	}
	factor := gradFactor(c, 5, hyper)
	lr, b1, b2 := hyper[graph.HyperLR], T(o.Beta1), T(o.Beta2)
	step, root := lr/hyper[graph.HyperBias1], sqrt(hyper[graph.HyperBias2])
	for i := range w {
		gi := g[i] * factor
		wi := w[i] - T(T(lr*T(o.Decay))*w[i])
		mi := T(b1*m[i]) + T((1-b1)*gi)
		vi := T(b2*v[i]) + T(T((1-b2)*gi)*gi)
		out[i] = wi - T(step*mi)/(sqrt(vi)/root+T(o.Eps))
		c.out[1].f[i], c.out[2].f[i] = mi, vi
	}
	copy(c.out[0].f, out) // rounded when stored
	return nil
}

// sgd computes in T, rounding every operation.
func sgd[T real](c *call[T], o graph.SGD) error {
	w, g, buf, hyper := c.in[0].f, c.in[1].f, &c.in[2], c.in[3].f
	factor := gradFactor(c, 4, hyper)
	lr := hyper[graph.HyperLR]
	for i := range w {
		gi := T(g[i]*factor) + T(T(o.Decay)*w[i])
		if buf.on {
			gi = T(T(o.Momentum)*buf.f[i]) + gi
			c.out[1].f[i] = gi
		}
		c.out[0].f[i] = w[i] - T(lr*gi)
	}
	return nil
}

// gradFactor is what gradients are multiplied by: the hyper input's factor, and operand i where it is present.
func gradFactor[T real](c *call[T], i int, hyper []T) T {
	f := hyper[graph.HyperGrad]
	if s := c.opt(i); s.on {
		f *= s.f[0]
	}
	return f
}

func sqrt[T real](x T) T { return T(math.Sqrt(float64(x))) }
