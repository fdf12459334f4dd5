package dtype

import (
	"math"
	"testing"
)

// nearest is the definition: the representable neighbour with the smallest distance, ties to even.
func nearest(x float64, widen func(uint16) float32, maxBits uint16) uint16 {
	best, bestD := uint16(0), math.Inf(1)
	for h := range maxBits {
		d := math.Abs(float64(widen(h)) - x)
		if d < bestD || d == bestD && h&1 == 0 {
			best, bestD = h, d
		}
	}
	return best
}

func TestF16RoundTripAndRounding(t *testing.T) {
	for h := range uint32(1 << 16) {
		f := FromF16(uint16(h))
		if math.IsNaN(float64(f)) {
			continue
		}
		if got := ToF16(f); got != uint16(h) {
			t.Fatalf("ToF16(FromF16(%#x)) = %#x", h, got)
		}
	}
	for _, x := range []float64{5.96e-8, 2.98e-8, 2.9802322387695312e-8, 2.99e-8, 6.1e-5, 6.097e-5, 1.0004883, 1.00048828125, 1.00146484375, 65503, 65519, 0.1, 3.14159, 1e-6} {
		if got, want := ToF16(float32(x)), nearest(float64(float32(x)), FromF16, 0x7c00); got != want {
			t.Errorf("ToF16(%g) = %#x, want %#x", x, got, want)
		}
	}
	if ToF16(65520) != 0x7c00 || ToF16(float32(math.Inf(-1))) != 0xfc00 {
		t.Error("overflow does not go to infinity")
	}
}

func TestBF16RoundTripAndRounding(t *testing.T) {
	for h := range uint32(1 << 16) {
		f := FromBF16(uint16(h))
		if !math.IsNaN(float64(f)) && ToBF16(f) != uint16(h) {
			t.Fatalf("ToBF16(FromBF16(%#x)) = %#x", h, ToBF16(f))
		}
	}
	for _, x := range []float32{1.00390625, 1.01171875, 0.1, 3.14159, 1e-30, 65504} {
		if got, want := ToBF16(x), nearest(float64(x), FromBF16, 0x7f80); got != want {
			t.Errorf("ToBF16(%g) = %#x, want %#x", x, got, want)
		}
	}
	if !math.IsNaN(float64(FromBF16(ToBF16(float32(math.NaN()))))) {
		t.Error("NaN is lost")
	}
}
