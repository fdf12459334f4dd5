package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"loadline/tensor/dtype"
)

// TestF16IsDtypes compares the quick conversions with dtype's: every f16, and float32s around each of them and at random.
func TestF16IsDtypes(t *testing.T) {
	check := func(x float32) {
		var got [1]uint16
		if roundF16(got[:], []float32{x}); got[0] != dtype.ToF16(x) {
			t.Fatalf("%g (%#x) became %#x, want %#x", x, math.Float32bits(x), got[0], dtype.ToF16(x))
		}
	}
	rng := rand.New(rand.NewPCG(3, 5))
	for h := range 1 << 16 {
		var got [1]float32
		want := dtype.FromF16(uint16(h))
		if widenF16(got[:], []uint16{uint16(h)}); math.Float32bits(got[0]) != math.Float32bits(want) {
			t.Fatalf("%#x became %g, want %g", h, got[0], want)
		}
		b := math.Float32bits(want)
		for _, d := range []uint32{0, 1, 2, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, ^uint32(0), ^uint32(0xfff)} {
			check(math.Float32frombits(b + d))
		}
		check(math.Float32frombits(rng.Uint32()))
		check(float32(rng.NormFloat64()) * 0x1p-20) // ties and more below the normal numbers
		check(float32(rng.IntN(1<<12)) * 0x1p-25)
	}
}
