package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"loadline/internal/par"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// TestSharedPanels: a product whose B is packed once, part by part, has the bits of one by tiles, in every set and mixture of
// types, on one thread and on several.
func TestSharedPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	fill := func(ty dtype.Type, n int) floats {
		x := floats{t: ty}
		if ty == dtype.F32 {
			x.f = make([]float32, n)
		} else {
			x.h = make([]uint16, n)
		}
		for i := range n {
			v := float32(r.NormFloat64())
			if ty == dtype.F32 {
				x.f[i] = v
			} else {
				x.h[i] = dtype.ToBF16(v)
			}
		}
		return x
	}
	of := func(ty dtype.Type, rows, cols int) matrix {
		if r.IntN(2) == 0 {
			return matrixOf(fill(ty, rows*cols), cols, rows).transposed()
		}
		return matrixOf(fill(ty, rows*cols), rows, cols)
	}
	types := []dtype.Type{dtype.F32, dtype.BF16}
	const elems = 1 << 21
	for _, set := range append(kernel.Sets(), kernel.Best().Parts()) {
		for _, threads := range []int{1, 3} {
			pool := par.New(threads)
			defer pool.Close()
			s := &Session{set: set, products: set, pool: pool, shared: make([]float32, elems)}
			for range threads {
				s.worker = append(s.worker, make([]float32, elems))
			}
			trials := 24
			if set == kernel.Generic() {
				trials = 4
			}
			for trial := range trials {
				m, n, k := 1+r.IntN(300), 1+r.IntN(200), 1+r.IntN(1300)
				a, b := of(types[r.IntN(2)], m, k), of(types[r.IntN(2)], k, n)
				half := a.narrow() || b.narrow()
				ct := types[r.IntN(2)]
				if !half {
					ct = dtype.F32
				}
				acc := r.IntN(2) == 0
				var from floats
				if acc && r.IntN(2) == 0 {
					from = fill(types[r.IntN(2)], m*n)
				}
				var bias []float32
				if r.IntN(3) == 0 {
					bias = fill(dtype.F32, n).f
				}
				run := func(c floats, shared bool) floats {
					s.gem = gemm{s: s, c: matrixOf(c, m, n), a: a, b: b, acc: acc, from: from, bias: bias, mt: min(m, 96), nt: min(n, 128)}
					if shared {
						p := panels{sharedK, kernel.PanelCols * (1 + r.IntN(4))}
						if c.narrow() {
							p.k = k
						}
						s.sharedGemm(p, half)
					} else {
						s.gem.across = tiles(n, s.gem.nt)
						s.pool.DoTask(s.gem.across*tiles(m, s.gem.mt), &s.gem)
					}
					return c
				}
				before := fill(ct, m*n)
				copyOf := func() floats {
					return floats{before.t, append([]float32(nil), before.f...), append([]uint16(nil), before.h...)}
				}
				want, got := run(copyOf(), false), run(copyOf(), true)
				for i := range m * n {
					if ct == dtype.F32 && math.Float32bits(want.f[i]) != math.Float32bits(got.f[i]) || ct != dtype.F32 && want.h[i] != got.h[i] {
						t.Fatalf("%s, %d threads, trial %d (%d,%d,%d) acc %v: element %d differs", set.Name(), threads, trial, m, n, k, acc, i)
					}
				}
			}
		}
	}
}

// TestPanelsFit: no product of fewer rows than a program's bound needs more room than was planned for that bound.
func TestPanelsFit(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		size := func() int { return 1 + r.IntN(1<<(6+r.IntN(9))) }
		m, n, k := size(), size(), size()
		half, narrow := r.IntN(2) == 0, r.IntN(2) == 0
		p := panelsOf(m, n, k, half, half && narrow)
		if p.n == 0 {
			continue
		}
		if p.n%kernel.PanelCols != 0 || p.k < k && (half && narrow || p.k%sharedK != 0) {
			t.Fatalf("(%d,%d,%d): parts of %d x %d", m, n, k, p.k, p.n)
		}
		if most := min(panels{k, n}.bytes(half), sharedBytes); p.bytes(half) > most {
			t.Fatalf("(%d,%d,%d): panels of %d x %d take %d bytes, want at most %d", m, n, k, p.k, p.n, p.bytes(half), most)
		}
		if !half || !narrow {
			continue
		}
		rows, cols, most := min(m, p.narrowRows(n, 32)), min(n, p.n), min(m, gemmRows)
		need := takes(rows*cols) + kernel.GemmWorkspace(rows, cols, k)
		if room := kernel.GemmWorkspace(most, n, k) + takes(most*min(n, narrowCols)); need > room {
			t.Fatalf("(%d,%d,%d): strips of %d x %d take %d elements of workspace, want at most %d", m, n, k, rows, cols, need, room)
		}
	}
}
