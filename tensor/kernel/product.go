package kernel

import "unsafe"

// product is one precision's matrix product in one set: a micro-kernel, its packing, and how they cut the
// work. One call of the micro-kernel makes a tile of m x n over at most kb of K; its B panel comes from L1 or, where it is
// deep, from L2, the A block from L2. No result depends on them, since the micro-kernel continues the stored sum.
//
// Packed elements are counted in dwords, which Go sees as float32. A step is one k, or where pairs is set
// two: its B panel holds a dword of two bf16 a column, the earlier k in the high half. A's panel is alike;
// but where widen is set A's panel holds float32, and B's becomes float32 just before its tiles, in
// workspace that stays in L1: 1 or 2% of the work, where widening in the micro-kernel cost 8 to 15%.
type product struct {
	m, n, kb int // of tiles kb is as much as fits in L2, since C comes from further away; else 256, or 512 where a block is at most 256 steps or a wide set can multiply A as it lies
	pairs    bool
	unit     int // a panel's steps are a multiple of it, the last of them zeros; 0 is 1
	pieces   int // bf16 that an element becomes, each with dwords of its own; 0 is 1
	nb, mb   int // columns of a block of B and rows of A packed at once; 0 is blockN, and packM or fewer
	// micro is C (rows,n) = A·B, or C += A·B when acc, over steps >= 1 of a packed panel of B. From next on it
	// may ask the cache for 16 dwords every four steps, and does not read them.
	micro func(steps int, a lhs, b, c []float32, ldc, rows int, acc bool, next *float32)
	// widen turns a panel of pairs into one of two steps for each, or is nil.
	widen func(steps int, src, dst []float32)
	// direct tells whether a can be multiplied as it lies, or is nil: it never can.
	direct func(a operand) bool
	// near, where set, makes of A (M,kc) whose columns lie in memory columns ld apart; packA is not used for such an A.
	near func(dst []float32, ld int, a operand)
	// packA fills the panel of a (rows,kc), of which it may leave absent rows and padA dwords undefined.
	packA func(dst []float32, a operand, rows int)
	// packB fills panels of b (kc,N), stride dwords apart; absent columns may hold anything.
	packB func(dst []float32, b operand, stride int)
	// roundTile writes a tile c of n columns into h as bf16, and widenTile reads it from there: for a C in bf16, tile by tile. Where they are
	// nil, C is rounded and widened as a whole.
	roundTile, widenTile func(rows int, c []float32, ldc int, h half)
	// tiles is instead of micro and packA in a set that has matrix registers, or nil.
	tiles *tiles
	// attention is what attention in bf16 multiplies by, or nil: then it widens its operands.
	attention *tiles
}

// lhs is the part of A that a micro-kernel multiplies: element (i,k) lies at i·ld+k where byRow is set, else at
// i+k·ld, as it does in a packed panel.
type lhs struct {
	data  []float32
	ld    int
	byRow bool
}

// tiles is a block's product where the CPU has registers for matrices, and that of attention in bf16.
type tiles struct {
	// strip is the rows that a packed strip of 32 or fewer has room for, or 0: as many as it has.
	strip int
	// pack packs a (M,kc), M at most packM.
	pack func(dst []float32, a operand)
	// block is product.block with C in bf16 where it begins or ends: unless acc, sums begin with from where it has
	// data, and where out has data they are rounded into it, and C itself is undefined.
	block func(c Mat, from, out half, kc int, bp []float32, acc bool, w work)
}

// half is C in bf16: rows ld elements apart, or nothing.
type half struct {
	data []uint16
	ld   int
}

// slice is the part for rows from i and columns from j on.
func (h half) slice(i, j int) half {
	if h.data == nil {
		return h
	}
	return half{h.data[i*h.ld+j:], h.ld}
}

const (
	packM  = 576 // rows of A packed at once: a multiple of every tile's
	blockM = 144 // rows of A that stay in L2 while a block of B passes
	blockN = 320 // columns of B in a block, packed at once; a multiple of every tile's
	smallN = 64  // blockN when few rows reuse a packed B: it stays near
	smallM = 48
	maxM   = 12 // the largest tile
	maxN   = PanelCols
	minM   = 6
	maxKB  = 512 // the most steps of a panel
	packKB = 256 // the most of them where packing A is the product's own choice, and the most k where it is widened
	padA   = 16  // dwords after each A panel: packing may store more than counts
	minK   = 20  // the least k in a workspace's size: room for the zeros and the tile of a set with tiles
	// A product by tiles reads and writes C once for each block of k, by way of L3, which takes as long as 200 or 300 of k do: amxKB and in parts partsKB
	// make that few times. A block of B and the rows of A packed with it fill three quarters of L2.
	amxKB   = 1024
	partsKB = 512
	partsN  = 160
	partsM  = 256
	amxK    = 32
	tileAt  = 32 * 32
)

// GemmWorkspace returns the elements of workspace that one thread's product of at most (m,n,k) needs, in
// any form and precision: less than 1.5 MiB whatever the size, and monotonic in each argument.
func GemmWorkspace(m, n, k int) int {
	const align = 16 // the parts start on 64 bytes
	k = max(k, minK)
	parts := min(roundUp(k, amxK), partsKB) * 3 / 2 // steps of a product in parts
	packed := func(rows, steps int) int { return nearLD(min(m, rows)) / minM * (min(k, steps)*minM + padA) }
	strips := func(rows, steps int) int { return roundUp(min(m, rows), amxK) * min(parts, steps) }
	a := max(packed(packM, packKB), packed(packM*packKB/maxKB, maxKB), strips(packM, packKB), strips(packM*packKB/maxKB, maxKB), strips(partsM, parts), strips(2*partsM, partsKB/2*3/2))
	b := max(roundUp(min(n, blockN), maxN)*min(roundUp(k, amxK), maxKB), roundUp(min(n, partsN), maxN)*parts)
	wide := roundUp(min(k, packKB), 2) * maxN
	return align + maxM*maxN + wide + roundUp(b, align) + roundUp(a, align)
}

// operand is a matrix to pack: float32, or bf16 where half is not nil.
type operand struct {
	f32                  []float32
	half                 []uint16
	rows, cols           int
	rowStride, colStride int
}

func (m Mat) operand() operand {
	return operand{f32: m.Data, rows: m.Rows, cols: m.Cols, rowStride: m.RowStride, colStride: m.ColStride}
}

// slice is the view of rows i0 to i1 and columns j0 to j1, which are not empty.
func (o operand) slice(i0, i1, j0, j1 int) operand {
	at := i0*o.rowStride + j0*o.colStride
	if o.half != nil {
		o.half = o.half[at:]
	} else {
		o.f32 = o.f32[at:]
	}
	o.rows, o.cols = i1-i0, j1-j0
	return o
}

// bits is element (i,j) as a bf16, rounded to nearest if it is a float32.
func (o operand) bits(i, j int) uint16 {
	at := i*o.rowStride + j*o.colStride
	if o.half != nil {
		return o.half[at]
	}
	return roundBF16(o.f32[at])
}

// check panics when an element lies outside the data.
func (o operand) check(what string) {
	if o.rows < 0 || o.cols < 0 || o.rowStride < 0 || o.colStride < 0 {
		panic("kernel: " + what + ": negative dimension or stride")
	}
	if o.rows > 0 && o.cols > 0 && (o.rows-1)*o.rowStride+(o.cols-1)*o.colStride >= max(len(o.f32), len(o.half)) {
		panic("kernel: " + what + ": matrix reaches past its data")
	}
}

// steps is how many steps kc of K take, those of every part counted.
func (p *product) steps(kc int) int {
	if p.pairs {
		return roundUp((kc+1)/2, max(p.unit, 1)) * max(p.pieces, 1)
	}
	return kc
}

// inner is how many steps the micro-kernel makes of kc of K.
func (p *product) inner(kc int) int {
	if p.widen != nil {
		return kc
	}
	return p.steps(kc)
}

func (p *product) gemm(c Mat, from, out half, a, b operand, acc bool, ws []float32) {
	if a.rows != c.Rows || b.cols != c.Cols || a.cols != b.rows {
		panic("kernel: Gemm: shapes do not match")
	}
	b.check("Gemm: b")
	if !p.edge(c, a, acc, ws) {
		return
	}
	nb := p.columns()
	if c.Rows <= smallM {
		nb = smallN
	}
	w := p.carve(ws, c.Cols, a.cols)
	kb := p.kb
	if p.tiles == nil && !p.takes(a) && p.inner(kb) > packKB {
		kb = packKB
	}
	rows := p.parts(a, kb)
	if p.mb > 0 && c.Rows > rows { // B is packed once for all of rows, and that takes longer than C's ways
		rows, kb = 2*rows, kb/2
	}
	for i := 0; i < c.Rows; i += rows {
		i1 := min(i+rows, c.Rows)
		for k := 0; k < a.cols; k += kb {
			k1 := min(k+kb, a.cols)
			w.lhs = p.packBlockA(w.a, a.slice(i, i1, k, k1))
			start, end := half{}, half{}
			if k == 0 {
				start = from
			}
			if k1 == a.cols {
				end = out
			}
			for j := 0; j < c.Cols; j += nb {
				j1 := min(j+nb, c.Cols)
				p.packB(w.b, b.slice(k, k1, j, j1), p.steps(k1-k)*p.n)
				p.block(c.Slice(i, i1, j, j1), start.slice(i, j), end.slice(i, j), k1-k, w.b, acc || k > 0, w)
			}
		}
	}
}

// parts is how many rows of a to take at once: where they are packed, kb deep, at most packM, in even parts.
func (p *product) parts(a operand, kb int) int {
	if p.takes(a) {
		return a.rows
	}
	most := packM
	switch {
	case p.mb > 0:
		most = p.mb
	case p.inner(min(kb, a.cols)) > packKB:
		most = packM * packKB / maxKB
	}
	n := (a.rows + most - 1) / most
	return roundUp((a.rows+n-1)/n, max(p.m, maxM))
}

// columns is the columns of a block of B.
func (p *product) columns() int {
	if p.nb > 0 {
		return p.nb
	}
	return blockN
}

// takes tells whether a is multiplied as it lies.
func (p *product) takes(a operand) bool { return p.direct != nil && p.direct(a) }

// packWhole packs columns j0 to j1 of b into a packed matrix.
func (p *product) packWhole(dst []float32, b operand, j0, j1 int) {
	if j0 < 0 || j1 < j0 || j1 > b.cols || j0%PanelCols != 0 || j1%PanelCols != 0 && j1 != b.cols {
		panic("kernel: PackB: range is not of whole panels")
	}
	b.check("PackB: b")
	if j0 == j1 {
		return
	}
	np := roundUp(b.cols, p.n)
	for k := 0; k < b.rows; k += p.kb {
		k1 := min(k+p.kb, b.rows)
		steps := p.steps(k1 - k)
		p.packB(dst[p.steps(k)*np+j0*steps:], b.slice(k, k1, j0, j1), steps*p.n)
	}
}

// gemmPacked is gemm with columns j0 on of a packed b (k,n).
func (p *product) gemmPacked(c Mat, from, out half, a operand, b []float32, k, n, j0 int, acc bool, ws []float32) {
	if a.rows != c.Rows || a.cols != k || j0 < 0 || j0+c.Cols > n {
		panic("kernel: GemmPacked: shapes do not match")
	}
	if j0%PanelCols != 0 {
		panic("kernel: GemmPacked: first column is not at a panel")
	}
	if !p.edge(c, a, acc, ws) {
		return
	}
	w := p.carve(ws, c.Cols, k)
	np := roundUp(n, p.n)
	for i, rows := 0, p.parts(a, p.kb); i < c.Rows; i += rows {
		i1 := min(i+rows, c.Rows)
		for at := 0; at < k; at += p.kb {
			end := min(at+p.kb, k)
			w.lhs = p.packBlockA(w.a, a.slice(i, i1, at, end))
			start, last := half{}, half{}
			if at == 0 {
				start = from
			}
			if end == k {
				last = out
			}
			p.block(c.Slice(i, i1, 0, c.Cols), start.slice(i, 0), last.slice(i, 0), end-at, b[p.steps(at)*np+j0*p.steps(end-at):], acc || at > 0, w)
		}
	}
}

// edge checks the operands common to both forms and does the cases without a sum; it reports whether there
// is more to do.
func (p *product) edge(c Mat, a operand, acc bool, ws []float32) bool {
	if c.ColStride != 1 {
		panic("kernel: Gemm: c has a column stride")
	}
	c.check("Gemm: c")
	a.check("Gemm: a")
	if len(ws) < GemmWorkspace(c.Rows, c.Cols, a.cols) {
		panic("kernel: Gemm: workspace is too small")
	}
	if c.Rows == 0 || c.Cols == 0 {
		return false
	}
	if a.cols == 0 && !acc {
		for i := range c.Rows {
			clear(c.Data[i*c.RowStride:][:c.Cols])
		}
	}
	return a.cols > 0
}

// work is a workspace, cut up.
type work struct {
	tile []float32 // a tile at the edge of C
	wide []float32 // a widened panel of B
	b, a []float32 // packed
	lhs  operand   // A itself, where it is multiplied as it lies
	// from and out are the column in hand in bf16, where it begins or ends.
	from, out half
}

func (p *product) carve(ws []float32, n, k int) (w work) {
	ws = ws[int(-uintptr(unsafe.Pointer(&ws[0]))%64/4):]
	take := func(n int) []float32 {
		x := ws[:n]
		ws = ws[n:]
		return x
	}
	if p.tiles != nil {
		w.tile = take(tileAt)
	} else {
		w.tile = take(maxM * maxN)
	}
	if p.widen != nil {
		w.wide = take(roundUp(min(k, p.kb), 2) * p.n)
	}
	w.b = take(roundUp(roundUp(min(n, p.columns()), p.n)*p.steps(min(k, p.kb)), 16))
	w.a = ws
	return w
}

// packBlockA packs a (M,kc), M at most packM, or returns it where it needs no packing.
func (p *product) packBlockA(dst []float32, a operand) operand {
	if p.takes(a) {
		return a
	}
	if p.copies(a) {
		p.near(dst, nearLD(a.rows), a)
		return operand{rows: a.rows}
	}
	if p.tiles != nil {
		p.tiles.pack(dst, a)
		return operand{}
	}
	pa := p.inner(a.cols)*p.m + padA
	for i := 0; i < a.rows; i += p.m {
		r := min(p.m, a.rows-i)
		p.packA(dst[i/p.m*pa:][:pa], a.slice(i, i+r, 0, a.cols), r)
	}
	return operand{}
}

// copies tells whether near is for a.
func (p *product) copies(a operand) bool { return p.near != nil && a.half == nil && a.rowStride == 1 }

// nearLD is how far apart near puts columns of so many rows: an odd number of 48 bytes, for columns that are a multiple of a
// power of two apart share a few sets of the cache.
func nearLD(rows int) int { return ((rows+maxM-1)/maxM | 1) * maxM }

// block adds (or stores) the product of one k block: c (M,N), the packed A of M rows, bp panels of kc rows. Only
// products with tiles or with roundTile take from and out.
func (p *product) block(c Mat, from, out half, kc int, bp []float32, acc bool, w work) {
	if p.tiles != nil {
		p.tiles.block(c, from, out, kc, bp, acc, w)
		return
	}
	pb := p.steps(kc) * p.n
	for j0 := 0; j0 < c.Cols; j0 += blockN {
		j1 := min(j0+blockN, c.Cols)
		for i0 := 0; i0 < c.Rows; i0 += blockM {
			i1 := min(i0+blockM, c.Rows)
			for j := j0; j < j1; j += p.n {
				next := bp[j0/p.n*pb:] // after the last panel the next rows begin with the first
				if j+p.n < j1 || i1 == c.Rows && j+p.n < c.Cols {
					next = bp[(j/p.n+1)*pb:]
				}
				w.from, w.out = from.slice(i0, j), out.slice(i0, j)
				p.column(c.Slice(i0, i1, j, min(j+p.n, c.Cols)), kc, bp[j/p.n*pb:][:pb], next[:pb], i0, acc, &w)
			}
		}
	}
}

// left is what the tile of row i multiplies, and how far on the next tile's begins, within blockM rows.
func (p *product) left(w *work, inner, i int) (a lhs, next int) {
	switch o := &w.lhs; {
	case o.f32 == nil && o.rows > 0: // copied
		return lhs{w.a[i:], nearLD(o.rows), false}, p.m
	case o.f32 == nil:
		pa := inner*p.m + padA
		return lhs{w.a[i/p.m*pa:], p.m, false}, pa
	default: // as it lies
		return lhs{o.f32[i*o.rowStride:], o.rowStride, true}, p.m * o.rowStride
	}
}

// column is block for one panel of B and at most blockM rows of A from i0 on; next is the panel that will follow.
func (p *product) column(c Mat, kc int, b, next []float32, i0 int, acc bool, w *work) {
	inner := p.inner(kc)
	if p.widen != nil {
		p.widen(p.steps(kc), b, w.wide)
		b = w.wide
	}
	a, ahead := p.left(w, inner, i0)
	ct, asked := c.Data, next
	for rows := c.Rows; ; {
		r := min(p.m, rows)
		switch {
		case w.from.data != nil || w.out.data != nil:
			p.halfTile(inner, a, b, ct, c, c.Rows-rows, r, acc, w, &asked[0])
		case c.Cols == p.n:
			p.micro(inner, a, b, ct, c.RowStride, r, acc, &asked[0])
		default:
			p.edgeTile(inner, a, b, ct, c, r, acc, w.tile, &asked[0])
		}
		if rows -= r; rows == 0 {
			return
		}
		a.data, ct = a.data[ahead:], ct[r*c.RowStride:]
		asked = asked[min(inner*4, len(asked)-1):] // in parts, a tile each
	}
}

// edgeTile is micro for fewer columns than a panel's, by way of tile.
func (p *product) edgeTile(steps int, a lhs, b, ct []float32, c Mat, rows int, acc bool, tile []float32, next *float32) {
	for q := 0; acc && q < rows; q++ {
		copy(tile[q*p.n:], ct[q*c.RowStride:][:c.Cols])
	}
	p.micro(steps, a, b, tile, p.n, rows, acc, next)
	for q := range rows {
		copy(ct[q*c.RowStride:][:c.Cols], tile[q*p.n:])
	}
}

// halfTile is micro for a tile from row i on that begins with what w.from has of it, where it has data, and ends in w.out, where that has
// data: then C's tile is undefined after. With acc, C's has the sums so far.
func (p *product) halfTile(steps int, a lhs, b, ct []float32, c Mat, i, rows int, acc bool, w *work, next *float32) {
	from, out, whole := w.from.slice(i, 0), w.out.slice(i, 0), c.Cols == p.n
	if !whole { // the tile is float32's, and its elements are turned one by one
		for r := 0; from.data != nil && r < rows; r++ {
			for j, h := range from.data[r*from.ld:][:c.Cols] {
				ct[r*c.RowStride+j] = widenBF16(h)
			}
		}
		p.edgeTile(steps, a, b, ct, c, rows, acc || from.data != nil, w.tile, next)
		for r := 0; out.data != nil && r < rows; r++ {
			for j, x := range ct[r*c.RowStride:][:c.Cols] {
				out.data[r*out.ld+j] = roundBF16(x)
			}
		}
		return
	}
	t, ld := ct, c.RowStride
	if out.data != nil && !acc { // from the first k to the last: C is not needed
		t, ld = w.tile, p.n
	}
	if from.data != nil {
		p.widenTile(rows, t, ld, from)
		acc = true
	}
	p.micro(steps, a, b, t, ld, rows, acc, next)
	if out.data != nil {
		p.roundTile(rows, t, ld, out)
	}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
