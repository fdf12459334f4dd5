package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// newBF16 returns a random (m,n) operand in the given form, of bf16 or of float32 to round, and the float32
// matrix of its values.
func newBF16(r *rand.Rand, m, n int, f form, half bool, off int) (MatBF16, Mat) {
	x := newMat(r, m, n, f, off)
	v := x
	v.Data = make([]float32, len(x.Data))
	h := make([]uint16, len(x.Data))
	roundBF16Generic(h, x.Data)
	widenBF16Generic(v.Data, h)
	b := x.BF16()
	if half {
		b.F32, b.Half = nil, h[:len(h):len(h)]
	}
	return b, v
}

// roundsOneByOne tells whether the bf16 product rounds after each k. VDPBF16PS is defined so, and then its
// bits are the float32 product's; a CPU that rounds once a pair has the documented bound alone.
func roundsOneByOne(s Set) bool {
	one := RowMajor([]float32{1, 1}, 1, 2, 2)
	c := RowMajor([]float32{0x1p24}, 1, 1, 1)
	s.GemmBF16(c, one.BF16(), one.T().BF16(), true, make([]float32, GemmWorkspace(1, 1, 2)))
	return c.Data[0] == 0x1p24
}

func TestGemmBF16Small(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		oneByOne := roundsOneByOne(s)
		if !oneByOne && s.Name() != "avx512bf16" && s.Name() != "avx512amx" {
			t.Error("a pair of products is summed with one rounding, want two")
		}
		dims := []int{0, 1, 2, 3, 5, 6, 7, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 66, 67}
		for trial := range 400 {
			pick := func() int {
				if r.IntN(2) == 0 {
					return r.IntN(68)
				}
				return dims[r.IntN(len(dims))]
			}
			m, n, k := pick(), pick(), pick()
			if trial%80 == 0 {
				n, k = 100+r.IntN(100), 500+r.IntN(100)
			}
			fa, fb, acc := form(r.IntN(3)), form(r.IntN(3)), r.IntN(2) == 0
			ha, hb := r.IntN(2) == 0, r.IntN(2) == 0
			a, av := newBF16(r, m, k, fa, ha, r.IntN(4))
			b, bv := newBF16(r, k, n, fb, hb, r.IntN(4))
			g, c := newC(r, m, n, 5, r.IntN(8))
			c0 := clone(c)
			what := fmt.Sprintf("trial %d (%d,%d,%d) forms %d %d half %v %v acc %v", trial, m, n, k, fa, fb, ha, hb, acc)
			s.GemmBF16(c, a, b, acc, workspace(r, m, n, k))
			g.check(t, what)
			checkGemm(t, what, c, c0, av, bv, acc, 1)

			same := func(form string, got Mat) {
				t.Helper()
				if i := diffBits(got.Data, c.Data); i >= 0 {
					t.Fatalf("%s: %s differs at %d: got %v, want %v", what, form, i, got.Data[i], c.Data[i])
				}
			}
			p := PackedBF16{make([]uint32, PackedBF16Len(k, n)), k, n}
			s.PackBF16(p, b, 0, n)
			c2 := clone(c0)
			s.GemmBF16Packed(c2, a, p, 0, acc, workspace(r, m, n, k))
			same("packed form", c2)
			if oneByOne {
				c2 = clone(c0)
				s.Gemm(c2, av, bv, acc, workspace(r, m, n, k))
				same("the float32 product of the values", c2)
			}
		}
	})
}

// TestGemmBF16Splits: the bits do not depend on how rows, columns, or the sum at multiples of 32, are cut; in all
// sets but avx512amx at even places.
func TestGemmBF16Splits(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		unit := 2
		if s.Name() == "avx512amx" {
			unit = 32
		}
		for _, d := range [][3]int{{67, 83, 61}, {7, 800, 530}, {160, 33, 1070}, {1, 100, 600}} {
			m, n, k := d[0], d[1], d[2]
			a, _ := newBF16(r, m, k, rows, false, 1)
			b, _ := newBF16(r, k, n, columns, true, 3)
			_, c0 := newC(r, m, n, 1, 0)
			ws := workspace(r, m, n, k)
			for _, acc := range []bool{false, true} {
				ref := clone(c0)
				s.GemmBF16(ref, a, b, acc, ws)
				same := func(what string, got Mat) {
					t.Helper()
					if i := diffBits(got.Data, ref.Data); i >= 0 {
						t.Fatalf("%v acc %v %s: differs at %d: got %v, want %v", d, acc, what, i, got.Data[i], ref.Data[i])
					}
				}
				for range 4 {
					c := clone(c0)
					for i, j := 0, 0; i < m; i = j {
						j = min(m, i+1+r.IntN(1+m/2))
						s.GemmBF16(c.Slice(i, j, 0, n), a.Slice(i, j, 0, k), b, acc, ws)
					}
					same("rows split", c)
					c = clone(c0)
					for i, j := 0, 0; i < n; i = j {
						j = min(n, i+1+r.IntN(1+n/2))
						s.GemmBF16(c.Slice(0, m, i, j), a, b.Slice(0, k, i, j), acc, ws)
					}
					same("columns split", c)
					c = clone(c0)
					for i, j := 0, 0; i < k; i = j {
						j = min(k, i+unit*(1+r.IntN(1+k/2/unit)))
						s.GemmBF16(c, a.Slice(0, m, i, j), b.Slice(i, j, 0, n), acc || i > 0, ws)
					}
					same("sum split", c)
				}
				p := PackedBF16{make([]uint32, PackedBF16Len(k, n)), k, n}
				mid := roundUp(n/2, PanelCols)
				s.PackBF16(p, b, mid, n)
				s.PackBF16(p, b, 0, mid)
				c := clone(c0)
				s.GemmBF16Packed(c.Slice(0, m, 0, mid), a, p, 0, acc, ws)
				s.GemmBF16Packed(c.Slice(0, m, mid, n), a, p, mid, acc, ws)
				same("packed, columns split", c)
			}
		}
	})
}

// TestGemmBF16Special: a NaN or an infinity reaches its row or column alone; denormals stay in the bound.
func TestGemmBF16Special(t *testing.T) {
	inf := float32(math.Inf(1))
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		m, n, k := 13, 37, 29
		ws := workspace(r, m, n, k)
		for _, bad := range []float32{float32(math.NaN()), math.Float32frombits(0x7f800001), math.Float32frombits(0xffffffff), inf, -inf} {
			for _, f := range []form{rows, columns} {
				x, y := newMat(r, m, k, f, 0), newMat(r, k, n, f, 0)
				x.Data[7*x.RowStride+11*x.ColStride] = bad
				y.Data[5*y.RowStride+36*y.ColStride] = bad
				_, c := newC(r, m, n, 0, 0)
				s.GemmBF16(c, x.BF16(), y.BF16(), false, ws)
				for i := range m {
					for j := range n {
						v := float64(c.at(i, j))
						if finite := !math.IsNaN(v) && !math.IsInf(v, 0); finite != (i != 7 && j != 36) {
							t.Fatalf("%v form %d: C[%d,%d] = %v", bad, f, i, j, v)
						}
					}
				}
			}
		}
		// Products and sums on both sides of 2⁻¹²⁶, and denormal elements.
		x, y := newMat(r, m, k, rows, 0), newMat(r, k, n, rows, 0)
		for i := range x.Data {
			x.Data[i] *= 0x1p-62
		}
		for i := range y.Data {
			y.Data[i] *= 0x1p-64
		}
		x.Data[3], y.Data[5] = 0x1p-130, 0x1p-128
		a, av := newBF16(r, m, k, rows, true, 0)
		b, bv := newBF16(r, k, n, rows, true, 0)
		copyMat(av, x)
		copyMat(bv, y)
		roundBF16Generic(a.Half, av.Data)
		roundBF16Generic(b.Half, bv.Data)
		widenBF16Generic(av.Data, a.Half)
		widenBF16Generic(bv.Data, b.Half)
		_, c := newC(r, m, n, 0, 0)
		s.GemmBF16(c, a, b, false, ws)
		for i := range m {
			for j := range n {
				var want, size float64
				for q := range k {
					p := float64(av.at(i, q)) * float64(bv.at(q, j))
					want, size = want+p, size+math.Abs(p)
				}
				bound := float64(k+1)*0x1p-23*size + float64(k)*0x1p-125
				if v := float64(c.at(i, j)); !(math.Abs(v-want) <= bound) {
					t.Fatalf("denormals: C[%d,%d] got %v, want %v ± %v", i, j, v, want, bound)
				}
			}
		}
	})
}

func TestGemmBF16Allocs(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		for _, half := range []bool{false, true} {
			a, _ := newBF16(r, 9, 40, rows, half, 0)
			b, _ := newBF16(r, 40, 21, columns, half, 0)
			_, c := newC(r, 9, 21, 0, 0)
			ws := workspace(r, 9, 21, 40)
			p := PackedBF16{make([]uint32, PackedBF16Len(40, 21)), 40, 21}
			if got := testing.AllocsPerRun(20, func() {
				s.GemmBF16(c, a, b, true, ws)
				s.PackBF16(p, b, 0, 21)
				s.GemmBF16Packed(c, a, p, 0, true, ws)
			}); got != 0 {
				t.Errorf("half %v: the bf16 product allocates %v times, want 0", half, got)
			}
		}
	})
}

func BenchmarkGemmBF16(b *testing.B) {
	for _, s := range Sets()[1:] {
		for _, d := range [][3]int{{768, 768, 768}, {512, 2048, 2048}} {
			m, n, k := d[0], d[1], d[2]
			r := newRand()
			x, _ := newBF16(r, m, k, rows, true, 0)
			w, _ := newBF16(r, n, k, rows, false, 0)
			h, _ := newBF16(r, k, n, rows, true, 0)
			_, c := newC(r, m, n, 0, 0)
			ws := workspace(r, m, n, k)
			p := PackedBF16{make([]uint32, PackedBF16Len(k, n)), k, n}
			s.PackBF16(p, h, 0, n)
			for name, f := range map[string]func(){
				"xWt":    func() { s.GemmBF16(c, x, w.T(), false, ws) },
				"xH":     func() { s.GemmBF16(c, x, h, false, ws) },
				"packed": func() { s.GemmBF16Packed(c, x, p, 0, false, ws) },
			} {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/%s/bf16", s.Name(), m, n, k, name), func(b *testing.B) {
					for b.Loop() {
						f()
					}
					b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
				})
			}
		}
	}
}
