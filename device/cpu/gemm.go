package cpu

import (
	"math"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// matrix is floats seen as rows and columns: element (i,j) is at i·rowStride + j·colStride.
type matrix struct {
	floats
	rows, cols, rowStride, colStride int
}

// matrixOf is x as rows of cols elements.
func matrixOf(x floats, rows, cols int) matrix { return matrix{x, rows, cols, cols, 1} }

// rowMajor is data as rows of cols elements.
func rowMajor(data []float32, rows, cols int) kernel.Mat {
	return kernel.RowMajor(data, rows, cols, cols)
}

// transposed is the view with rows and columns exchanged.
func (m matrix) transposed() matrix {
	m.rows, m.cols, m.rowStride, m.colStride = m.cols, m.rows, m.colStride, m.rowStride
	return m
}

// tile is the view of rows r0 to r1 and columns c0 to c1.
func (m matrix) tile(r0, r1, c0, c1 int) matrix {
	if r1 > r0 && c1 > c0 && !m.absent() {
		m.floats = m.slice(r0*m.rowStride+c0*m.colStride, m.len())
	}
	m.rows, m.cols = r1-r0, c1-c0
	return m
}

// wide is the view of a matrix of f32.
func (m matrix) wide() kernel.Mat {
	return kernel.Mat{Data: m.f, Rows: m.rows, Cols: m.cols, RowStride: m.rowStride, ColStride: m.colStride}
}

// bf16 is an operand of a bf16 product; one of f32 is rounded as it is packed.
func (m matrix) bf16() kernel.MatBF16 {
	return kernel.MatBF16{Half: m.h, F32: m.f, Rows: m.rows, Cols: m.cols, RowStride: m.rowStride, ColStride: m.colStride}
}

// widened is m as f32: itself, or in what it takes of c.
func (m matrix) widened(s *Session, c *carver) kernel.Mat {
	if !m.narrow() {
		return m.wide()
	}
	if m.colStride != 1 {
		return m.transposed().widened(s, c).T()
	}
	buf := c.take(m.rows * m.cols)
	for r := range m.rows {
		s.widen(m.t, buf[r*m.cols:(r+1)*m.cols], m.h[r*m.rowStride:][:m.cols])
	}
	return rowMajor(buf, m.rows, m.cols)
}

// gemm is one matrix product whose output is cut into tiles for the pool. Every element is one sum in ascending order
// whatever the tiles.
type gemm struct {
	s       *Session
	c, a, b matrix
	acc     bool
	from    floats    // where acc: C's elements before, with C's strides, if they lie elsewhere
	bias    []float32 // (cols) added last, or nil
	mt, nt  int       // rows and columns of a tile
	across  int       // tiles in a row of tiles
}

// The tiles: large ones pack less, small ones share better. Rows that are packed are a multiple of every micro-kernel's. A
// narrow result may have a tile of f32 for each thread, so its tiles are smaller; a product of f16 widens its operands so
// many k at a time.
const (
	gemmRows   = 576
	narrowCols = 384
	narrowK    = 256
	gemmSmall  = 1 << 19 // multiply-adds below which a tile is not cut
)

// gemmScratch is the bytes of workspace that one thread needs for any part of an instruction's product of c (m,n) over k.
func gemmScratch(in *compile.Instr, m, n, k int) int64 {
	m = min(m, gemmRows)
	if !anyNarrow(in) {
		return 4 * int64(kernel.GemmWorkspace(m, n, k))
	}
	parts := kernel.GemmWorkspace(m, n, k)
	n = min(n, narrowCols)
	for _, o := range in.Out {
		if o.Buffer >= 0 && isNarrow(o.Type.DType) {
			parts += takes(m * n)
			break
		}
	}
	for _, o := range in.In {
		if o.Buffer >= 0 && o.Type.DType == dtype.F16 {
			return 4 * int64(parts+takes(m*min(k, narrowK), n*min(k, narrowK)))
		}
	}
	return 4 * int64(parts)
}

// gemm computes C = A·B, or adds to C where acc, from the elements of from if there are any. Where one of A and B is bf16,
// the other is rounded to it.
func (s *Session) gemm(c, a, b matrix, acc bool, from floats, bias []float32) {
	if c.rows == 0 || c.cols == 0 {
		return
	}
	if from.same(c.floats) {
		from = floats{}
	}
	g := &s.gem
	*g = gemm{s: s, c: c, a: a, b: b, acc: acc, from: from, bias: bias}
	if a.t != dtype.F16 && b.t != dtype.F16 {
		half := a.narrow() || b.narrow()
		if p := panelsOf(c.rows, c.cols, a.cols, half, c.narrow()); p.n > 0 {
			s.sharedGemm(p, half)
			return
		}
	}
	g.mt, g.nt = s.cut(c, a, b)
	g.across = tiles(c.cols, g.nt)
	s.pool.DoTask(g.across*tiles(c.rows, g.mt), g)
}

// cut is the rows and columns of a tile, of which each thread gets about as many. It packs its part of A and of B. A
// thread may begin late, so it counts as if it were an eighth of a tile behind.
func (s *Session) cut(c, a, b matrix) (mt, nt int) {
	half := a.t == dtype.BF16 || b.t == dtype.BF16
	f16 := a.t == dtype.F16 || b.t == dtype.F16
	k := s.products.Cut(half && !f16)
	most, across, room := gemmRows, c.cols, c.rows*c.cols // of a tile: rows, columns, and elements
	if c.narrow() || f16 {
		across = narrowCols
	}
	direct := k.Direct && !f16 && (a.t == dtype.BF16) == half && a.colStride == 1
	if direct {
		most = c.rows
	}
	if c.narrow() {
		room = min(c.rows, gemmRows) * min(c.cols, narrowCols)
	}
	threads := s.pool.Threads()
	late, want := 1, 3*threads
	if threads == 1 {
		late, want = 0, 1
	}
	if c.rows*c.cols*a.cols <= gemmSmall {
		want = 1
	}
	best := math.MaxInt
	for j := range min(want, 16) {
		n := min(c.cols, roundUp(tiles(c.cols, tiles(c.cols, across)+j), kernel.PanelCols))
		top := min(c.rows, most, room/n)
		if top < c.rows {
			top -= top % k.Rows
		}
		for i := range min(want, 16) {
			m := min(c.rows, roundUp(tiles(c.rows, tiles(c.rows, top)+i), k.Rows))
			work := m*n + k.Packing*(m+n)
			if direct { // it is read from further away than a packed one
				work -= k.Packing * m * 9 / 10
			}
			turns := tiles(tiles(c.rows, m)*tiles(c.cols, n), threads)
			if t := (8*turns + late) * work; t < best {
				best, mt, nt = t, m, n
			}
		}
	}
	return mt, nt
}

func roundUp(n, to int) int { return tiles(n, to) * to }

func tiles(n, by int) int { return (n + by - 1) / by }

// target is a tile of C, which begins at row r0 and column c0.
type target struct {
	c      matrix
	r0, c0 int
}

// rounds tells whether a product of bf16 can read and write C as it lies.
func (g *gemm) rounds() bool {
	return g.c.t == dtype.BF16 && (g.from.absent() || g.from.t == dtype.BF16) && g.bias == nil
}

// before is the tile's elements before the product, where they are added to.
func (g *gemm) before(t target) matrix {
	from := g.from
	if from.absent() && g.acc {
		from = g.c.floats
	}
	m := matrix{from, g.c.rows, g.c.cols, g.c.rowStride, 1}
	return m.tile(t.r0, t.r0+t.c.rows, t.c0, t.c0+t.c.cols)
}

// begin is where the tile's sums are made; where first, what they are added to is there.
func (g *gemm) begin(t target, first bool, cv *carver) kernel.Mat {
	c, from := t.c.wide(), g.from
	if t.c.narrow() {
		c = rowMajor(cv.take(t.c.rows*t.c.cols), t.c.rows, t.c.cols)
		if from.absent() && g.acc {
			from = g.c.floats
		}
	}
	if first && !from.absent() {
		for r := range t.c.rows {
			from.get(g.s, (t.r0+r)*g.c.rowStride+t.c0, c.Data[r*c.RowStride:][:t.c.cols])
		}
	}
	return c
}

// end adds the bias to the tile's sums and stores them in C.
func (g *gemm) end(t target, c kernel.Mat) {
	if g.bias != nil {
		for r := range t.c.rows {
			y := c.Data[r*c.RowStride:][:t.c.cols]
			g.s.set.Add(y, y, g.bias[t.c0:][:t.c.cols])
		}
	}
	if t.c.narrow() {
		for r := range t.c.rows {
			t.c.put(g.s, r*t.c.rowStride, c.Data[r*c.RowStride:][:t.c.cols])
		}
	}
}

// Run does tile i.
func (g *gemm) Run(i, worker int) {
	s := g.s
	r0, c0 := i/g.across*g.mt, i%g.across*g.nt
	r1, c1 := min(r0+g.mt, g.c.rows), min(c0+g.nt, g.c.cols)
	cv := s.carver(worker)
	t, a, b := target{g.c.tile(r0, r1, c0, c1), r0, c0}, g.a.tile(r0, r1, 0, g.a.cols), g.b.tile(0, g.b.rows, c0, c1)
	half := a.t != dtype.F16 && b.t != dtype.F16 && (a.narrow() || b.narrow())
	if half && g.rounds() {
		c := rowMajor(cv.take(t.c.rows*t.c.cols), t.c.rows, t.c.cols)
		s.set.GemmBF16Round(t.c.bf16(), g.before(t).bf16(), a.bf16(), b.bf16(), c, cv)
		return
	}
	c := g.begin(t, true, &cv)
	switch {
	case !a.narrow() && !b.narrow():
		s.products.Gemm(c, a.wide(), b.wide(), g.acc, cv)
	case half:
		s.set.GemmBF16(c, a.bf16(), b.bf16(), g.acc, cv)
	default:
		for k := 0; k == 0 || k < a.cols; k += narrowK {
			e, cv := min(k+narrowK, a.cols), cv
			x := a.tile(0, a.rows, k, e).widened(s, &cv)
			s.products.Gemm(c, x, b.tile(k, e, 0, b.cols).widened(s, &cv), g.acc || k > 0, cv)
		}
	}
	g.end(t, c)
}

// productNeeds is a thread's workspace and the shared bytes for the matrix product that an instruction is; 0 for others.
func productNeeds(in *compile.Instr, b graph.Bounds) (worker, shared int64) {
	lead := func(o compile.Operand) int { return o.Type.Shape.Lead(b) }
	last := func(o compile.Operand) int { return o.Type.Shape.Last() }
	switch in.Op.(type) {
	case graph.MatMul, graph.GroupedMatMul, graph.MatMulDX, graph.GroupedMatMulDX:
		return gemmNeeds(in, lead(in.Out[0]), last(in.Out[0]), last(in.In[0]))
	case graph.MatMulDW, graph.GroupedMatMulDW:
		return gemmNeeds(in, last(in.In[0]), last(in.In[1]), lead(in.In[0]))
	}
	return 0, 0
}

// gemmNeeds is both for a product of c (m,n) over k.
func gemmNeeds(in *compile.Instr, m, n, k int) (worker, shared int64) {
	return gemmScratch(in, m, n, k), sharedNeeds(in, m, n, k, isNarrow(in.Out[0].Type.DType))
}

// trains tells whether a job makes gradients of products.
func trains(programs []*compile.Program) bool {
	for _, p := range programs {
		for i := range p.Instrs {
			switch p.Instrs[i].Op.(type) {
			case graph.MatMulDW, graph.GroupedMatMulDW, graph.MatMulDX, graph.GroupedMatMulDX:
				return true
			}
		}
	}
	return false
}
