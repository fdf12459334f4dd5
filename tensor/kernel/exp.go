package kernel

// Exp is the exponential, in place, within 1 ulp; a set may give 0 where the result is below 2⁻¹²⁶. +Inf
// above 88.73, NaN of NaN:
//
//	for i := range out { out[i] = float32(math.Exp(float64(x[i]))) }
func (s Set) Exp(out, x []float32) {
	want("Exp", len(out), len(x))
	s.t.exp(out, x)
}

// ExpShift writes the exponential of x - shift, in place, and returns its sum in Sum's order:
//
//	for i := range out { out[i] = float32(math.Exp(float64(x[i] - shift))) }
//	return Sum(out)
//
// With shift the log-sum-exp of a row it recomputes the row's softmax.
func (s Set) ExpShift(out, x []float32, shift float32) float64 {
	want("ExpShift", len(out), len(x))
	return s.t.expShift(out, x, shift)
}

// Silu is x·sigmoid(x), in place, |err| <= 4·2⁻²³·|out| + 2⁻¹²⁰:
//
//	for i := range out { out[i] = x[i] / (1 + exp(-x[i])) }
func (s Set) Silu(out, x []float32) {
	want("Silu", len(out), len(x))
	s.t.silu(out, x)
}

// SwiGLU is the gated activation, out may be gate or up, |err| <= 5·2⁻²³·|out| + 2⁻¹²⁰·|up|:
//
//	for i := range out { out[i] = gate[i] / (1 + exp(-gate[i])) * up[i] }
//
// Shazeer, "GLU Variants Improve Transformer", 2020.
func (s Set) SwiGLU(out, gate, up []float32) {
	want("SwiGLU", len(out), len(gate), len(up))
	s.t.swiGLU(out, gate, up)
}

// SwiGLUGrad is the gradient of SwiGLU in both inputs; dgate and dup may each be any of the inputs,
// but not each other:
//
//	for i := range dgate {
//		s := 1 / (1 + exp(-gate[i]))
//		dgate[i] = dout[i] * up[i] * s * (1 + gate[i]*(1-s))
//		dup[i] = dout[i] * gate[i] * s
//	}
//
// |err| <= 2⁻²⁰·|dout·up| for dgate, 6·2⁻²³·|dup| + 2⁻¹²⁰·|dout| for dup.
func (s Set) SwiGLUGrad(dgate, dup, dout, gate, up []float32) {
	want("SwiGLUGrad", len(dgate), len(dup), len(dout), len(gate), len(up))
	s.t.swiGLUGrad(dgate, dup, dout, gate, up)
}
