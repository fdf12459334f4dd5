package model

import (
	"math"
)

// Init says how a parameter starts: normal numbers of standard deviation Std, or Const throughout where Std is 0.
type Init struct{ Std, Const float32 }

// Fill writes elements at to at+len(dst) of p's start values. Every element is a function of (seed, p.Name, its index) alone,
// with the same bits on every machine, so a tensor may be made in any pieces, in any order, by any rank.
func Fill(p Param, seed uint64, at int, dst []float32) {
	if p.Init.Std == 0 {
		for i := range dst {
			dst[i] = p.Init.Const
		}
		return
	}
	key := uint64(14695981039346656037) // FNV-1a of the name
	for i := range len(p.Name) {
		key = (key ^ uint64(p.Name[i])) * 1099511628211
	}
	key ^= splitMix(seed)
	std := float64(p.Init.Std)
	for i := range dst {
		u := splitMix(key + uint64(at+i)*0x9e3779b97f4a7c15)
		dst[i] = float32(std * normal((float64(u>>12)+0.5)*(1.0/(1<<52))))
	}
}

// splitMix is SplitMix64's finaliser (Steele et al., OOPSLA'14).
func splitMix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// normal is the inverse of the normal distribution's cumulative function, Wichura's algorithm AS 241 (PPND7; Applied
// Statistics 37, 1988), |error| ≤ 2e-7·max(1, |x|), for 0 < p < 1. Conversions to float64 keep compilers from fusing a product
// and a sum, which would give other bits on other machines; math.Log is avoided for the same reason.
func normal(p float64) float64 {
	q := p - 0.5
	if math.Abs(q) <= 0.425 {
		r := 0.180625 - float64(q*q)
		return q * cubic(r, 59.109374720, 159.29113202, 50.434271938, 3.3871327179) /
			cubic(r, 67.187563600, 78.757757664, 17.895169469, 1)
	}
	r := math.Sqrt(-logarithm(min(p, 1-p)))
	if r <= 5 {
		r -= 1.6
		r = cubic(r, 0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777) / cubic(r, 0, 0.12021132975, 0.73700164250, 1)
	} else {
		r -= 5
		r = cubic(r, 0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150) / cubic(r, 0, 0.012258202635, 0.24197894225, 1)
	}
	return math.Copysign(r, q)
}

// cubic is ax³ + bx² + cx + d by Horner's rule.
func cubic(x, a, b, c, d float64) float64 {
	return float64((float64((float64(a*x)+b)*x)+c)*x) + d
}

// logarithm is ln x by 2·artanh((m−1)/(m+1)) over a mantissa in [√½, √2); |error| ≤ 1e-12.
func logarithm(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	s := (m - 1) / (m + 1)
	q := float64(s * s)
	high := cubic(q, 1.0/15, 1.0/13, 1.0/11, 1.0/9)
	series := cubic(q, float64(high*q)+1.0/7, 1.0/5, 1.0/3, 1)
	return float64(float64(2*s)*series) + float64(float64(e)*math.Ln2)
}
