package kernel

// Dot returns the inner product in 32 float32 lanes, folded in halves:
//
//	var l [32]float32
//	for i := range x { l[i%32] = fma(x[i], y[i], l[i%32]) } // generic: l += float32(x*y)
//	for h := 16; h > 0; h /= 2 { for i := range h { l[i] += l[i+h] } }
//	return l[0]
//
// |err| <= (n/32+6)·2⁻²³·Σ|x[i]·y[i]|.
func (s Set) Dot(x, y []float32) float32 {
	want("Dot", len(x), len(y))
	return s.t.dot(x, y)
}

// Sum returns the sum in 16 float64 lanes, folded in halves; exact between sets:
//
//	var l [16]float64
//	for i := range x { l[i%16] += float64(x[i]) }
//	for h := 8; h > 0; h /= 2 { for i := range h { l[i] += l[i+h] } }
//	return l[0]
func (s Set) Sum(x []float32) float64 { return s.t.sum(x) }

// SumSquares is Sum over float64(x[i])*float64(x[i]); the squares have no rounding. Exact between sets.
func (s Set) SumSquares(x []float32) float64 { return s.t.sumSquares(x) }

// SumMul is Sum over float64(x[i])*float64(y[i]); the products have no rounding. Exact between sets.
func (s Set) SumMul(x, y []float32) float64 {
	want("SumMul", len(x), len(y))
	return s.t.sumMul(x, y)
}

// Max returns the largest element, -Inf of none, and NaN when any is NaN.
func (s Set) Max(x []float32) float32 { return s.t.max(x) }
