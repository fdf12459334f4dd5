package kernel

import (
	"fmt"
	"math"
	"testing"
)

// Every set's SoftCap is within its bound of float64's, in place and apart, and leaves what is masked.
func TestSoftCap(t *testing.T) {
	for _, s := range Sets() {
		for n := range 68 {
			x, out, tmp := make([]float32, n), make([]float32, n), make([]float32, n)
			for i := range x {
				x[i] = float32(math.Sinh(float64(i*n%97-48) / 8))
			}
			if n > 3 {
				x[1], x[2], x[3] = float32(math.Inf(-1)), 1e30, 1e-30
			}
			s.SoftCap(out, x, tmp, 0.75, 12)
			for i, v := range x {
				want := 12 * math.Tanh(float64(v)*0.75/12)
				if math.IsInf(float64(v), -1) {
					want = math.Inf(-1)
				}
				if got := float64(out[i]); got != want && !(math.Abs(got-want) <= 16*0x1p-24*math.Abs(want)) {
					t.Errorf("%s: softcap of %v: got %v, want %v", s.Name(), v, got, want)
				}
			}
			s.SoftCap(x, x, tmp, 0.75, 12)
			for i := range x {
				if x[i] != out[i] {
					t.Errorf("%s: element %d of %d in place: got %v, want %v", s.Name(), i, n, x[i], out[i])
				}
			}
		}
	}
}

func BenchmarkSoftCap(b *testing.B) {
	x, tmp := make([]float32, 4096), make([]float32, 4096)
	for i := range x {
		x[i] = float32(i%200-100) / 7
	}
	b.Run(fmt.Sprintf("%d/f32", len(x)), func(b *testing.B) {
		s, out := Best(), make([]float32, len(x))
		b.SetBytes(int64(4 * len(x)))
		for b.Loop() {
			s.SoftCap(out, x, tmp, 0.1, 50)
		}
	})
}
