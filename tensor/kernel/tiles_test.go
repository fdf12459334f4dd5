package kernel

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestTileOrder: the product of tiles sums in the order that GemmBF16 documents, where this CPU has them.
func TestTileOrder(t *testing.T) {
	s, ok := AVX512AMX()
	if !ok {
		return // there is nothing here whose order could be wrong
	}
	r := newRand()
	for _, d := range [][3]int{{1, 1, 1}, {3, 5, 33}, {17, 20, 64}, {40, 33, 100}, {33, 50, 1100}} {
		m, n, k := d[0], d[1], d[2]
		a, av := newBF16(r, m, k, rows, true, 0)
		b, bv := newBF16(r, k, n, rows, true, 0)
		for _, acc := range []bool{false, true} {
			_, c := newC(r, m, n, 0, 0)
			c0 := clone(c)
			s.GemmBF16(c, a, b, acc, workspace(r, m, n, k))
			for i := range m {
				for j := range n {
					sum := float32(0)
					if acc {
						sum = c0.at(i, j)
					}
					for at := 0; at < k; at += 32 {
						var part [2]float32
						for q := at; q < min(at+32, k); q++ { // products are exact, and so is the sum in float64 here
							p := &part[q%2]
							*p = float32(float64(*p) + float64(av.at(i, q))*float64(bv.at(q, j)))
						}
						sum += part[0] + part[1]
					}
					if got := c.at(i, j); math.Float32bits(got) != math.Float32bits(sum) {
						t.Fatalf("%v acc %v: C[%d,%d] got %v, want %v", d, acc, i, j, got, sum)
					}
				}
			}
		}
	}
}

// TestPartsOrder: the product of parts sums in the order that Parts documents, where this CPU has tiles, and is nearer to the exact one than
// the product by multiply-adds.
func TestPartsOrder(t *testing.T) {
	s, ok := AVX512AMX()
	if !ok {
		return // there is nothing here whose order could be wrong
	}
	p := s.Parts()
	r := newRand()
	for _, d := range [][3]int{{1, 1, 1}, {3, 5, 33}, {17, 20, 64}, {40, 33, 100}, {33, 50, 700}} {
		m, n, k := d[0], d[1], d[2]
		a, b := newMat(r, m, k, form(r.IntN(3)), 0), newMat(r, k, n, form(r.IntN(3)), 0)
		for _, acc := range []bool{false, true} {
			_, c := newC(r, m, n, 0, 0)
			c0, plain := clone(c), clone(c)
			p.Gemm(c, a, b, acc, workspace(r, m, n, k))
			s.Gemm(plain, a, b, acc, workspace(r, m, n, k))
			var far, plainFar float64
			for i := range m {
				for j := range n {
					sum, exact := float32(0), 0.0
					if acc {
						sum = c0.at(i, j)
						exact = float64(sum)
					}
					for at := 0; at < k; at += amxK {
						for _, w := range [][2]int{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}} {
							var part [2]float32
							for q := at; q < min(at+amxK, k); q++ { // products are exact, and so is the sum in float64 here
								x, y := split(a.at(i, q))[w[0]], split(b.at(q, j))[w[1]]
								v := &part[q%2]
								*v = float32(float64(*v) + float64(widened(x))*float64(widened(y)))
							}
							sum += part[0] + part[1]
						}
					}
					for q := range k {
						exact += float64(a.at(i, q)) * float64(b.at(q, j))
					}
					got := c.at(i, j)
					if math.Float32bits(got) != math.Float32bits(sum) {
						t.Fatalf("%v acc %v: C[%d,%d] got %v, want %v", d, acc, i, j, got, sum)
					}
					far += math.Pow(float64(got)-exact, 2)
					plainFar += math.Pow(float64(plain.at(i, j))-exact, 2)
				}
			}
			if k >= 64 && far > plainFar {
				t.Errorf("%v acc %v: squares of errors sum to %g, want at most %g as by multiply-adds", d, acc, far, plainFar)
			}
		}
	}
}

// TestPartsExtremes: the order of Parts holds for floats of any size, with parts and sums below 2⁻¹²⁶ counted as zero, and what is not finite, or too
// large for a bf16, makes NaN.
func TestPartsExtremes(t *testing.T) {
	s, ok := AVX512AMX()
	if !ok {
		return // there is nothing here whose order could be wrong
	}
	p, r := s.Parts(), newRand()
	special := []float32{0, float32(math.Copysign(0, -1)), 1, 3e38, 3.38e38, math.MaxFloat32, 1e19, 1e-30, 0x1p-126, 1e-38, 0x1p-149, float32(math.Inf(1)), float32(math.NaN())}
	kinds := []func() float32{
		func() float32 { return math.Float32frombits(r.Uint32()) }, func() float32 { return float32(math.Ldexp(1+r.Float64(), r.IntN(120)-60)) },
		func() float32 { return special[r.IntN(len(special))] }, func() float32 { return special[r.IntN(len(special)-4)] * (1 - 2*float32(r.IntN(2))) },
	}
	large := func(x float32) bool { return !(math.Abs(float64(x)) < math.Ldexp(1-0x1p-9, 128)) }
	for trial := range 20 {
		m, n, k := 1+r.IntN(40), 1+r.IntN(40), 1+r.IntN(70)
		kind := kinds[trial%len(kinds)]
		a, b := newMat(r, m, k, form(r.IntN(3)), 0), newMat(r, k, n, form(r.IntN(3)), 0)
		for i := range a.Data {
			a.Data[i] = kind()
		}
		for i := range b.Data {
			b.Data[i] = kind()
		}
		_, c := newC(r, m, n, 0, 0)
		c0, acc := clone(c), trial%2 == 0
		p.Gemm(c, a, b, acc, workspace(r, m, n, k))
		for i := range m {
			for j := range n {
				sum, bad := float32(0), false
				if acc {
					sum = c0.at(i, j)
				}
				for at := 0; at < k; at += amxK {
					for _, w := range [][2]int{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}} {
						var part [2]float32
						for q := at; q < min(at+amxK, k); q++ {
							x, y := a.at(i, q), b.at(q, j)
							bad = bad || large(x) || large(y)
							part[q%2] = addFlushed(part[q%2], float64(flushed(widened(split(x)[w[0]])))*float64(flushed(widened(split(y)[w[1]]))))
						}
						sum = addFlushed(flushed(sum), float64(addFlushed(part[0], float64(part[1]))))
					}
				}
				got := c.at(i, j)
				if same := math.Float32bits(got) == math.Float32bits(sum) || got != got && sum != sum; !same || bad && got == got {
					t.Fatalf("trial %d (%d,%d,%d) acc %v: C[%d,%d] got %v, want %v, NaN %v", trial, m, n, k, acc, i, j, got, sum, bad)
				}
			}
		}
	}
}

// flushed is x, or a zero where that is below 2⁻¹²⁶.
func flushed(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

// addFlushed is a+b rounded once to a float32, and flushed: the sum in float64 is rounded to odd, so that rounding it again does no harm.
func addFlushed(a float32, b float64) float32 {
	x := float64(a)
	s := x + b
	if math.IsInf(s, 0) || s != s {
		return float32(s)
	}
	y := s - x
	if e := (x - (s - y)) + (b - y); e != 0 && math.Float64bits(s)&1 == 0 {
		if (e > 0) == (s > 0) {
			s = math.Float64frombits(math.Float64bits(s) + 1)
		} else {
			s = math.Float64frombits(math.Float64bits(s) - 1)
		}
	}
	return flushed(float32(s))
}

// TestSplit: the parts of a float are bf16 whose sum it is, each at most half a unit of the one before.
func TestSplit(t *testing.T) {
	r := newRand()
	for range 100000 {
		x := math.Float32frombits(r.Uint32())
		if size := math.Abs(float64(x)); !(size > 0x1p-100 && size < 0x1p127) {
			continue
		}
		p := split(x)
		if sum := float64(widened(p[0])) + float64(widened(p[1])) + float64(widened(p[2])); sum != float64(x) {
			t.Fatalf("%v has parts %v, whose sum is %v", x, p, sum)
		}
		for i := range p[1:] {
			if a, b := math.Abs(float64(widened(p[i]))), math.Abs(float64(widened(p[i+1]))); b > a*0x1p-8 {
				t.Fatalf("%v: part %d is %v, after %v", x, i+1, b, a)
			}
		}
	}
}

// widened is a bf16 as a float.
func widened(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// TestGemmBF16Round: the product that is rounded to bf16 as it is stored, with B packed before or not, has the bits of rounding afterwards.
func TestGemmBF16Round(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		for trial := range 150 {
			m, n, k := r.IntN(70), r.IntN(70), r.IntN(70)
			if trial%30 == 0 {
				n, k = 300+r.IntN(100), 500+r.IntN(600)
			}
			a, _ := newBF16(r, m, k, form(r.IntN(3)), r.IntN(2) == 0, r.IntN(4))
			b, _ := newBF16(r, k, n, form(r.IntN(3)), r.IntN(2) == 0, r.IntN(4))
			if m*k > 0 && trial%3 == 0 {
				for i := range 2 { // a NaN and an infinity
					bad := []float32{float32(math.NaN()), float32(math.Inf(1))}[i]
					if a.Half != nil {
						a.Half[i*(len(a.Half)-1)] = roundBF16(bad)
					} else {
						a.F32[i*(len(a.F32)-1)] = bad
					}
				}
			}
			ld := n + r.IntN(3)
			const mark = 0x1234
			out := make([]uint16, m*ld+8)
			for i := range out {
				out[i] = mark
			}
			to := RowMajorBF16(out, m, n, ld)
			from := MatBF16{}
			acc, place := r.IntN(2) == 0, r.IntN(2) == 0
			_, c := newC(r, m, n, 3, 0)
			want := clone(c)
			if acc {
				from = RowMajorBF16(make([]uint16, m*(n+2)), m, n, n+2)
				if place {
					from = to
				}
				for i := range m {
					row := from.Half[i*from.RowStride:][:n]
					roundBF16Generic(row, c.Data[i*c.RowStride:][:n])
					widenBF16Generic(want.Data[i*c.RowStride:], row)
				}
			}
			s.GemmBF16(want, a, b, acc, workspace(r, m, n, k))
			if trial%2 == 0 {
				packed := PackedBF16{make([]uint32, PackedBF16Len(k, n)), k, n}
				s.PackBF16(packed, b, 0, n)
				s.GemmBF16PackedRound(to, from, a, packed, 0, c, workspace(r, m, n, k))
			} else {
				s.GemmBF16Round(to, from, a, b, c, workspace(r, m, n, k))
			}
			for i, got := range out {
				w := uint16(mark)
				if row := i / max(ld, 1); row < m && i%max(ld, 1) < n {
					w = roundBF16(want.at(row, i%ld))
				}
				if got != w {
					t.Fatalf("trial %d (%d,%d,%d) acc %v: element %d got %#x, want %#x", trial, m, n, k, acc, i, got, w)
				}
			}
		}
	})
}

// TestGemmBF16Interrupted: signals, preemption, collections and more goroutines than threads leave the sums alone.
// Registers of tiles are a part of a thread that few signal frames and switches carry.
func TestGemmBF16Interrupted(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		if s == Generic() {
			return // plain Go
		}
		r := newRand()
		const m, n, k, workers = 70, 330, 700, 8
		a, _ := newBF16(r, m, k, rows, false, 0)
		b, _ := newBF16(r, k, n, columns, true, 0)
		_, want := newC(r, m, n, 0, 0)
		s.GemmBF16(want, a, b, false, workspace(r, m, n, k))
		stop := make(chan struct{})
		var work, noise sync.WaitGroup
		for i := range workers {
			c := clone(want)
			ws := workspace(r, m, n, k)
			work.Go(func() {
				for range 20 {
					clear(c.Data)
					s.GemmBF16(c, a, b, false, ws)
					if at := diffBits(c.Data, want.Data); at >= 0 {
						t.Errorf("goroutine %d: element %d got %v, want %v", i, at, c.Data[at], want.Data[at])
						return
					}
				}
			})
		}
		noise.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC() // stops every thread by signals
					time.Sleep(50 * time.Microsecond)
				}
			}
		})
		work.Wait()
		close(stop)
		noise.Wait()
	})
}
