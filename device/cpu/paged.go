package cpu

import (
	"fmt"
	"unsafe"

	"loadline/graph"
	"loadline/tensor/kernel"
)

// The tiles of attention. Keys are taken in blocks at fixed absolute positions, which is what makes a row's bits its own;
// the rows of a tile only share the work of packing.
const (
	keyBlock = kernel.FlashBlock
	tileRows = 128
)

// tile is up to tileRows rows of one sequence, ascending in position.
type tile struct{ row, n, seq, last int32 } // first row, rows, sequence, last position

// tileNeeds is the shared bytes for the tiles and runs of a pass of rows.
func tileNeeds(rows int) int64 {
	return graph.RoundUp(int64(rows)*int64(unsafe.Sizeof(tile{})) + 4*int64(rows+1))
}

// paging is which keys the rows of an attention operation see.
type paging struct {
	graph.AttentionSpec
	table, seq, pos []int32
	seqs, blocks    int
	rows            graph.Dim
	slots           graph.Dim // of the pool

	// Of the run in progress.
	tiles    []tile
	runs     []int32 // the first tile of each sequence, then the number of tiles
	disjoint bool    // no slot belongs to two sequences
}

// paged binds the last three operands of an attention operation, which begin at operand i. slots is the pool's.
func (b *binder) paged(s graph.AttentionSpec, i int, slots graph.Dim) *paging {
	t := b.inType(i).Shape
	return &paging{AttentionSpec: s, table: b.inInt(i), seq: b.inInt(i + 1), pos: b.inInt(i + 2),
		seqs: t.Dims[0].N, blocks: t.Dims[1].N, rows: b.inType(i + 1).Shape.Dims[0], slots: slots}
}

// plan cuts the rows into tiles and checks every index that they will use.
func (p *paging) plan(s *Session) error {
	n := p.rows.Len(s.b)
	mem := s.shared[s.tilesAt:]
	tiles := unsafe.Slice((*tile)(unsafe.Pointer(&mem[0])), n)
	runs := unsafe.Slice((*int32)(unsafe.Pointer(&mem[4*n])), n+1)
	limit := min(p.Context, p.blocks*p.Block)
	slots := p.slots.Len(s.b)
	nt, nr, high, before := 0, 0, int32(-1), int32(-1)
	p.disjoint = true
	for r := 0; r < n; {
		q, at := p.seq[r], p.pos[r]
		if q < 0 || int(q) >= p.seqs {
			return idError("sequence", r, q, p.seqs)
		}
		if at < 0 || int(at) >= limit {
			return idError("position", r, at, limit)
		}
		e := r + 1
		for e < n && p.seq[e] == q && p.pos[e] > p.pos[e-1] && p.pos[e]/tileRows == at/tileRows {
			e++
		}
		if r == 0 || q != before || at <= p.pos[r-1] {
			runs[nr] = int32(nt)
			nr++
		}
		tiles[nt] = tile{int32(r), int32(e - r), q, p.pos[e-1]}
		nt++
		before = q
		r = e
	}
	runs[nr] = int32(nt)
	p.tiles, p.runs = tiles[:nt], runs[:nr+1]
	for i := range nr {
		t := p.tiles[p.runs[i+1]-1]
		if int(t.last) >= limit {
			return idError("position", int(t.row+t.n-1), t.last, limit)
		}
		for j, k := range p.table[int(t.seq)*p.blocks:][:int(t.last)/p.Block+1] {
			if k < 0 || (int(k)+1)*p.Block > slots && int(k)*p.Block+min(p.Block, int(t.last)+1-j*p.Block) > slots {
				return fmt.Errorf("block %d of sequence %d: %w", j, t.seq, idError("table entry", j, k, slots/p.Block))
			}
			p.disjoint = p.disjoint && k > high
			high = k
		}
	}
	return nil
}

// slot is where position at of sequence q lies in the pool.
func (p *paging) slot(q, at int) int {
	return int(p.table[q*p.blocks+at/p.Block])*p.Block + at%p.Block
}

// contiguous tells whether n positions of sequence q from at on lie one after the other.
func (p *paging) contiguous(q, at, n int) bool {
	row := p.table[q*p.blocks:][:p.blocks]
	for i := at/p.Block + 1; i <= (at+n-1)/p.Block; i++ {
		if row[i] != row[i-1]+1 {
			return false
		}
	}
	return true
}

// keys is n positions of sequence q from at on, head g of a pool: in place where they are of f32 and lie together, else
// gathered in buf.
func (p *paging) keys(s *Session, pool floats, q, at, n, g int, buf []float32) kernel.Mat {
	width := p.KVHeads * p.HeadDim
	if !pool.narrow() && p.contiguous(q, at, n) {
		return kernel.RowMajor(pool.f[p.slot(q, at)*width+g*p.HeadDim:], n, p.HeadDim, width)
	}
	for i := range n {
		pool.get(s, p.slot(q, at+i)*width+g*p.HeadDim, buf[i*p.HeadDim:(i+1)*p.HeadDim])
	}
	return rowMajor(buf, n, p.HeadDim)
}

// block is keys for a product's right side: gathered where they do not fill whole panels too, in rows of wide elements.
func (p *paging) block(s *Session, pool floats, q, at, n, g int, buf []float32) kernel.Mat {
	w := wide(p.AttentionSpec)
	if p.inPlace(pool, q, at, n, w) {
		return p.keys(s, pool, q, at, n, g, nil)
	}
	for i := range n {
		pool.get(s, p.slot(q, at+i)*p.KVHeads*p.HeadDim+g*p.HeadDim, buf[i*w:][:p.HeadDim])
	}
	return kernel.RowMajor(buf, n, p.HeadDim, w)
}

// halves is keys of a pool of bf16 as they are: in place where they lie together, else gathered in buf.
func (p *paging) halves(pool floats, q, at, n, g int, buf []uint16) kernel.MatBF16 {
	hd, width := p.HeadDim, p.KVHeads*p.HeadDim
	if p.contiguous(q, at, n) {
		return kernel.RowMajorBF16(pool.h[p.slot(q, at)*width+g*hd:], n, hd, width)
	}
	for i := range n {
		copy(buf[i*hd:(i+1)*hd], pool.h[p.slot(q, at+i)*width+g*hd:])
	}
	return kernel.RowMajorBF16(buf, n, hd, hd)
}

// halfRows is rows of a bf16 value (N,H·K) from row on, head h.
func (p *paging) halfRows(x floats, row, rows, h int) kernel.MatBF16 {
	return kernel.RowMajorBF16(x.h[(row*p.Heads+h)*p.HeadDim:], rows, p.HeadDim, p.Heads*p.HeadDim)
}

// inPlace tells whether n positions lie as rows that are w elements wide at least.
func (p *paging) inPlace(pool floats, q, at, n, w int) bool {
	return !pool.narrow() && w == p.HeadDim && p.contiguous(q, at, n)
}

// scatter puts back what keys or block gathered in rows of w elements; it does nothing where they gave the pool itself.
func (p *paging) scatter(s *Session, pool floats, q, at, n, g int, buf []float32, w int) {
	if p.inPlace(pool, q, at, n, w) {
		return
	}
	for i := range n {
		pool.put(s, p.slot(q, at+i)*p.KVHeads*p.HeadDim+g*p.HeadDim, buf[i*w:][:p.HeadDim])
	}
}

// rowsAt is rows of a value (N,H·K) from row on, head h: in place, or as block.
func (p *paging) rowsAt(s *Session, x floats, row, rows, h int, buf []float32) kernel.Mat {
	at, hd, w := (row*p.Heads+h)*p.HeadDim, p.HeadDim, wide(p.AttentionSpec)
	if !x.narrow() && w == hd {
		return kernel.RowMajor(x.f[at:], rows, hd, p.Heads*hd)
	}
	for r := range rows {
		x.get(s, at+r*p.Heads*hd, buf[r*w:][:hd])
	}
	return kernel.RowMajor(buf, rows, hd, w)
}

// from is the first row of t that sees position at.
func (p *paging) from(t *tile, at int) int {
	r := 0
	for int(p.pos[int(t.row)+r]) < at {
		r++
	}
	return r
}

// start is where the first block begins of which a row of t sees a key.
func (p *paging) start(t *tile) int { return p.First(int(p.pos[t.row])) / keyBlock * keyBlock }

// see is the rows of t, from..to, that see one of n positions from at on.
func (p *paging) see(t *tile, at, n int) (from, to int) {
	if int(t.last) < at {
		return 0, 0
	}
	from, to = p.from(t, at), int(t.n)
	for to > from && p.First(int(p.pos[int(t.row)+to-1])) >= at+n {
		to--
	}
	return from, to
}

// headAt is where row r of tile t, head h, of a value (N,H·K) begins.
func (p *paging) headAt(t *tile, r, h int) int { return ((int(t.row)+r)*p.Heads + h) * p.HeadDim }

// heads is rows r0 on of tile t, head h, of a value (N,H·K): in place where it is of f32, else widened in buf.
func (p *paging) heads(s *Session, x floats, t *tile, r0, h int, buf []float32) kernel.Mat {
	if !x.narrow() {
		return kernel.RowMajor(x.f[p.headAt(t, r0, h):], int(t.n)-r0, p.HeadDim, p.Heads*p.HeadDim)
	}
	for r := r0; r < int(t.n); r++ {
		x.get(s, p.headAt(t, r, h), buf[(r-r0)*p.HeadDim:][:p.HeadDim])
	}
	return rowMajor(buf, int(t.n)-r0, p.HeadDim)
}

// sumsAt is where to sum rows r0 on of tile t, head h, of a result (N,H·K): in place where it is of f32, else in buf, which
// holds the tile's rows from 0 on.
func (p *paging) sumsAt(x floats, t *tile, r0, h int, buf []float32) kernel.Mat {
	if !x.narrow() {
		return kernel.RowMajor(x.f[p.headAt(t, r0, h):], int(t.n)-r0, p.HeadDim, p.Heads*p.HeadDim)
	}
	return rowMajor(buf[r0*p.HeadDim:], int(t.n)-r0, p.HeadDim)
}

// summed puts the sums of a tile's rows where they belong; it does nothing where sumsAt gave the result itself.
func (p *paging) summed(s *Session, x floats, t *tile, h int, y kernel.Mat) {
	if x.narrow() {
		for r := range y.Rows {
			x.put(s, p.headAt(t, r, h), y.Data[r*y.RowStride:][:p.HeadDim])
		}
	}
}

// scaled writes Scale times rows r0 on of tile t, head h, of a value (N,H·K) to buf.
func (p *paging) scaled(s *Session, buf []float32, x floats, t *tile, r0, h int) kernel.Mat {
	m, scale := p.heads(s, x, t, r0, h, buf), p.Scale()
	for r := range m.Rows {
		s.set.Scale(buf[r*p.HeadDim:(r+1)*p.HeadDim], scale, m.Data[r*m.RowStride:][:p.HeadDim])
	}
	return rowMajor(buf, m.Rows, p.HeadDim)
}

// tileTask is a function of one tile and key/value head; runTask one of a whole sequence, so that it may sum over rows.
type (
	tileTask func(s *Session, t *tile, g, worker int)
	runTask  func(s *Session, run []tile, g, worker int)
)

// perTile is a step that plans p, then runs f for every tile and head, the longest first.
func (p *paging) perTile(f tileTask) step {
	task := fn(func(s *Session, lo, _, worker int) {
		f(s, &p.tiles[len(p.tiles)-1-lo/p.KVHeads], lo%p.KVHeads, worker)
	})
	return stepFunc(func(s *Session) error {
		if err := p.plan(s); err != nil {
			return err
		}
		s.each(len(p.tiles)*p.KVHeads, 1, task)
		return nil
	})
}

// perRun is a step that plans p, clears outs, then runs f for every sequence and head. Sequences that share slots take
// turns, so that sums into a slot have one order; narrow ones are rounded after each.
func (p *paging) perRun(f runTask, pool graph.Type, outs ...floats) step {
	apart := fn(func(s *Session, lo, _, worker int) {
		i := lo / p.KVHeads
		f(s, p.tiles[p.runs[i]:p.runs[i+1]], lo%p.KVHeads, worker)
	})
	inTurn := fn(func(s *Session, lo, _, worker int) {
		for i := range len(p.runs) - 1 {
			f(s, p.tiles[p.runs[i]:p.runs[i+1]], lo, worker)
		}
	})
	var c copyTask
	return stepFunc(func(s *Session) error {
		if err := p.plan(s); err != nil {
			return err
		}
		n := int(pool.Shape.Elems(s.b))
		for _, o := range outs {
			s.carryF(&c, o.slice(0, n), floats{})
		}
		if p.disjoint {
			s.each((len(p.runs)-1)*p.KVHeads, 1, apart)
		} else {
			s.each(p.KVHeads, 1, inTurn)
		}
		return nil
	})
}

// carver cuts a workspace into parts that start on cache lines.
type carver []float32

// carver is a thread's workspace, nil where the job needs none.
func (s *Session) carver(worker int) carver {
	if len(s.worker) == 0 {
		return nil
	}
	return s.worker[worker]
}

func (c *carver) take(n int) []float32 {
	x := (*c)[:n:n]
	*c = (*c)[(n+15)&^15:]
	return x
}

// takes is what parts of the given lengths use of a carver, in elements.
func takes(parts ...int) (n int) {
	for _, p := range parts {
		n += (p + 15) &^ 15
	}
	return n
}

// tail is x[at:], or nothing of nothing.
func tail(x []float32, at int) []float32 { return x[min(at, len(x)):] }

// pack packs b for a product.
func (s *Session) pack(buf []float32, b kernel.Mat) kernel.PackedB {
	p := kernel.PackedB{Data: buf, K: b.Rows, N: b.Cols}
	s.set.PackB(p, b, 0, b.Cols)
	return p
}

// workAttention is the workspace of the products between a tile and a block of keys.
func workAttention(k int) int {
	return kernel.GemmWorkspace(max(tileRows, keyBlock), max(keyBlock, k), max(keyBlock, k))
}
