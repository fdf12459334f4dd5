package dtype

import (
	"math"
	"testing"
)

func TestE4M3RoundTripAndRounding(t *testing.T) {
	for h := range 256 {
		f := FromE4M3(uint8(h))
		if nan := h&0x7f == 0x7f; nan != math.IsNaN(float64(f)) {
			t.Fatalf("FromE4M3(%#x) = %g", h, f)
		}
		if got := ToE4M3(f); got != uint8(h) {
			t.Fatalf("ToE4M3(FromE4M3(%#x)) = %#x", h, got)
		}
	}
	widen := func(h uint16) float32 { return FromE4M3(uint8(h)) }
	for x := 1.0 / 4096; x < 448; x *= 1.0078125 { // every halfway point and both of its sides lie among multiples of 2⁻⁷
		for _, y := range []float64{x, math.Trunc(x*128) / 128, (math.Trunc(x*1024) + 0.5) / 1024} {
			y := float64(float32(y))
			if got, want := ToE4M3(float32(y)), nearest(y, widen, 0x7f); uint16(got) != want {
				t.Fatalf("ToE4M3(%g) = %#x, want %#x", y, got, want)
			}
			if got, want := ToE4M3(float32(-y)), 0x80|nearest(y, widen, 0x7f); uint16(got) != want {
				t.Fatalf("ToE4M3(%g) = %#x, want %#x", -y, got, want)
			}
		}
	}
	for x, want := range map[float32]uint8{448: 0x7e, 449: 0x7e, 1e30: 0x7e, -1e30: 0xfe, 0x1p-6: 0x08, 0x1p-9: 0x01, 0x1p-10: 0, 0x1.8p-9: 0x02} {
		if got := ToE4M3(x); got != want {
			t.Errorf("ToE4M3(%g) = %#x, want %#x", x, got, want)
		}
	}
	for _, x := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
		if got := ToE4M3(x) & 0x7f; got != 0x7f {
			t.Errorf("ToE4M3(%g) = %#x, want NaN", x, got)
		}
	}
}
