package cpu

import (
	"math/rand/v2"
	"testing"

	"loadline/internal/par"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// TestCutFitsScratch: whatever the product, a tile stays within what gemmScratch counts with, and at least half
// of the threads have one where there is work for them.
func TestCutFitsScratch(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	of := func(rows, cols int) matrix {
		return matrix{floats{t: []dtype.Type{dtype.F32, dtype.BF16, dtype.F16}[r.IntN(3)]}, rows, cols, cols, 1}
	}
	for _, threads := range []int{1, 2, 5} {
		pool := par.New(threads)
		defer pool.Close()
		for _, set := range append(kernel.Sets(), kernel.Best().Parts()) {
			s := &Session{set: set, products: set, pool: pool}
			for range 2000 {
				size := func() int { return 1 + r.IntN(1<<(1+r.IntN(13))) }
				m, n, k := size(), size(), size()
				c, a, b := of(m, n), of(m, k), of(k, n)
				if r.IntN(2) == 0 {
					a = of(k, m).transposed()
				}
				mt, nt := s.cut(c, a, b)
				if mt < 1 || nt < 1 || mt > m || nt > n {
					t.Fatalf("%s (%d,%d,%d): a tile of %d x %d", set.Name(), m, n, k, mt, nt)
				}
				f16 := a.t == dtype.F16 || b.t == dtype.F16
				if c.narrow() && mt*nt > min(m, gemmRows)*min(n, narrowCols) || f16 && (mt > gemmRows || nt > narrowCols) {
					t.Errorf("%s (%d,%d,%d) of %v, %v and %v: a tile of %d x %d does not fit", set.Name(), m, n, k, a.t, b.t, c.t, mt, nt)
				}
				if kernel.GemmWorkspace(mt, nt, k) > kernel.GemmWorkspace(min(m, gemmRows), n, k) {
					t.Errorf("%s (%d,%d,%d): the workspace of %d x %d is too large", set.Name(), m, n, k, mt, nt)
				}
				if got := tiles(m, mt) * tiles(n, nt); 2*got < min(threads, tiles(m, 32)*tiles(n, 64)) && m*n*k > gemmSmall {
					t.Errorf("%s (%d,%d,%d): %d tiles for %d threads", set.Name(), m, n, k, got, threads)
				}
			}
		}
	}
}
