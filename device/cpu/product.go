package cpu

import (
	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
)

// product is a matrix product of f32 rows with a packed weight, cut into tiles for the pool. Every element is one chain in ascending
// order whatever the tiles, so a row's bits do not depend on the rows beside it. For block types the rows are rounded to eight bits
// once, before the tiles, but for those whose codes are of a table, which are widened to f32 a few rows at a time.
type product struct {
	s       *Session
	w       *packed
	x, y    []float32
	bias    []float32 // (n) added last, or nil
	offsets []int32   // the rows of each matrix of w; nil where there is one
	codes   []byte    // of x, for block types
	near    []byte    // the same rearranged for tiles, or nil
	rows    int
	height  int // rows that are taken at a time
	width   int // columns of a tile
	across  int // tiles of a matrix
}

// The tiles: of many rows, what a tile takes of a weight and its rows at a time each stay in L2 beside the other.
const (
	productCache = 256 << 10 // bytes of each
	productSmall = 1 << 14   // multiply-adds of which a thread takes all
	productLarge = 1 << 17   // of which it takes a tile
	productTurns = 8         // the most tiles that a thread gets
	productMany  = 16        // rows from which kernels want workspace
	// productShared is the rows at a time where a kernel unpacks panels for all of them, and goes through parts of K.
	productShared = 288
)

// cut is the columns of a tile. Each thread gets as many tiles as the others: some more where there is time for it, since a thread may
// begin late.
func (w *packed) cut(rows, threads int) int {
	work := rows * w.n * w.k
	if threads == 1 && rows <= tileless || work <= productSmall {
		return roundUp(w.n, kernel.QuantPanel)
	}
	turns := min(max(work/(threads*productLarge), 1), productTurns)
	width := tiles(w.n, threads*turns)
	if rows > tileless {
		width = min(width, max(productCache*w.n/max(w.bytes, 1), kernel.QuantPanel))
	}
	if rows > tileless && w.half() {
		return roundUp(width, kernel.PanelCols)
	}
	if width > 16*kernel.QuantPanel { // single rows of f16 and bf16 take four panels at a time
		return roundUp(width, 4*kernel.QuantPanel)
	}
	return roundUp(width, kernel.QuantPanel)
}

// tableRows is the rows that a table's codes are widened for at a time.
const tableRows = 256

// tileless is the rows that a micro-kernel takes at most: with no more, each part of a weight is read once.
const tileless = 8

// product computes y = x·wᵀ + bias. Where again, the product before it had the same rows.
func (s *Session) product(w *packed, x, y, bias []float32, offsets []int32, rows int, again bool) {
	if rows == 0 || w.n == 0 {
		return
	}
	p := &s.prod
	*p = product{s: s, w: w, x: x, y: y, bias: bias, offsets: offsets, rows: rows}
	rowBytes := 4 * w.k
	if !w.half() && !w.table() {
		rowBytes = kernel.QuantizedLen(1, w.k)
		p.codes = s.codes[:kernel.QuantizedLen(rows, w.k)]
		form := kernel.NearForm(0)
		if w.group.Bits == 0 && offsets == nil && rows >= productMany {
			form = s.set.NearForm(w.t)
		}
		if form > 0 {
			p.near = s.codes[len(p.codes):][:kernel.NearLen(rows, w.k)]
		}
		s.roundRows(x, rows, w.k, form, p, again)
	}
	switch {
	case w.table():
		p.height = tableRows
	case w.group.Bits == 0 && s.set.SharesPanels(w.t):
		p.height = productShared
	default:
		p.height = max(productCache/rowBytes&^7, 8)
	}
	p.width = w.cut(rows, s.pool.Threads())
	p.across = tiles(w.n, p.width)
	s.pool.DoTask(w.experts*p.across, p)
}

// rounding is the rows of a product on their way to eight bits, some at a time, and from there to the form that tiles want.
type rounding struct {
	codes, near []byte
	x           []float32
	rows, k     int
	unit        int // rows that are rearranged together, or 1
	form        kernel.NearForm
	rounded     bool
}

// roundRows makes p's codes and near of x. Where again, the codes are there, and near too if they were made for the same form.
func (s *Session) roundRows(x []float32, rows, k int, form kernel.NearForm, p *product, again bool) {
	if again && (form == 0 || form == s.rounding.form) {
		return
	}
	s.rounding = rounding{p.codes, p.near, x, rows, k, 1, form, again}
	if form > 0 {
		s.rounding.unit = productMany
	}
	s.rows(tiles(rows, s.rounding.unit), k*s.rounding.unit, &s.rounding)
}

func (r *rounding) do(s *Session, lo, hi, _ int) {
	lo, hi = lo*r.unit, min(hi*r.unit, r.rows)
	n := kernel.QuantizedLen(1, r.k)
	codes := r.codes[lo*n : hi*n]
	if !r.rounded {
		s.set.QuantizeRows(codes, r.x[lo*r.k:hi*r.k], hi-lo, r.k, r.k)
	}
	if r.form > 0 {
		s.set.NearRows(r.near[kernel.NearLen(lo, r.k):kernel.NearLen(hi, r.k)], codes, hi-lo, r.k, r.form)
	}
}

// Run does tile i.
func (p *product) Run(i, worker int) {
	e, c0 := i/p.across, i%p.across*p.width
	c1 := min(c0+p.width, p.w.n)
	lo, hi := 0, p.rows
	if p.offsets != nil {
		lo, hi = int(p.offsets[e]), int(p.offsets[e+1])
	}
	if lo == hi {
		return
	}
	var whole, rest kernel.QuantWeights
	var work []byte
	c := p.s.carver(worker)
	if hi-lo >= productMany && !p.w.table() {
		work = bytesOf(c.take(kernel.QuantWork / 4))
	}
	if p.w.group.Bits == 0 {
		whole = p.w.panels(e)
	}
	if c1 > whole.N && p.w.half() { // the rows after the last whole panel, as a panel
		n := p.w.n - whole.N
		rest = kernel.QuantWeights{Type: p.w.t, N: n, K: p.w.k, Data: bytesOf(c.take(restElems(p.w.k)))}
		clear(rest.Data)
		rest.PackFrom(p.w.rest(e), 0)
	}
	for r := lo; r < hi; r += p.height {
		end := min(r+p.height, hi)
		if p.w.table() {
			c := p.s.carver(worker)
			x := rowMajor(p.x[r*p.w.k:end*p.w.k], end-r, p.w.k)
			p.s.set.GemmTable(p.to(r, end, c0, c1), x, p.w.values(e), c0, c.take(kernel.TableWorkspace(end-r)))
		} else if p.w.group.Bits > 0 {
			c, lda := p.to(r, end, c0, c1), kernel.QuantizedLen(1, p.w.k)
			p.s.set.GemmGrouped(c, p.codes[r*lda:end*lda], p.w.codes(e), c0)
		} else if c0 < whole.N {
			p.tile(whole, r, end, c0, min(c1, whole.N), 0, work)
		}
		if rest.N > 0 {
			p.tile(rest, r, end, whole.N, p.w.n, whole.N, work)
		}
		if p.bias != nil {
			for j := r; j < end; j++ {
				y := p.y[j*p.w.n+c0 : j*p.w.n+c1]
				p.s.set.Add(y, y, p.bias[c0:c1])
			}
		}
	}
}

// tile makes rows r0 to r1 and columns c0 to c1 of y; w's first row is that of column base.
func (p *product) tile(w kernel.QuantWeights, r0, r1, c0, c1, base int, work []byte) {
	k := p.w.k
	c := p.to(r0, r1, c0, c1)
	if p.codes == nil {
		p.s.set.GemmHalf(c, rowMajor(p.x[r0*k:r1*k], r1-r0, k), w, c0-base, work)
		return
	}
	lda := kernel.QuantizedLen(1, k)
	var near []byte
	if p.near != nil {
		near = p.near[kernel.NearLen(r0, k):kernel.NearLen(r1, k)]
	}
	p.s.set.GemmQuant(c, p.codes[r0*lda:r1*lda], near, w, c0-base, work)
}

// to is rows r0 to r1 and columns c0 to c1 of y.
func (p *product) to(r0, r1, c0, c1 int) kernel.Mat {
	n := p.w.n
	return kernel.RowMajor(p.y[r0*n+c0:(r1-1)*n+c1], r1-r0, c1-c0, n)
}

// restElems is the workspace, in elements, of the rows after the last whole panel of f16 and bf16.
func restElems(k int) int { return kernel.QuantPanel * k / 2 }

// storedNeeds is the workspace of one thread, and the shared bytes of rounded rows, of a product of f32 rows with a weight in a
// narrower type.
func storedNeeds(in *compile.Instr, b graph.Bounds) (worker, shared int64) {
	x, w := in.In[0].Type, in.In[1].Type
	rows, k := x.Shape.Lead(b), x.Shape.Last()
	if g, ok := quant.GroupOf(w.DType); ok && g.Table != quant.Integers {
		return 4 * int64(takes(kernel.TableWorkspace(min(rows, tableRows)))), 0
	}
	var parts []int
	if rows >= productMany {
		parts = append(parts, kernel.QuantWork/4)
	}
	if w.DType.Block() {
		shared = int64(kernel.QuantizedLen(rows, k) + kernel.NearLen(rows, k))
	} else if w.Shape.Dims[w.Shape.N-2].N%kernel.QuantPanel != 0 {
		parts = append(parts, restElems(k))
	}
	return 4 * int64(takes(parts...)), shared
}

// sameRows tells whether the instruction before is a product with the same rows, which then are rounded already.
func (b *binder) sameRows() bool {
	if b.at == 0 {
		return false
	}
	before := &b.x.Instrs[b.at-1]
	return stores(before) && before.In[0] == b.in.In[0] && before.In[1].Type.DType.Rounds() && before.Out[0].Buffer != b.in.In[0].Buffer
}

// bindStored is a MatMul of f32 rows with a weight in a narrower type.
func bindStored(b *binder) step {
	x, w, bias, y := b.in32(0), b.weight(b.in.In[1]), b.in32(2), b.out32(0)
	t, again := b.inType(0), b.sameRows()
	return stepFunc(func(s *Session) error {
		s.product(w, x, y, bias, nil, t.Shape.Lead(s.b), again)
		return nil
	})
}

// bindGroupedStored is a GroupedMatMul of such rows.
func bindGroupedStored(b *binder) step {
	x, w, offsets, y := b.in32(0), b.weight(b.in.In[1]), b.inInt(2), b.out32(0)
	t, again := b.inType(0), b.sameRows()
	return stepFunc(func(s *Session) error {
		rows := t.Shape.Lead(s.b)
		if err := checkOffsets(offsets, rows); err != nil {
			return err
		}
		s.product(w, x, y, nil, offsets, rows, again)
		return nil
	})
}
