package kernel

// Gelu is the GELU by the error function, in place, |err| <= 4·2⁻²³·|x|:
//
//	for i := range out { out[i] = x[i] / 2 * (1 + erf(x[i]/√2)) }
//
// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
func (s Set) Gelu(out, x []float32) {
	want("Gelu", len(out), len(x))
	s.t.gelu(out, x)
}

// GeluGrad is the gradient of Gelu, dx may be dy or x, |err| <= 8·2⁻²³·|dy|:
//
//	for i := range dx { dx[i] = dy[i] * ((1+erf(x[i]/√2))/2 + x[i]*exp(-x[i]²/2)/√(2π)) }
func (s Set) GeluGrad(dx, dy, x []float32) {
	want("GeluGrad", len(dx), len(dy), len(x))
	s.t.geluGrad(dx, dy, x)
}

// GeluTanh is the tanh form of GELU, in place, |err| <= 4·2⁻²³·|x|:
//
//	for i := range out { out[i] = x[i] / 2 * (1 + tanh(√(2/π)*(x[i]+0.044715*x[i]³))) }
func (s Set) GeluTanh(out, x []float32) {
	want("GeluTanh", len(out), len(x))
	s.t.geluTanh(out, x)
}

// GeluTanhGrad is the gradient of GeluTanh, dx may be dy or x, |err| <= 2⁻¹⁹·|dy|:
//
//	for i := range dx {
//		a := max(-10, min(x[i], 10)) // beyond, the factor is 0 or 1
//		t := tanh(√(2/π)*(a+0.044715*a³))
//		dx[i] = dy[i] * ((1+t)/2 + a/2*(1-t²)*√(2/π)*(1+3*0.044715*a²))
//	}
func (s Set) GeluTanhGrad(dx, dy, x []float32) {
	want("GeluTanhGrad", len(dx), len(dy), len(x))
	s.t.geluTanhGrad(dx, dy, x)
}
