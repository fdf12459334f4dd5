package ref

import (
	"math"

	"loadline/graph"
)

const (
	geluA = 0.044715
	geluC = 0.79788456080286535588 // √(2/π)
)

// normal is Φ(x), accurate in its lower tail too.
func normal(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func gelu[T real](c *call[T], o graph.Gelu) error {
	x, y := c.in[0].f, c.out[0].f
	for i, a := range x {
		v := float64(a)
		if o.Tanh {
			// ½(1+tanh u) = sigmoid(2u), which keeps its digits where tanh u is near −1
			y[i] = T(v * sigmoid(2*geluC*(v+float64(geluA*v*v*v))))
		} else {
			y[i] = T(v * normal(v))
		}
	}
	return nil
}

func geluGrad[T real](c *call[T], o graph.GeluGrad) error {
	dy, x, dx := c.in[0].f, c.in[1].f, c.out[0].f
	for i, a := range x {
		v := float64(a)
		var d float64
		if o.Tanh {
			s := sigmoid(2 * geluC * (v + float64(geluA*v*v*v)))
			d = s + float64(v*s*(1-s)*2*geluC*(1+float64(3*geluA*v*v)))
		} else {
			d = normal(v) + float64(v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
		}
		dx[i] = T(float64(dy[i]) * d)
	}
	return nil
}
