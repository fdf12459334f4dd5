package cpu

import (
	"unsafe"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// panels is how B (K,N) of a large product is packed once for all tiles of C: so many of its rows and columns at a time. With zeros
// each tile packs its own part of B.
type panels struct{ k, n int }

// What a product packs once: what many rows of C use, in the shared workspace, in whole blocks of k where the sums of C can stay in
// memory. The work is dealt in strips of rows, large ones first: with the last small ones the threads end together, however late or
// slow one of them is.
const (
	sharedRows  = 1024    // the least rows of C
	sharedWork  = 1 << 28 // and multiply-adds
	sharedBytes = 8 << 20 // the most bytes of packed B
	sharedCols  = 2048    // and columns
	sharedLeast = 256     // the fewest columns worth it, where all of K must fit
	sharedK     = 512     // blocks of k: a multiple of every set's
	stripRows   = 48      // the least rows of a strip
	packCols    = 128     // columns of B that a thread packs at a time
)

// panelsOf is the panels of a product of c (m,n) over k.
func panelsOf(m, n, k int, half, narrow bool) (p panels) {
	if m < sharedRows || m*n*k < sharedWork {
		return p
	}
	if narrow { // its sums are in a thread's workspace, from the first k to the last
		across := sharedBytes / int(panels{k, kernel.PanelCols}.bytes(half)) * kernel.PanelCols
		if across < min(n, sharedLeast) {
			return p
		}
		return panels{k, evenly(n, min(across, sharedCols), kernel.PanelCols)}
	}
	p.n = evenly(n, sharedCols, kernel.PanelCols)
	p.k = min(k, evenly(k, sharedBytes/int(panels{sharedK, p.n}.bytes(half))*sharedK, sharedK))
	return p
}

// evenly is the size of parts of n, of at most about `most` each, but for the last a multiple of unit.
func evenly(n, most, unit int) int { return roundUp(tiles(n, tiles(n, most)), unit) }

// bytes is the room of packed B, at most sharedBytes.
func (p panels) bytes(half bool) int64 {
	if half {
		return 4 * int64(kernel.PackedBF16Len(p.k, p.n))
	}
	return 4 * int64(kernel.PackedPartsLen(p.k, p.n))
}

// narrowRows is the most rows of a strip of a narrow result of n columns: its sums are in what gemmScratch has room for.
func (p panels) narrowRows(n, unit int) int {
	return max(gemmRows*min(narrowCols, n)/p.n/unit*unit, unit)
}

// sharedNeeds is the bytes of packed B of an instruction's product of c (m,n) over k; narrow tells whether c is.
func sharedNeeds(in *compile.Instr, m, n, k int, narrow bool) int64 {
	half := false
	for _, o := range in.In {
		if o.Buffer >= 0 {
			if o.Type.DType == dtype.F16 {
				return 0
			}
			half = half || o.Type.DType == dtype.BF16
		}
	}
	if panelsOf(m, n, k, half, narrow).n == 0 {
		return 0
	}
	return graph.RoundUp(min(panels{k, n}.bytes(half), sharedBytes)) // as much as fewer rows might take
}

// gemmShared is a product in progress whose B is packed once.
type gemmShared struct {
	gemm
	panels
	half    bool
	packing bool // or multiplying
	b       matrix
	k0, k1  int // of K
	c0, c1  int // columns of C
	unit    int // rows of a strip are a multiple of it
	most    int // the most of them
	wide    kernel.PackedB
	pairs   kernel.PackedBF16
}

// sharedGemm computes s.gem by panels.
func (s *Session) sharedGemm(p panels, half bool) {
	h := &s.sharing
	*h = gemmShared{gemm: s.gem, panels: p, half: half, unit: s.products.Cut(half).Rows, most: gemmRows}
	k, n := h.a.cols, h.c.cols
	if h.c.narrow() {
		h.most = p.narrowRows(n, h.unit)
	}
	for h.c0 = 0; h.c0 < n; h.c0 += p.n {
		h.c1 = min(h.c0+p.n, n)
		for h.k0 = 0; h.k0 < k; h.k0 += p.k {
			h.k1 = min(h.k0+p.k, k)
			h.b = h.gemm.b.tile(h.k0, h.k1, h.c0, h.c1)
			h.place(s.shared[s.tilesAt:])
			h.packing = true
			s.pool.DoTask(tiles(h.b.cols, packCols), h)
			h.packing = false
			s.pool.DoTask(h.strips(), h)
		}
	}
}

// place says where packed B lies.
func (h *gemmShared) place(room []float32) {
	if h.half {
		n := kernel.PackedBF16Len(h.b.rows, h.b.cols)
		h.pairs = kernel.PackedBF16{Data: unsafe.Slice((*uint32)(unsafe.Pointer(&room[:n][0])), n), K: h.b.rows, N: h.b.cols}
		return
	}
	h.wide = kernel.PackedB{Data: room[:kernel.PackedPartsLen(h.b.rows, h.b.cols)], K: h.b.rows, N: h.b.cols}
}

// strip is the rows of C after the first r0 that are dealt next: a share of what is left.
func (h *gemmShared) strip(r0 int) (r1 int) {
	threads := h.s.pool.Threads()
	rows := h.most
	if threads > 1 {
		rows = max((h.c.rows-r0)/(2*threads), stripRows)
	}
	rows = max(min(rows, h.most)/h.unit, 1) * h.unit
	return min(r0+rows, h.c.rows)
}

// strips is how many there are.
func (h *gemmShared) strips() (n int) {
	for r := 0; r < h.c.rows; r = h.strip(r) {
		n++
	}
	return n
}

// Run packs some columns of B, or does a strip of C.
func (h *gemmShared) Run(i, worker int) {
	if h.packing {
		j0 := i * packCols
		j1 := min(j0+packCols, h.b.cols)
		if h.half {
			h.s.set.PackBF16(h.pairs, h.b.bf16(), j0, j1)
		} else {
			h.s.products.PackB(h.wide, h.b.wide(), j0, j1)
		}
		return
	}
	r0 := 0
	for ; i > 0; i-- {
		r0 = h.strip(r0)
	}
	h.multiply(r0, h.strip(r0), h.s.carver(worker))
}

// multiply does rows r0 to r1 of the columns and k in hand.
func (h *gemmShared) multiply(r0, r1 int, cv carver) {
	s := h.s
	first, last := h.k0 == 0, h.k1 == h.gemm.a.cols
	t := target{c: h.c.tile(r0, r1, h.c0, h.c1), r0: r0, c0: h.c0}
	a := h.a.tile(r0, r1, h.k0, h.k1)
	if h.half && h.rounds() {
		c := rowMajor(cv.take(t.c.rows*t.c.cols), t.c.rows, t.c.cols)
		s.set.GemmBF16PackedRound(t.c.bf16(), h.before(t).bf16(), a.bf16(), h.pairs, 0, c, cv)
		return
	}
	c := h.begin(t, first, &cv)
	if h.half {
		s.set.GemmBF16Packed(c, a.bf16(), h.pairs, 0, h.acc || !first, cv)
	} else {
		s.products.GemmPacked(c, a.wide(), h.wide, 0, h.acc || !first, cv)
	}
	if last {
		h.end(t, c)
	}
}
