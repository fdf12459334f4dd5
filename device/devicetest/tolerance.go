package devicetest

import (
	"fmt"
	"math"

	"loadline/tensor/dtype"
)

// ulp is the largest relative error of rounding to float32.
const ulp = 1.0 / (1 << 24)

// tolerance bounds |got−want| of an element by ulp·(rel·|want| + top·max|want| + mag·magnitude + abs), plus a few of the
// least float32: max|want| is over the tensor, the magnitude is the element that the same operation makes of the absolute
// values of its operands (right for sums of products, where it is Σ|x|·|y|). The zero tolerance wants the same bits, NaN
// apart, which is any NaN.
type tolerance struct {
	rel, top, mag, abs float64
	half               float64 // roundings of an operand to the compute type inside, beside the largest element
	why                string
}

// unit is the largest relative error of rounding to t, in those of float32.
func unit(t dtype.Type) float64 {
	switch t {
	case dtype.BF16:
		return 1 << 16
	case dtype.F16:
		return 1 << 13
	}
	return 0
}

// in is tol where the compute type is half, for a result of type t: a narrow result is rounded once more, and to the other
// side of a tie where float32 was a little off. Below its normal numbers f16 has steps of 2⁻²⁴; products in bf16 may take
// denormal operands and sums for zero.
func (tol tolerance) in(half, t dtype.Type) tolerance {
	if half == dtype.F32 || tol == (tolerance{why: tol.why}) {
		return tol
	}
	tol.top += tol.half * unit(half)
	switch t {
	case dtype.F16:
		tol.abs += 2
	case dtype.BF16:
		tol.abs += 0x1p-96
	}
	if half == dtype.BF16 {
		tol.abs += 0x1p-96
	}
	tol.rel += 2 * unit(t)
	tol.why += fmt.Sprintf(", in %v", half)
	return tol
}

// exact is for what is copied or counted.
var exact = tolerance{why: "no arithmetic"}

// sums is for a sum of n products in float32, in any order: each element has an error of at most n roundings of partial
// sums, each at most Σ|x|·|y| (Higham, Accuracy and Stability of Numerical Algorithms, §3.1).
func sums(n int) tolerance {
	return tolerance{mag: float64(n) + 4, why: "n roundings of partial sums"}
}

// compare returns what is wrong with got, or "". mags may be nil where tol.mag is 0.
func (tol tolerance) compare(got, want, mags []float64) string {
	if len(got) != len(want) {
		return fmt.Sprintf("got %d elements, want %d", len(got), len(want))
	}
	top := 0.0
	for _, w := range want {
		if !math.IsInf(w, 0) && !math.IsNaN(w) {
			top = max(top, math.Abs(w))
		}
	}
	for i, w := range want {
		g := got[i]
		if math.IsNaN(w) && math.IsNaN(g) || g == w && math.Signbit(g) == math.Signbit(w) {
			continue
		}
		if math.IsNaN(w) || math.IsNaN(g) || math.IsInf(w, 0) || math.IsInf(g, 0) {
			// the reference does not overflow where float32 does
			if math.IsInf(g, 0) && math.Abs(w) > math.MaxFloat32 && math.Signbit(g) == math.Signbit(w) {
				continue
			}
			return fmt.Sprintf("element %d: got %g, want %g", i, g, w)
		}
		bound := tol.rel*math.Abs(w) + tol.top*top + tol.abs
		if tol.mag > 0 {
			bound += tol.mag * math.Abs(mags[i])
		}
		bound *= ulp
		if tol != (tolerance{why: tol.why}) {
			bound += (tol.mag + 4) * math.SmallestNonzeroFloat32
		}
		if d := math.Abs(g - w); d > bound || bound == 0 {
			return fmt.Sprintf("element %d: got %g, want %g, off by %.3g where %.3g is allowed (%s)", i, g, w, d, bound, tol.why)
		}
	}
	return ""
}
