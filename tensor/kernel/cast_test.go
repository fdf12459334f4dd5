package kernel

import (
	"fmt"
	"math"
	"testing"

	"loadline/tensor/dtype"
)

// halfSlice is n bf16 between guards.
func halfSlice(n, off int) (all, v []uint16) {
	all = make([]uint16, 16+off+n+16)
	for i := range all {
		all[i] = 0xabcd
	}
	return all, all[16+off:][:n:n]
}

func checkHalf(t *testing.T, what string, all []uint16, n, off int) {
	t.Helper()
	for i, h := range all {
		if (i < 16+off || i >= 16+off+n) && h != 0xabcd {
			t.Fatalf("%s: wrote %#x at %d, outside the slice of %d", what, h, i, n)
		}
	}
}

// TestRoundBF16 takes every bf16, its neighbours and every midpoint.
func TestRoundBF16(t *testing.T) {
	var x []float32
	for h := range uint32(1 << 16) {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			x = append(x, math.Float32frombits(h<<16|low))
		}
	}
	eachSet(t, func(t *testing.T, s Set) {
		for off := range 3 {
			in := x[off:]
			all, out := halfSlice(len(in), off)
			s.RoundBF16(out, in)
			checkHalf(t, "RoundBF16", all, len(in), off)
			for i, h := range out {
				if want := dtype.ToBF16(in[i]); h != want {
					t.Fatalf("%v (%#x): got %#x, want %#x", in[i], math.Float32bits(in[i]), h, want)
				}
			}
		}
		for n := range 100 {
			all, out := halfSlice(n, n%5)
			s.RoundBF16(out, x[1000:][:n])
			checkHalf(t, "RoundBF16", all, n, n%5)
		}
	})
}

func TestWidenBF16(t *testing.T) {
	x := make([]uint16, 1<<16)
	for i := range x {
		x[i] = uint16(i)
	}
	eachSet(t, func(t *testing.T, s Set) {
		for _, n := range []int{0, 1, 31, 32, 33, 63, 64, 65, 1 << 16} {
			g := newGuarded(n, n%3)
			s.WidenBF16(g.v, x[:n])
			g.check(t, "WidenBF16")
			for i, v := range g.v {
				if got := math.Float32bits(v); got != uint32(i)<<16 {
					t.Fatalf("%#x: got %#x", i, got)
				}
			}
		}
	})
}

// TestF16 compares the conversions of every f16, and of float32s around each of them and below the normal ones, with
// tensor/dtype's.
func TestF16(t *testing.T) {
	r := newRand()
	var h []uint16
	var x []float32
	for i := range 1 << 16 {
		h = append(h, uint16(i))
		b := math.Float32bits(dtype.FromF16(uint16(i)))
		for _, d := range []uint32{0, 1, 2, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, ^uint32(0), ^uint32(0xfff)} {
			x = append(x, math.Float32frombits(b+d))
		}
		x = append(x, math.Float32frombits(r.Uint32()), float32(r.NormFloat64())*0x1p-20, float32(r.IntN(1<<12))*0x1p-25)
	}
	eachSet(t, func(t *testing.T, s Set) {
		for _, n := range []int{len(h), 0, 1, 31, 32, 33, 95} {
			g := newGuarded(n, n%3)
			s.WidenF16(g.v, h[:n])
			g.check(t, "WidenF16")
			for i, v := range g.v {
				want := dtype.FromF16(h[i])
				if math.Float32bits(v) != math.Float32bits(want) && !(want != want && math.Float32bits(v) == math.Float32bits(want)|0x400000) {
					t.Fatalf("%#x: got %v, want %v", h[i], v, want)
				}
			}
		}
		for _, n := range []int{len(x), 0, 1, 31, 32, 33, 95} {
			all, out := halfSlice(n, n%5)
			s.RoundF16(out, x[:n])
			checkHalf(t, "RoundF16", all, n, n%5)
			for i, got := range out {
				if want := dtype.ToF16(x[i]); got != want {
					t.Fatalf("%v (%#x): got %#x, want %#x", x[i], math.Float32bits(x[i]), got, want)
				}
			}
		}
	})
}

// TestPhilox holds the known answers of Random123 1.14, kat_vectors, philox2x32 with 10 rounds.
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		key     uint32
		counter uint64
		want    [2]uint32
	}{
		{0, 0, [2]uint32{0xff1dae59, 0x6cd10df2}},
		{0xffffffff, 1<<64 - 1, [2]uint32{0x2c3f628b, 0xab4fd7ad}},
		{0x13198a2e, 0x85a308d3_243f6a88, [2]uint32{0xdd7ce038, 0xf62a4c12}},
	} {
		if got := philox(c.key, c.counter); got != c.want {
			t.Errorf("philox(%#x, %#x) got %#x, want %#x", c.key, c.counter, got, c.want)
		}
	}
}

// TestStochasticSets: sets agree bit for bit, wherever a tensor is cut, and counters carry.
func TestStochasticSets(t *testing.T) {
	r := newRand()
	x := random(r, 300)
	x[3], x[40], x[41], x[100] = float32(math.NaN()), float32(math.Inf(-1)), math.Float32frombits(0x7f800001), 0x1p-130
	for _, first := range []uint64{0, 7, 32, 4<<32 - 96, 1<<34 - 50, 1<<63 + 13} {
		want := make([]uint16, len(x))
		for i := range x {
			stochasticBF16Generic(want[i:i+1], x[i:i+1], 99, first+uint64(i))
		}
		eachSet(t, func(t *testing.T, s Set) {
			for lo := 0; lo <= len(x); lo += 1 + r.IntN(30) {
				hi := lo + r.IntN(len(x)-lo+1)
				all, out := halfSlice(hi-lo, 1)
				s.StochasticBF16(out, x[lo:hi], 99, first+uint64(lo))
				what := fmt.Sprintf("first %d [%d:%d]", first, lo, hi)
				checkHalf(t, what, all, hi-lo, 1)
				for i, h := range out {
					if h != want[lo+i] {
						t.Fatalf("%s at %d of %v: got %#x, want %#x", what, i, x[lo+i], h, want[lo+i])
					}
				}
			}
		})
	}
}

// TestStochasticUnbiased counts how often each of many values rounds away from zero: the counts follow the
// binomial distribution, and neighbours in the tensor are independent.
func TestStochasticUnbiased(t *testing.T) {
	const n = 1 << 18
	eachSet(t, func(t *testing.T, s Set) {
		if s == Generic() && len(Sets()) > 1 {
			return // the same bits by TestStochasticSets
		}
		x, out := make([]float32, n), make([]uint16, n)
		for trial, frac := range []uint32{0, 1, 0x10, 0x1000, 0x4000, 0x8000, 0xc000, 0xffff} {
			for _, base := range []uint32{0x3f800000, 0xbf800000, 0x3fff0000, 0x00050000, 0xff7e0000} {
				for i := range x {
					x[i] = math.Float32frombits(base | frac)
				}
				s.StochasticBF16(out, x, uint32(trial)*77+base>>20, uint64(trial)<<20)
				up, both := 0, 0
				for i, h := range out {
					switch uint32(h) - base>>16 {
					case 1:
						up++
						if i > 0 && uint32(out[i-1]) == base>>16+1 {
							both++
						}
					case 0:
					default:
						t.Fatalf("%v became %v", x[i], dtype.FromBF16(h))
					}
				}
				p := float64(frac) / 0x10000
				// Of n draws, and of n-1 overlapping pairs.
				for _, c := range []struct {
					what      string
					got       int
					mean, vrc float64
				}{{"up", up, n * p, n * p * (1 - p)}, {"pairs up", both, (n - 1) * p * p, n * (p*p + 2*p*p*p - 3*p*p*p*p)}} {
					if slack := 5*math.Sqrt(c.vrc) + 4; math.Abs(float64(c.got)-c.mean) > slack {
						t.Errorf("%v: %s got %d of %d, want %.0f ± %.0f", x[0], c.what, c.got, n, c.mean, slack)
					}
				}
			}
		}
	})
}

func BenchmarkCast(b *testing.B) {
	const n = 4096
	x, h := random(newRand(), n), make([]uint16, n)
	for _, s := range Sets() {
		for name, f := range map[string]func(){
			"RoundBF16":      func() { s.RoundBF16(h, x) },
			"WidenBF16":      func() { s.WidenBF16(x, h) },
			"StochasticBF16": func() { s.StochasticBF16(h, x, 1, 64) },
		} {
			b.Run(fmt.Sprintf("%s/%d/%s", name, n, s.Name()), func(b *testing.B) {
				b.SetBytes(6 * n)
				for b.Loop() {
					f()
				}
				b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
			})
		}
	}
}
