package ref

import (
	"math"

	"loadline/graph"
	"loadline/tensor"
)

func sumSquares[T real](c *call[T]) error {
	g, out := c.in[0].f, c.out[0].f
	for b := range out {
		x := g[b*tensor.BlockElems : min(len(g), (b+1)*tensor.BlockElems)]
		out[b] = T(dot(x, x))
	}
	return nil
}

func clipScale[T real](c *call[T], o graph.ClipScale) error {
	n := len(c.in) - 1
	var sum float64
	for _, v := range c.in[:n] {
		for _, x := range v.f {
			sum += float64(x)
		}
	}
	norm := math.Sqrt(sum) * float64(c.in[n].f[graph.HyperGrad])
	scale := float64(o.Max) / (norm + 1e-6)
	if scale > 1 { // a NaN stays
		scale = 1
	}
	c.out[0].f[0], c.out[1].f[0] = T(scale), T(norm)
	return nil
}
