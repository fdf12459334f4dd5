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

// geluOf is gelu(v), by its tanh form or not.
func geluOf(v float64, tanh bool) float64 {
	if tanh {
		// ½(1+tanh u) = sigmoid(2u), which keeps its digits where tanh u is near −1
		return v * sigmoid(2*geluC*(v+float64(geluA*v*v*v)))
	}
	return v * normal(v)
}

// geluSlope is its derivative.
func geluSlope(v float64, tanh bool) float64 {
	if tanh {
		s := sigmoid(2 * geluC * (v + float64(geluA*v*v*v)))
		return s + float64(v*s*(1-s)*2*geluC*(1+float64(3*geluA*v*v)))
	}
	return normal(v) + float64(v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi))
}

func gelu[T real](c *call[T], o graph.Gelu) error {
	y := c.out[0].f
	for i, a := range c.in[0].f {
		y[i] = T(geluOf(float64(a), o.Tanh))
	}
	return nil
}

func geluGrad[T real](c *call[T], o graph.GeluGrad) error {
	dy, x, dx := c.in[0].f, c.in[1].f, c.out[0].f
	for i, a := range x {
		dx[i] = T(float64(dy[i]) * geluSlope(float64(a), o.Tanh))
	}
	return nil
}
