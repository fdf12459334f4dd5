package kernel

import "math"

// SoftCap keeps x, times scale, within ±limit, in place, within 1 ulp; every set gives the same bits:
//
//	for i := range out { out[i] = float32(limit * math.Tanh(x[i]*scale/limit)) } // in float64
//
// Gemma 2, arXiv 2408.00118, section 2.
func (s Set) SoftCap(out, x []float32, scale, limit float32) {
	want("SoftCap", len(out), len(x))
	l := float64(limit)
	f := float64(scale) / l
	for i, v := range x {
		out[i] = float32(l * math.Tanh(float64(v)*f))
	}
}
