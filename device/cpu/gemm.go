package cpu

import (
	"loadline/tensor/kernel"
)

// gemm is one matrix product whose output is cut into tiles for the pool. Every element is one sum in ascending order
// whatever the tiles.
type gemm struct {
	s       *Session
	c, a, b kernel.Mat
	acc     bool
	from    []float32 // where acc: C's elements before, with C's strides, if they lie elsewhere
	bias    []float32 // (cols) added last, or nil
	mt, nt  int       // rows and columns of a tile
	across  int       // tiles in a row of tiles
}

// The tiles: large ones pack less, small ones share better. Multiples of the micro-kernel's 6 x 16.
const (
	gemmRows  = 576
	gemmCols  = 768
	gemmSmall = 1 << 19 // multiply-adds below which a tile is not cut
)

// gemmScratch is the bytes of workspace that one thread needs for any part of a product of c (m,n) over k.
func gemmScratch(m, n, k int) int64 {
	return 4 * int64(kernel.GemmWorkspace(min(m, gemmRows), min(n, gemmCols), k))
}

// gemm computes C = A·B, or adds to C where acc, from the elements of from if there are any.
func (s *Session) gemm(c, a, b kernel.Mat, acc bool, from, bias []float32) {
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	if same(from, c.Data) {
		from = nil
	}
	mt, nt := min(c.Rows, gemmRows), min(c.Cols, gemmCols)
	want := 3 * s.pool.Threads()
	if s.pool.Threads() == 1 {
		want = 1
	}
	for tiles(c.Rows, mt)*tiles(c.Cols, nt) < want && mt*nt*a.Cols > gemmSmall {
		if nt >= mt && nt > 64 || mt <= 48 {
			if nt <= 16 {
				break
			}
			nt = (nt/2 + 15) / 16 * 16
		} else {
			mt = (mt/2 + 5) / 6 * 6
		}
	}
	g := &s.gem
	*g = gemm{s: s, c: c, a: a, b: b, acc: acc, from: from, bias: bias, mt: mt, nt: nt, across: tiles(c.Cols, nt)}
	s.pool.DoTask(g.across*tiles(c.Rows, mt), g)
}

func tiles(n, by int) int { return (n + by - 1) / by }

// Run does tile i.
func (g *gemm) Run(i, worker int) {
	r0, c0 := i/g.across*g.mt, i%g.across*g.nt
	r1, c1 := min(r0+g.mt, g.c.Rows), min(c0+g.nt, g.c.Cols)
	c := g.c.Slice(r0, r1, c0, c1)
	if g.acc && g.from != nil {
		for r := range r1 - r0 {
			at := (r0+r)*g.c.RowStride + c0
			copy(c.Data[r*c.RowStride:][:c1-c0], g.from[at:])
		}
	}
	g.s.set.Gemm(c, g.a.Slice(r0, r1, 0, g.a.Cols), g.b.Slice(0, g.b.Rows, c0, c1), g.acc, g.s.worker[worker])
	if g.bias != nil {
		for r := range r1 - r0 {
			y := c.Data[r*c.RowStride:][:c1-c0]
			g.s.set.Add(y, y, g.bias[c0:c1])
		}
	}
}

// rowMajor is data as rows of cols elements.
func rowMajor(data []float32, rows, cols int) kernel.Mat {
	return kernel.RowMajor(data, rows, cols, cols)
}
