package kernel

import "math"

// RMSNorm normalises one row, in place, and returns rstd for the backward kernel:
//
//	rstd = float32(1 / math.Sqrt(SumSquares(x)/n + float64(eps)))
//	for i := range y { y[i] = x[i] * rstd * w[i] }
//
// Exact. Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
func (s Set) RMSNorm(y, x, w []float32, eps float32) (rstd float32) {
	want("RMSNorm", len(y), len(x), len(w))
	if len(x) == 0 {
		return 0
	}
	rstd = float32(1 / math.Sqrt(s.t.sumSquares(x)/float64(len(x))+float64(eps)))
	s.t.normMul(y, x, w, rstd)
	return rstd
}

// RMSNormGrad is the gradient of RMSNorm in its input, exact; dx may be dy or x:
//
//	k := float32(Σ dy[i]·w[i]·x[i] · rstd² / n) // the sum in Sum's order
//	for i := range dx { dx[i] = (float32(dy[i]*w[i]) - float32(x[i]*k)) * rstd }
func (s Set) RMSNormGrad(dx, dy, x, w []float32, rstd float32) {
	want("RMSNormGrad", len(dx), len(dy), len(x), len(w))
	if len(x) == 0 {
		return
	}
	r := float64(rstd)
	s.t.normSub(dx, dy, x, w, rstd, float32(s.t.sumMul3(dy, w, x)*r*r/float64(len(x))))
}

// RMSNormGradWeight adds one row to the gradient in the weight, exact; the caller adds rows in ascending
// order:
//
//	for i := range dw { dw[i] += float32(float32(dy[i]*x[i]) * rstd) }
func (s Set) RMSNormGradWeight(dw, dy, x []float32, rstd float32) {
	want("RMSNormGradWeight", len(dw), len(dy), len(x))
	s.t.mulAdd(dw, dy, x, rstd)
}

// LayerNorm normalises one row, in place, and returns mean and rstd for the backward kernel; b may be nil:
//
//	mean = float32(Sum(x) / n)
//	rstd = float32(1 / math.Sqrt(Σ(x[i]-mean)²/n + float64(eps)))
//	for i := range y { y[i] = float32((x[i]-mean)*rstd*w[i]) + b[i] }
//
// The squares are summed in float64 in ascending order. Ba, Kiros and Hinton, "Layer Normalization", 2016.
func (s Set) LayerNorm(y, x, w, b []float32, eps float32) (mean, rstd float32) {
	want("LayerNorm", len(y), len(x), len(w))
	if len(x) == 0 {
		return 0, 0
	}
	n := float64(len(x))
	mean = float32(s.t.sum(x) / n)
	var q float64
	for _, v := range x {
		d := float64(v) - float64(mean)
		q += float64(d * d)
	}
	rstd = float32(1 / math.Sqrt(q/n+float64(eps)))
	for i, v := range x {
		y[i] = float32(float32((v-mean)*rstd) * w[i])
	}
	if b != nil {
		s.Add(y, y, b)
	}
	return mean, rstd
}

// LayerNormGrad is the gradient of LayerNorm in its input; dx may be dy or x:
//
//	h[i] := (x[i]-mean)*rstd; g[i] := dy[i]*w[i]
//	for i := range dx { dx[i] = (g[i] - Σg/n - h[i]*Σ(g·h)/n) * rstd }
//
// In float64, the sums ascending, then rounded.
func (s Set) LayerNormGrad(dx, dy, x, w []float32, mean, rstd float32) {
	want("LayerNormGrad", len(dx), len(dy), len(x), len(w))
	m, r, n := float64(mean), float64(rstd), float64(len(x))
	var sg, sh float64
	for i := range x {
		g := float64(dy[i]) * float64(w[i])
		sg += g
		sh += float64(g * ((float64(x[i]) - m) * r))
	}
	sg, sh = sg/n, sh/n
	for i := range x {
		g := float64(dy[i]) * float64(w[i])
		h := (float64(x[i]) - m) * r
		dx[i] = float32((g - sg - float64(h*sh)) * r)
	}
}

// LayerNormGradWeight adds one row to the gradient in the weight (and in the bias, where db is not nil):
//
//	for i := range dw { dw[i] += float32(dy[i] * float32((x[i]-mean)*rstd)); db[i] += dy[i] }
func (s Set) LayerNormGradWeight(dw, db, dy, x []float32, mean, rstd float32) {
	want("LayerNormGradWeight", len(dw), len(dy), len(x))
	for i := range dw {
		dw[i] += float32(dy[i] * float32((x[i]-mean)*rstd))
	}
	if db != nil {
		s.Add(db, db, dy)
	}
}
