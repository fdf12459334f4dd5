package kernel

import "math"

func geluGeneric(out, x []float32) {
	for i, v := range x {
		a := float64(v)
		out[i] = float32(a / 2 * math.Erfc(-a/math.Sqrt2))
	}
}

func geluGradGeneric(dx, dy, x []float32) {
	for i, v := range x {
		a := float64(v)
		p := math.Exp(-a*a/2) / (math.Sqrt2 * math.SqrtPi)
		dx[i] = float32(float64(dy[i]) * (math.Erfc(-a/math.Sqrt2)/2 + float64(a*p)))
	}
}

const (
	geluC = 0.7978845608028654 // √(2/π)
	geluA = 0.044715
)

// geluTanhGeneric uses (1+tanh u)/2 = sigmoid(2u).
func geluTanhGeneric(out, x []float32) {
	for i, v := range x {
		a := float64(v)
		out[i] = float32(a * sigmoid(2*geluC*a*(1+float64(geluA*a*a))))
	}
}

func geluTanhGradGeneric(dx, dy, x []float32) {
	for i, v := range x {
		a := max(-10, min(float64(v), 10)) // NaN stays
		q := sigmoid(2 * geluC * a * (1 + float64(geluA*a*a)))
		d := 2 * geluC * a * (1 + float64(3*geluA*a*a))
		dx[i] = float32(float64(dy[i]) * q * (1 + float64((1-q)*d)))
	}
}
