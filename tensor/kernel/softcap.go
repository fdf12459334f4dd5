package kernel

// SoftCap keeps x, times scale, within ±limit, in place; −Inf stays. tmp holds as many elements and is undefined after.
// |err| <= 16·2⁻²⁴·|out|:
//
//	for i := range out { out[i] = limit * tanh(x[i]*scale/limit) }
//
// Below a quarter tanh z is its series to z⁹, beyond it 1 − 2/(1 + exp(2z)). Gemma 2, arXiv 2408.00118, section 2.
func (s Set) SoftCap(out, x, tmp []float32, scale, limit float32) {
	want("SoftCap", len(out), len(x), len(tmp))
	f := scale / limit
	s.t.scale(tmp, 2*f, x)
	s.t.exp(tmp, tmp)
	for i, v := range x {
		z := float32(v * f)
		switch {
		case v == minusInf:
			out[i] = v
		case z < 0.25 && z > -0.25:
			q := float32(z * z)
			t := float32(q*(62.0/2835)) - 17.0/315
			t = float32(q*t) + 2.0/15
			t = float32(q*t) - 1.0/3
			out[i] = limit * (z + float32(z*float32(q*t)))
		default:
			out[i] = limit * (1 - 2/(1+tmp[i]))
		}
	}
}
