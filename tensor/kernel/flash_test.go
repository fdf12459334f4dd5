package kernel

import (
	"math"
	"testing"
)

// TestFlashMul: a product of operands as they are gives the bits of Gemm, and writes whole panels of C alone.
func TestFlashMul(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r, w := newRand(), s.FlashWidth()
		for _, m := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 17, 18, 25} {
			for _, n := range []int{1, w, w + 1} {
				for _, k := range []int{1, 3, 4, 6, 64, 67} {
					for _, form := range []form{rows, columns} {
						a := newMat(r, m, k, form, 1)
						wide := roundUp(n, w)
						b := RowMajor(random(r, k*(wide+3)), k, n, wide+3)
						packed := make([]float32, FlashPackLen(n, k))
						across := Mat{Data: make([]float32, n*(k+2)), Rows: n, Cols: k, RowStride: k + 2, ColStride: 1}
						copyMat(across, b.T())
						s.FlashPack(packed, across)
						for _, acc := range []bool{false, true} {
							want := RowMajor(random(r, m*wide), m, n, wide)
							g := newGuarded(m*wide, 1)
							copy(g.v, want.Data)
							got := RowMajor(g.v, m, n, wide)
							s.Gemm(want, a, b, acc, workspace(r, m, n, k))
							s.FlashMul(got, a, b, acc)
							g.check(t, "FlashMul")
							same := func(what string) {
								for i := range m {
									if j := diffBits(got.Data[i*wide:][:n], want.Data[i*wide:][:n]); j >= 0 {
										t.Fatalf("%s of %dx%dx%d acc=%v at %d,%d: got %v, want %v", what, m, n, k, acc, i, j, got.at(i, j), want.at(i, j))
									}
								}
							}
							same("FlashMul")
							if !acc {
								s.FlashMulPacked(got, a, packed)
								g.check(t, "FlashMulPacked")
								same("FlashMulPacked")
							}
						}
					}
				}
			}
		}
	})
}

// flashCase is columns that pass over blocks of keys.
type flashCase struct {
	hd     int
	k, v   Mat
	q      Mat // a row a column
	lo, hi []int32
}

// run returns the outputs, a row a column, and the logs of the sums in powers of two; column i of a panel is column order[i].
func (f *flashCase) run(s Set, order []int) (out [][]float32, lse []float64) {
	w := s.FlashWidth()
	p := &FlashPanel{Queries: make([]float32, FlashPackLen(w, f.hd)), Out: make([]float32, f.hd*w), State: make([]float32, 3*w), Lo: make([]int32, w), Hi: make([]int32, w), Cols: len(order)}
	q := RowMajor(make([]float32, len(order)*f.hd), len(order), f.hd, f.hd)
	p.Reset(s, f.hd)
	for i, c := range order {
		copy(q.Data[i*f.hd:][:f.hd], f.q.Data[c*f.hd:])
		p.Lo[i], p.Hi[i] = f.lo[c], f.hi[c]
	}
	s.FlashPack(p.Queries, q)
	scores := make([]float32, FlashBlock*w)
	for at := 0; at < f.k.Rows; at += FlashBlock {
		to := min(at+FlashBlock, f.k.Rows)
		s.FlashForward(p, scores, f.k.Slice(at, to, 0, f.hd), f.v.Slice(at, to, 0, f.hd), 0.3, at)
	}
	tmp := make([]float32, FlashPackLen(w, roundUp(f.hd, PanelCols)))
	s.FlashRows(tmp, p, f.hd)
	for i := range order {
		row := make([]float32, f.hd)
		s.FlashRow(row, 1/p.State[w+i], p, tmp, i)
		out, lse = append(out, row), append(lse, float64(p.State[i])+math.Log2(float64(p.State[w+i])))
	}
	return out, lse
}

// want is the same in float64.
func (f *flashCase) want(c int) (out []float64, lse float64) {
	out = make([]float64, f.hd)
	var x []float64
	top := math.Inf(-1)
	for j := f.lo[c]; j <= min(f.hi[c], int32(f.k.Rows-1)); j++ {
		e := 0.0
		for d := range f.hd {
			e += float64(f.k.at(int(j), d)) * float64(f.q.at(c, d))
		}
		x, top = append(x, e*float64(float32(0.3))), max(top, e*float64(float32(0.3)))
	}
	sum := 0.0
	for i, e := range x {
		p := math.Exp2(e - top)
		sum += p
		for d := range out {
			out[d] += p * float64(f.v.at(int(f.lo[c])+i, d))
		}
	}
	for d := range out {
		out[d] /= sum
	}
	return out, top + math.Log2(sum)
}

// TestFlashForward: against float64; bits that are a column's own; vector sets that agree.
func TestFlashForward(t *testing.T) {
	r := newRand()
	for _, hd := range []int{1, 5, 16, 20, 64, 67} {
		for _, n := range []int{1, 3, 128, 131, 300} {
			const cols = 16
			f := flashCase{hd: hd, k: newMat(r, n, hd, rows, 0), v: newMat(r, n, hd, rows, 1), q: RowMajor(random(r, cols*hd), cols, hd, hd)}
			for c := range cols { // some see all, some a window, some from the second block on
				lo, hi := 0, n-1
				if c%3 > 0 {
					lo, hi = r.IntN(n), n-1
				}
				if c%3 == 1 {
					hi = lo + r.IntN(n-lo)
				}
				f.lo, f.hi = append(f.lo, int32(lo)), append(f.hi, int32(hi))
			}
			order := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
			var vector [][]float32
			eachSet(t, func(t *testing.T, s Set) {
				got, lse := f.run(s, order)
				for c := range cols {
					want, l := f.want(c)
					if !(math.Abs(lse[c]-l) <= 1e-5*(1+math.Abs(l))) {
						t.Fatalf("head %d, %d keys, column %d: lse %v, want %v", hd, n, c, lse[c], l)
					}
					for d := range want {
						if !(math.Abs(float64(got[c][d])-want[d]) <= 2e-3) { // values to 16, exponents to 10³ with 2⁻²³ of them
							t.Fatalf("head %d, %d keys, column %d at %d: %v, want %v", hd, n, c, d, got[c][d], want[d])
						}
					}
				}
				for _, other := range [][]int{{7}, {3, 2, 1}, {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5}} {
					again, _ := f.run(s, other)
					for i, c := range other {
						if d := diffBits(again[i], got[c]); d >= 0 {
							t.Fatalf("head %d, %d keys, column %d among %v: %v, alone %v", hd, n, c, other, again[i][d], got[c][d])
						}
					}
				}
				if s == Generic() {
					return
				}
				if vector == nil {
					vector = got
				}
				for c := range cols {
					if d := diffBits(got[c], vector[c]); d >= 0 {
						t.Fatalf("head %d, %d keys, column %d: other bits than the first vector set's", hd, n, c)
					}
				}
			})
		}
	}
}

// TestFlashProbs: against float64, what is masked is 0 whatever it was, and NaN stays.
func TestFlashProbs(t *testing.T) {
	var vector []float32
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		var all []float32
		for _, n := range []int{1, 15, 33, 64, 100, 128} {
			const rows, c, scale = 5, 0.7, 0.25
			for _, masked := range []bool{false, true} {
				ld := roundUp(n, PanelCols) + 16
				x, y := random(r, rows*ld), random(r, rows*ld)
				for i := range x {
					x[i] *= 8 // exponents from -90 to 90 less lse
				}
				nan, huge := float32(math.NaN()), float32(math.Inf(1))
				x[0], x[ld], y[2*ld] = nan, nan, huge
				lse, delta := []float32{95, 100, 90, 130, 200}, random(r, rows)
				lo, hi := []int32{0, 1, 1, 0, int32(n / 2)}, []int32{int32(n), int32(n), int32(n), int32(n / 2), int32(n / 2)}
				p, d := append([]float32(nil), x...), append([]float32(nil), y...)
				s.FlashProbs(RowMajor(p, rows, n, ld), RowMajor(d, rows, n, ld), c, scale, lse, delta, lo, hi, masked)
				for i := range rows {
					for j := range n {
						at := i*ld + j
						all = append(all, p[at], d[at])
						if masked && (j < int(lo[i]) || j > int(hi[i])) {
							if p[at] != 0 || d[at] != 0 {
								t.Fatalf("row %d column %d is masked: %v, %v", i, j, p[at], d[at])
							}
							continue
						}
						e := float64(x[at])*float64(float32(c)) - float64(lse[i])
						want := math.Exp2(e)
						if e < -125 {
							want = 0
						}
						tol := want*(math.Abs(e)+128+4)*0x1p-23 + 0x1p-124
						if !(math.Abs(float64(p[at])-want) <= tol) && (want == want || p[at] == p[at]) {
							t.Fatalf("row %d column %d: 2^%v is %v, want %v", i, j, e, p[at], want)
						}
						g := want * (float64(y[at])*scale - float64(delta[i]))
						if !(math.Abs(float64(d[at])-g) <= 4*tol*(math.Abs(float64(y[at]))+math.Abs(float64(delta[i])))) && (g == g && !math.IsInf(g, 0) || d[at] == 0) {
							t.Fatalf("row %d column %d: gradient %v, want %v", i, j, d[at], g)
						}
					}
				}
			}
		}
		if s == Generic() {
			return
		}
		if vector == nil {
			vector = all
		}
		if i := diffBits(all, vector); i >= 0 {
			t.Errorf("other bits than the first vector set's: %v, %v", all[i], vector[i])
		}
	})
}

// TestFlashExp2: powers of two within 2 of 2⁻²⁴, and 1 of 0.
func TestFlashExp2(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		const n = 128
		p, d, zero := make([]float32, n), make([]float32, n), []float32{0}
		for at := -125.0; at < 126; at += n / 512.0 {
			for i := range p {
				p[i] = float32(at + float64(i)/512 + 1e-4)
				if at == 0 && i == 0 {
					p[i] = 0
				}
			}
			x := append([]float32(nil), p...)
			s.FlashProbs(RowMajor(p, 1, n, n), RowMajor(d, 1, n, n), 1, 1, zero, zero, nil, nil, false)
			for i := range p {
				want := math.Exp2(float64(x[i]))
				if x[i] == 0 && p[i] != 1 || math.Abs(float64(p[i])-want) > 2*0x1p-24*want {
					t.Fatalf("2^%v is %v, want %v", x[i], p[i], want)
				}
			}
		}
	})
}

func TestFlashAllocs(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		r := newRand()
		f := flashCase{hd: 8, k: newMat(r, 4, 8, rows, 0), v: newMat(r, 4, 8, rows, 0)}
		w := s.FlashWidth()
		p := &FlashPanel{Queries: random(r, 8*w), Out: make([]float32, 8*w), State: make([]float32, 3*w), Lo: make([]int32, w), Hi: make([]int32, w), Cols: w}
		scores, c := make([]float32, FlashBlock*w), RowMajor(make([]float32, 4*w), 4, w, w)
		one := make([]float32, 4)
		if n := testing.AllocsPerRun(20, func() {
			p.Reset(s, 8)
			s.FlashForward(p, scores, f.k, f.v, 1, 0)
			s.FlashMul(c, f.k, RowMajor(p.Queries, 8, w, w), true)
			s.FlashProbs(c, c, 1, 1, one, one, nil, nil, false)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// BenchmarkFlash is the parts of attention over 128 keys, head 64, and for comparison the micro-kernel of a product in L1.
func BenchmarkFlash(b *testing.B) {
	r := newRand()
	for _, s := range Sets()[1:] {
		w := s.FlashWidth()
		const hd, n = 64, 128
		k, v := RowMajor(random(r, n*hd), n, hd, hd), RowMajor(random(r, n*hd), n, hd, hd)
		p := &FlashPanel{Queries: random(r, hd*w), Out: make([]float32, hd*w), State: make([]float32, 3*w), Lo: make([]int32, w), Hi: make([]int32, w), Cols: w}
		sc := make([]float32, n*w)
		for i := range p.Hi {
			p.Hi[i] = 1 << 20
		}
		p.Reset(s, hd)
		flops := func(b *testing.B, f float64) { b.ReportMetric(f*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s") }
		b.Run(s.Name()+"/forward", func(b *testing.B) {
			for b.Loop() {
				s.FlashForward(p, sc, k, v, 0.125, 0)
			}
			flops(b, 4*n*hd*float64(w))
		})
		b.Run(s.Name()+"/rows", func(b *testing.B) {
			for b.Loop() {
				s.t.flash.product(flashProduct{m: n, k: hd, n: w, a: k.Data, lda: k.RowStride, b: p.Queries, ldb: w, c: sc, ldc: w})
			}
			flops(b, 2*n*hd*float64(w))
		})
		b.Run(s.Name()+"/cols", func(b *testing.B) {
			for b.Loop() {
				s.t.flash.product(flashProduct{m: hd, k: n, n: w, a: v.Data, lda: v.RowStride, cols: true, b: sc, ldb: w, c: p.Out, ldc: w, mode: flashScale, f: p.State[2*w:]})
			}
			flops(b, 2*n*hd*float64(w))
		})
		b.Run(s.Name()+"/softmax", func(b *testing.B) {
			for b.Loop() {
				s.t.flash.softmax(n, sc, 0.125, 0, p.State, p.Lo, p.Hi, false)
			}
			b.ReportMetric(float64(n*w)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelem/s")
		})
		b.Run(s.Name()+"/micro", func(b *testing.B) {
			x, y, c := random(r, 256*12+64), random(r, 256*32), make([]float32, 12*32)
			for b.Loop() {
				s.t.f32.micro(256, lhs{x, s.t.f32.m, false}, y, c, s.t.f32.n, s.t.f32.m, false, &y[0])
			}
			flops(b, 2*256*float64(s.t.f32.n*s.t.f32.m))
		})
	}
}

// poisoned is room whose content must not matter.
func poisoned(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	return x
}

// TestFlashMulHalf: parts of a product in bf16 have the bits of GemmBF16 over the same part of K.
func TestFlashMulHalf(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		if !s.FlashHalf() {
			return // nothing calls these
		}
		r := newRand()
		for _, d := range [][3]int{{1, 1, 1}, {5, 33, 7}, {32, 64, 32}, {50, 20, 70}, {64, 64, 128}, {128, 96, 64}, {70, 130, 100}} {
			m, n, k := d[0], d[1], d[2]
			for trial := range 12 {
				fa, fb := []form{rows, columns}[trial%2], []form{rows, columns}[trial/2%2]
				a, _ := newBF16(r, m, k, fa, trial%3 == 0, 0)
				b, _ := newBF16(r, k, n, fb, trial%3 < 2, 0)
				left := s.FlashLeft(poisoned(FlashHalfLen(m, k)), a)
				right := poisoned(FlashHalfLen(n, k))
				s.FlashRight(right, b)
				part := func(n int) (int, int) { // of whole tiles
					from := r.IntN((n+31)/32) * 32
					return from, min(n, from+32*(1+r.IntN(3)))
				}
				i0, i1 := part(m)
				k0, k1 := part(k)
				if trial%2 == 0 {
					k0, k1 = 0, k
				}
				wide := roundUp(n, PanelCols)
				g := newGuarded((i1-i0)*wide, 1)
				got := RowMajor(g.v, i1-i0, n, wide)
				copy(got.Data, random(r, len(got.Data)))
				want := clone(got)
				acc := trial%4 > 1
				s.FlashMulHalf(got, left, i0, i1, right, k0, k1, acc)
				g.check(t, "FlashMulHalf")
				s.GemmBF16(want, a.Slice(i0, i1, k0, k1), b.Slice(k0, k1, 0, n), acc, workspace(r, i1-i0, n, k1-k0))
				for i := range i1 - i0 {
					if j := diffBits(got.Data[i*got.RowStride:][:n], want.Data[i*want.RowStride:][:n]); j >= 0 {
						t.Fatalf("%v, rows %d to %d, k %d to %d, acc=%v, at %d,%d: got %v, want %v", d, i0, i1, k0, k1, acc, i, j, got.at(i, j), want.at(i, j))
					}
				}
			}
		}
	})
}

// TestFlashForwardHalf: as in float32 over the same bf16 operands, but for probabilities rounded to bf16; and the bits are
// a column's own.
func TestFlashForwardHalf(t *testing.T) {
	eachSet(t, func(t *testing.T, s Set) {
		if !s.FlashHalf() {
			return
		}
		r, w := newRand(), s.FlashWidth()
		for _, hd := range []int{5, 32, 64, 67} {
			for _, n := range []int{1, 31, 128, 300} {
				kh, k := newBF16(r, n, hd, rows, true, 0)
				vh, v := newBF16(r, n, hd, rows, true, 0)
				qh, q := newBF16(r, 16, hd, rows, true, 0)
				f := flashCase{hd: hd, k: k, v: v, q: RowMajor(make([]float32, 16*hd), 16, hd, hd)}
				for c := range 16 {
					for d := range hd {
						f.q.Data[c*hd+d] = q.at(c, d)
					}
					lo := 0
					if c%3 == 1 {
						lo = r.IntN(n)
					}
					f.lo, f.hi = append(f.lo, int32(lo)), append(f.hi, int32(lo+r.IntN(n-lo)))
				}
				run := func(order []int) (out [][]float32, lse []float64) {
					p := &FlashPanel{Queries: poisoned(FlashHalfLen(w, hd)), Out: poisoned(hd * w), State: make([]float32, 3*w), Lo: make([]int32, w), Hi: make([]int32, w), Cols: len(order), Half: true}
					p.Reset(s, hd)
					x := make([]uint16, len(order)*hd)
					from, to := n, 0
					for i, c := range order {
						for d := range hd {
							x[i*hd+d] = qh.operand().bits(c, d)
						}
						p.Lo[i], p.Hi[i] = f.lo[c], f.hi[c]
						from, to = min(from, int(f.lo[c])), max(to, int(f.hi[c])+1)
					}
					s.FlashRight(p.Queries, RowMajorBF16(x, len(order), hd, hd).T())
					scores, pairs := poisoned(FlashBlock*w), poisoned(FlashHalfLen(w, FlashBlock))
					for at := 0; at < n; at += FlashBlock {
						end := min(n, at+FlashBlock)
						kl := s.FlashLeft(poisoned(FlashHalfLen(FlashBlock, hd)), kh.Slice(at, end, 0, hd))
						vl := s.FlashLeft(poisoned(FlashHalfLen(FlashBlock, hd)), vh.Slice(at, end, 0, hd).T())
						if a, b := max(from-at, 0)/32*32, min(to, end)-at; a < b {
							s.FlashForwardHalf(p, scores, pairs, kl, vl, 0.3, at, a, b)
						}
					}
					tmp := poisoned(FlashPackLen(w, roundUp(hd, PanelCols)))
					s.FlashRows(tmp, p, hd)
					for i := range order {
						row := make([]float32, hd)
						s.FlashRow(row, 1/p.State[w+i], p, tmp, i)
						out, lse = append(out, row), append(lse, float64(p.State[i])+math.Log2(float64(p.State[w+i])))
					}
					return out, lse
				}
				all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
				got, lse := run(all)
				top := 0.0
				for _, x := range v.Data {
					top = max(top, math.Abs(float64(x)))
				}
				for c := range 16 {
					want, l := f.want(c)
					if !(math.Abs(lse[c]-l) <= 1e-5*(1+math.Abs(l))) {
						t.Fatalf("head %d, %d keys, column %d: lse %v, want %v", hd, n, c, lse[c], l)
					}
					for d := range want {
						if !(math.Abs(float64(got[c][d])-want[d]) <= 0x1p-8*top) {
							t.Fatalf("head %d, %d keys, column %d at %d: %v, want %v", hd, n, c, d, got[c][d], want[d])
						}
					}
				}
				for _, other := range [][]int{{7}, {3, 2, 1}, {15, 14, 13, 12, 11}} {
					again, _ := run(other)
					for i, c := range other {
						if d := diffBits(again[i], got[c]); d >= 0 {
							t.Fatalf("head %d, %d keys, column %d among %v: %v, with all %v", hd, n, c, other, again[i][d], got[c][d])
						}
					}
				}
			}
		}
	})
}
