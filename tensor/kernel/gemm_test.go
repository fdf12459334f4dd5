package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// form is how an operand lies in memory.
type form int

const (
	rows    form = iota // ColStride 1
	columns             // RowStride 1
	strided             // neither
)

// eachProduct runs f for every set, and for the set of its Parts.
func eachProduct(t *testing.T, f func(t *testing.T, s Set)) {
	for _, s := range Sets() {
		t.Run(s.Name(), func(t *testing.T) { f(t, s) })
		if p := s.Parts(); p != s {
			t.Run(p.Name(), func(t *testing.T) { f(t, p) })
		}
	}
}

// newMat returns a random (m,n) in the given form, misaligned by off.
func newMat(r *rand.Rand, m, n int, f form, off int) Mat {
	switch f {
	case rows:
		return RowMajor(random(r, off+m*(n+3))[off:], m, n, n+3)
	case columns:
		return newMat(r, n, m, rows, off).T()
	}
	return Mat{random(r, off+m*(3*n+1)+2)[off:], m, n, 3*n + 1, 3}
}

func (m Mat) at(i, j int) float32 { return m.Data[i*m.RowStride+j*m.ColStride] }

func workspace(r *rand.Rand, m, n, k int) []float32 {
	ws := random(r, GemmWorkspace(m, n, k))
	for i := range ws {
		ws[i] = float32(math.NaN())
	}
	return ws
}

// newC returns a random guarded (m,n) whose rows are n+pad apart; the gaps hold guards too.
func newC(r *rand.Rand, m, n, pad, off int) (guarded, Mat) {
	g := newGuarded(max(0, m*(n+pad)-pad), off)
	c := RowMajor(g.v, m, n, n+pad)
	for i := range m {
		copy(g.v[i*(n+pad):], random(r, n))
	}
	return g, c
}

func clone(c Mat) Mat {
	d := make([]float32, len(c.Data))
	copy(d, c.Data)
	c.Data = d
	return c
}

// checkGemm compares got with float64 sums from the start c0, within the documented bound for K+more roundings.
func checkGemm(t *testing.T, what string, got, c0, a, b Mat, acc bool, more int) {
	t.Helper()
	for i := range got.Rows {
		for j := range got.Cols {
			var want, size float64
			if acc {
				want = float64(c0.at(i, j))
				size = math.Abs(want)
			}
			for k := range a.Cols {
				p := float64(a.at(i, k)) * float64(b.at(k, j))
				want += p
				size += math.Abs(p)
			}
			bound := float64(a.Cols+more) * 0x1p-23 * size
			if v := float64(got.at(i, j)); !(math.Abs(v-want) <= bound) {
				t.Fatalf("%s: C[%d,%d] got %v, want %v ± %v", what, i, j, v, want, bound)
			}
		}
	}
	for i := range got.Rows - 1 {
		for j := got.Cols; j < got.RowStride; j++ {
			if v := got.Data[i*got.RowStride+j]; v != guard {
				t.Fatalf("%s: wrote %v between rows %d and %d", what, v, i, i+1)
			}
		}
	}
}

func TestGemmSmall(t *testing.T) {
	eachProduct(t, func(t *testing.T, s Set) {
		r := newRand()
		more := 1
		if s.t.f32.pieces > 1 {
			more = 6
		}
		dims := []int{0, 1, 2, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 66, 67}
		for trial := range 600 {
			pick := func() int {
				if r.IntN(2) == 0 {
					return r.IntN(68)
				}
				return dims[r.IntN(len(dims))]
			}
			m, n, k := pick(), pick(), pick()
			fa, fb, acc := form(r.IntN(3)), form(r.IntN(3)), r.IntN(2) == 0
			a, b := newMat(r, m, k, fa, r.IntN(4)), newMat(r, k, n, fb, r.IntN(4))
			g, c := newC(r, m, n, 5, r.IntN(8))
			c0 := clone(c)
			what := fmt.Sprintf("trial %d (%d,%d,%d) forms %d %d acc %v", trial, m, n, k, fa, fb, acc)
			s.Gemm(c, a, b, acc, workspace(r, m, n, k))
			g.check(t, what)
			checkGemm(t, what, c, c0, a, b, acc, more)

			p := PackedB{random(r, PackedPartsLen(k, n)), k, n}
			s.PackB(p, b, 0, n)
			c2 := clone(c0)
			s.GemmPacked(c2, a, p, 0, acc, workspace(r, m, n, k))
			if i := diffBits(c2.Data, c.Data); i >= 0 {
				t.Fatalf("%s: packed form differs at %d: got %v, want %v", what, i, c2.Data[i], c.Data[i])
			}
		}
	})
}

// TestGemmSplits: the bits do not depend on how rows, columns or the sum, in parts at multiples of 32, are cut, nor on the forms of
// the operands.
func TestGemmSplits(t *testing.T) {
	eachProduct(t, func(t *testing.T, s Set) {
		r := newRand()
		unit := 1
		if s.t.f32.pieces > 1 {
			unit = 32
		}
		for _, d := range [][3]int{{67, 83, 61}, {7, 400, 530}, {160, 33, 270}, {600, 40, 20}, {1, 100, 600}} {
			m, n, k := d[0], d[1], d[2]
			a, b := newMat(r, m, k, rows, 1), newMat(r, k, n, columns, 3)
			_, c0 := newC(r, m, n, 1, 0)
			ws := workspace(r, m, n, k)
			for _, acc := range []bool{false, true} {
				ref := clone(c0)
				s.Gemm(ref, a, b, acc, ws)
				same := func(what string, got Mat) {
					t.Helper()
					if i := diffBits(got.Data, ref.Data); i >= 0 {
						t.Fatalf("%v acc %v %s: differs at %d: got %v, want %v", d, acc, what, i, got.Data[i], ref.Data[i])
					}
				}
				for range 2 {
					c := clone(c0)
					for i, j := 0, 0; i < m; i = j {
						j = min(m, i+1+r.IntN(1+m/2))
						s.Gemm(c.Slice(i, j, 0, n), a.Slice(i, j, 0, k), b, acc, ws)
					}
					same("rows split", c)
					c = clone(c0)
					for i, j := 0, 0; i < n; i = j {
						j = min(n, i+1+r.IntN(1+n/2))
						s.Gemm(c.Slice(0, m, i, j), a, b.Slice(0, k, i, j), acc, ws)
					}
					same("columns split", c)
					c = clone(c0)
					for i, j := 0, 0; i < k; i = j {
						j = min(k, i+unit*(1+r.IntN(1+k/2/unit)))
						s.Gemm(c, a.Slice(0, m, i, j), b.Slice(i, j, 0, n), acc || i > 0, ws)
					}
					same("sum split", c)
				}
				for fa := rows; fa <= strided; fa++ {
					for fb := rows; fb <= strided; fb++ {
						x, y := newMat(r, m, k, fa, 2), newMat(r, k, n, fb, 0)
						copyMat(x, a)
						copyMat(y, b)
						c := clone(c0)
						s.Gemm(c, x, y, acc, ws)
						same("other forms", c)
					}
				}
				p := PackedB{random(r, PackedPartsLen(k, n)), k, n}
				mid := roundUp(n/2, PanelCols)
				s.PackB(p, b, mid, n)
				s.PackB(p, b, 0, mid)
				c := clone(c0)
				s.GemmPacked(c.Slice(0, m, 0, mid), a, p, 0, acc, ws)
				s.GemmPacked(c.Slice(0, m, mid, n), a, p, mid, acc, ws)
				same("packed, columns split", c)
			}
		}
	})
}

func copyMat(dst, src Mat) {
	for i := range src.Rows {
		for j := range src.Cols {
			dst.Data[i*dst.RowStride+j*dst.ColStride] = src.at(i, j)
		}
	}
}

// TestGemmSpecial: a NaN or an infinity reaches its row or column alone, and denormals are kept, but in parts.
func TestGemmSpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	eachProduct(t, func(t *testing.T, s Set) {
		r := newRand()
		m, n, k := 13, 37, 29
		ws := workspace(r, m, n, k)
		for _, bad := range []float32{float32(math.NaN()), inf, -inf} {
			a, b := newMat(r, m, k, rows, 0), newMat(r, k, n, rows, 0)
			a.Data[7*a.RowStride+11] = bad
			b.Data[5*b.RowStride+36] = bad
			b.Data[11*b.RowStride+3] = 0 // 0 times an infinity is NaN, not skipped
			_, c := newC(r, m, n, 0, 0)
			s.Gemm(c, a, b, false, ws)
			for i := range m {
				for j := range n {
					v := float64(c.at(i, j))
					finite := !math.IsNaN(v) && !math.IsInf(v, 0)
					if finite != (i != 7 && j != 36) {
						t.Fatalf("%v: C[%d,%d] = %v", bad, i, j, v)
					}
					if i == 7 && j == 3 && !math.IsNaN(v) {
						t.Fatalf("%v · 0: got %v, want NaN", bad, v)
					}
				}
			}
		}
		tiny := math.Float32frombits(1)
		a, b := newMat(r, m, 1, rows, 0), newMat(r, 1, n, rows, 0)
		for i := range a.Data {
			a.Data[i] = tiny
		}
		for i := range b.Data {
			b.Data[i] = 3
		}
		_, c := newC(r, m, n, 0, 0)
		s.Gemm(c, a, b, false, ws)
		for i, v := range c.Data {
			if s.t.f32.pieces > 1 && v == 0 {
				continue
			}
			if v != 3*tiny {
				t.Fatalf("denormal product at %d: got %v, want %v", i, v, 3*tiny)
			}
		}
	})
}

func TestGemmWorkspaceBounded(t *testing.T) {
	if got := 4 * GemmWorkspace(1<<20, 1<<20, 1<<20); got > 3<<19 {
		t.Errorf("workspace got %d bytes, want at most 1.5 MiB", got)
	}
	r := newRand()
	for range 10000 {
		m, n, k := r.IntN(400), r.IntN(1600), r.IntN(600)
		w := GemmWorkspace(m, n, k)
		if GemmWorkspace(m+r.IntN(9), n+r.IntN(40), k+r.IntN(40)) < w {
			t.Fatalf("workspace shrinks above (%d,%d,%d)", m, n, k)
		}
	}
}

func TestGemmAllocs(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		a, b := newMat(r, 9, 20, rows, 0), newMat(r, 20, 21, rows, 0)
		_, c := newC(r, 9, 21, 0, 0)
		ws := workspace(r, 9, 21, 20)
		if got := testing.AllocsPerRun(20, func() { s.Gemm(c, a, b, true, ws) }); got != 0 {
			t.Errorf("Gemm allocates %v times, want 0", got)
		}
	})
}

func BenchmarkGemm(b *testing.B) {
	for _, s := range append(Sets(), Best().Parts()) {
		for _, d := range [][3]int{{768, 768, 768}, {512, 2048, 2048}, {2048, 2048, 768}, {1, 2048, 2048}, {128, 768, 128}} {
			m, n, k := d[0], d[1], d[2]
			if s == Generic() && m*n*k > 1<<24 {
				continue
			}
			r := newRand()
			x, w, wt := newMat(r, m, k, rows, 0), newMat(r, n, k, rows, 0), newMat(r, k, n, rows, 0)
			xt := newMat(r, k, m, rows, 0)
			_, c := newC(r, m, n, 0, 0)
			ws := workspace(r, m, n, k)
			p := PackedB{random(r, PackedPartsLen(k, n)), k, n}
			s.PackB(p, wt, 0, n)
			for name, f := range map[string]func(){
				"xWt":    func() { s.Gemm(c, x, w.T(), false, ws) },
				"xW":     func() { s.Gemm(c, x, wt, false, ws) },
				"xtW":    func() { s.Gemm(c, xt.T(), wt, false, ws) },
				"packed": func() { s.GemmPacked(c, x, p, 0, false, ws) },
			} {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/%s/f32", s.Name(), m, n, k, name), func(b *testing.B) {
					for b.Loop() {
						f()
					}
					b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
				})
			}
		}
	}
}

// BenchmarkMicro is the micro-kernels alone, operands in L1: the ceiling of BenchmarkGemm.
func BenchmarkMicro(b *testing.B) {
	for _, s := range Sets() {
		for name, p := range map[string]*product{"f32": s.t.f32, "bf16": s.t.bf16} {
			if p.micro == nil {
				continue // a set with tiles; GemmPacked of one block is near it
			}
			steps := p.inner(256)
			b.Run(fmt.Sprintf("%s/%dx%dx256/%s", s.Name(), p.m, p.n, name), func(b *testing.B) {
				r := newRand()
				x, w, c := random(r, p.m*steps), random(r, p.n*steps), random(r, p.m*p.n)
				for b.Loop() {
					p.micro(steps, lhs{x, p.m, false}, w, c, p.n, p.m, true, &w[0])
				}
				b.ReportMetric(2*float64(p.m*p.n*256)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
			})
		}
	}
}
