package golden

import (
	"math"
	"testing"
)

// MaxAbs returns max|v| over values, 0 for none, and NaN if any value is NaN.
func MaxAbs[T float32 | float64](values []T) float64 {
	largest := 0.0
	for _, v := range values {
		a := math.Abs(float64(v))
		if a > largest || math.IsNaN(a) {
			largest = a
		}
		if math.IsNaN(largest) {
			return largest
		}
	}
	return largest
}

// MaxDiff returns max|got−want| and where it is, −1 for empty slices. Equal infinities differ by 0; a NaN on either side gives NaN
// there. It panics when the lengths differ.
func MaxDiff[T float32 | float64](got, want []T) (diff float64, at int) {
	if len(got) != len(want) {
		panic("golden: MaxDiff of slices of different lengths")
	}
	at = -1
	for i, w := range want {
		g := got[i]
		d := 0.0
		if g != w {
			d = math.Abs(float64(g) - float64(w))
		}
		if math.IsNaN(d) {
			return d, i
		}
		if at < 0 || d > diff {
			diff, at = d, i
		}
	}
	return diff, at
}

// Close checks that max|got−want| ≤ rel·max|want|, reports a failure of t otherwise, and returns the measured ratio. The bound is
// over the whole tensor, so that values far smaller than its largest are not held to their own relative error. A NaN anywhere fails.
// Where want is all zero, got must be too.
func Close[T float32 | float64](t testing.TB, name string, got, want []T, rel float64) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d values, want %d", name, len(got), len(want))
		return math.Inf(1)
	}
	diff, at := MaxDiff(got, want)
	if at < 0 {
		return 0
	}
	ratio := 0.0
	if diff != 0 {
		ratio = diff / MaxAbs(want)
	}
	if !(ratio <= rel) { // also when NaN
		t.Errorf("%s[%d]: got %v, want %v: max|got-want| is %.3g of max|want| %.3g, bound %.3g",
			name, at, got[at], want[at], ratio, MaxAbs(want), rel)
	}
	return ratio
}
