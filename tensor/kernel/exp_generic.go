package kernel

import "math"

func expGeneric(out, x []float32) {
	for i, v := range x {
		out[i] = float32(math.Exp(float64(v)))
	}
}

func expShiftGeneric(out, x []float32, shift float32) float64 {
	for i, v := range x {
		out[i] = float32(math.Exp(float64(v - shift)))
	}
	return sumGeneric(out)
}

// sigmoid is in float64, so that each kernel rounds once.
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func siluGeneric(out, x []float32) {
	for i, v := range x {
		g := float64(v)
		out[i] = float32(g * sigmoid(g))
	}
}

func swiGLUGeneric(out, gate, up []float32) {
	for i := range out {
		g := float64(gate[i])
		out[i] = float32(g * sigmoid(g) * float64(up[i]))
	}
}

func swiGLUGradGeneric(dgate, dup, dout, gate, up []float32) {
	for i := range dgate {
		g, u, d := float64(gate[i]), float64(up[i]), float64(dout[i])
		s := sigmoid(g)
		dgate[i] = float32(d * u * s * (1 + float64(g*(1-s))))
		dup[i] = float32(d * g * s)
	}
}
