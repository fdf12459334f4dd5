package kernel

import "math"

// Softmax turns one row into its softmax, in place, and returns the largest input and the logarithm of
// the sum, so that log p[i] = x[i] - max - logSum:
//
//	max = Max(x)
//	sum := ExpShift(x, x, max)
//	for i := range x { x[i] *= float32(1 / sum) }
//	return max, float32(math.Log(sum))
//
// A row of -Inf alone (every key masked) becomes zeros, with max -Inf and logSum 0. NaN or +Inf make the
// row NaN. Relative error <= (4+max-x[i])·2⁻²³ where the result is normal: x[i]-max rounds.
func (s Set) Softmax(x []float32) (max, logSum float32) {
	max = s.t.max(x)
	if math.IsInf(float64(max), -1) {
		clear(x)
		return max, 0
	}
	sum := s.t.expShift(x, x, max)
	s.t.scale(x, float32(1/sum), x)
	return max, float32(math.Log(sum))
}

// SoftmaxGrad is the gradient through a softmax row y, exact, dx may be dy:
//
//	d := float32(SumMul(dy, y))
//	for i := range dx { dx[i] = (dy[i] - d) * y[i] }
func (s Set) SoftmaxGrad(dx, dy, y []float32) {
	want("SoftmaxGrad", len(dx), len(dy), len(y))
	s.t.subMul(dx, dy, y, float32(s.t.sumMul(dy, y)))
}
