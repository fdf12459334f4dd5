package kernel

import (
	"fmt"

	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// QuantPanel is the rows of W in a panel of QuantWeights: ranges of them start at its multiples.
const QuantPanel = dtype.PanelRows

// QuantGroup is the elements that share a scale in a quantised row of activations.
const QuantGroup = 32

// quantGroupBytes is what a group takes: a cache line.
//
//	┌───────────┬────┬──────┬──────────┬──────────┬────────┬─────────┬─────────┬───┐
//	│ 32 codes  │ d  │ d·Σ  │ −8·Σ of  │ −8·Σ of  │ −8·Σ   │ d·Σ of  │ d·Σ of  │ 0 │
//	│ int8      │ f32│ f32  │ first 16 │ last 16  │ int32  │ first 16│ last 16 │ 4 │
//	└───────────┴────┴──────┴──────────┴──────────┴────────┴─────────┴─────────┴───┘
//
// Σ is of codes. The integer sums take the zero points of weights away before a product is scaled: these are powers of two from 4 on.
const quantGroupBytes = 64

// QuantizedLen returns the bytes of rows of k elements as QuantizeRows writes them.
func QuantizedLen(rows, k int) int { return rows * (k / QuantGroup) * quantGroupBytes }

// QuantizeRows rounds rows of k elements, a multiple of QuantGroup, ld elements apart, to eight bits:
//
//	for each group x of 32 {
//		d := max(|x[i]|) / 127
//		q[i] = the integer nearest to x[i] · (1/d), halves to even; 0 where 1/d is not finite
//	}
//
// A NaN makes its group's d NaN. Exact.
func (s Set) QuantizeRows(dst []byte, x []float32, rows, k, ld int) {
	if k%QuantGroup != 0 || rows < 0 || ld < k || rows > 0 && (rows-1)*ld+k > len(x) || len(dst) != QuantizedLen(rows, k) {
		panic("kernel: QuantizeRows: lengths do not match")
	}
	n := QuantizedLen(1, k)
	for r := range rows {
		s.quant().quantize(dst[r*n:r*n+n], x[r*ld:r*ld+k])
	}
}

// QuantWeights is a matrix W (N,K) of a storage format, rearranged so that one register holds the same part of 16 rows. Of each panel
// of 16 rows it has the format's blocks one after another, each as the format's comment below draws it; a lane is the four bytes (or two)
// of one row. It is as long as the file's rows, rounded up to whole panels; where six bits of scales become bytes up to 3.6% longer.
//
//	Q4_0    ┌ 4 registers: bytes 4j to 4j+3 of qs ┬ 16 d ┐             IQ4_NL the same
//	Q4_1    ┌ 4 registers ┬ 16 d ┬ 16 m ┐                              MXFP4 ┌ 4 registers ┬ 16 e ┐
//	Q5_0    ┌ 4 registers ┬ top bits ┬ 16 d ┐                          Q5_1  ┌ 4 registers ┬ top bits ┬ 16 d ┬ 16 m ┐
//	Q8_0    ┌ 8 registers: codes 4j to 4j+3, plus 128 ┬ 16 d ┐
//	Q2_K    ┌ 16 d ┬ 16 dmin ┬ 16 × 16 scales and mins ┬ 2 × 8 registers of qs ┐
//	Q3_K    ┌ 16 d ┬ 16 × 16 scales ┬ 8 × top bits ┬ 2 × 8 registers of qs ┐
//	Q4_K    ┌ 16 d ┬ 16 dmin ┬ 8 × (16 scales, 16 mins) ┬ 4 × 8 registers of qs ┐
//	Q5_K    ┌ 16 d ┬ 16 dmin ┬ 8 × (16 scales, 16 mins) ┬ 8 × top bits ┬ 4 × 8 registers of qs ┐
//	Q6_K    ┌ 16 d ┬ 16 × 16 scales ┬ 2 × (16 registers of ql, 8 of qh) ┐
//	IQ4_XS  ┌ 16 d ┬ 8 × 16 scales ┬ 8 × 4 registers of qs ┐
//	F16, BF16  ┌ element k of 16 rows ┐
//
// Scales and mins of groups are bytes. Top bits are a register: bit j of its lane's byte i is that of element 4j+i of a group.
type QuantWeights struct {
	Type quant.Type
	N, K int
	Data []byte // QuantWeightsLen(Type, N, K) bytes
}

// panel is how a panel of a format is laid out and multiplied.
type panel struct {
	elems int                            // of a row in a block
	bytes int                            // of 16 rows' blocks
	pack  func(dst, src []byte, row int) // a row's block, or all of them where they are single elements
}

// unpacked is 32 elements of 16 rows. An element is scale·(code − zero) + min.
type unpacked struct {
	codes  [QuantPanel][QuantGroup]uint8
	scale  [2][QuantPanel]float32 // of the first and last 16 elements
	min    [2][QuantPanel]float32
	zero   int32
	halves bool // the two scales differ, so each half is scaled on its own; else the first is for both
	mins   bool
	only   int // 1 + the one row that unpack reads; 0 for all
}

// span is the rows that unpack reads.
func (u *unpacked) span() (row, end int) {
	if u.only > 0 {
		return u.only - 1, u.only
	}
	return 0, QuantPanel
}

// panels are the formats that QuantWeights takes, but for those of plain elements.
func panelOf(t quant.Type) (panel, bool) {
	switch t {
	case quant.Q4_0:
		return panel{32, 16 * 18, packQ4_0}, true
	case quant.Q4_1:
		return panel{32, 16 * 20, packQ4_1}, true
	case quant.Q8_0:
		return panel{32, 16 * 34, packQ8_0}, true
	case quant.Q5_0:
		return panel{32, 16 * 22, packQ5_0}, true
	case quant.Q5_1:
		return panel{32, 16 * 24, packQ5_1}, true
	case quant.IQ4_NL:
		return panel{32, 16 * 18, packQ4_0}, true
	case quant.MXFP4:
		return panel{32, 16 * 17, packMXFP4}, true
	case quant.Q2_K:
		return panel{256, 16 * 84, packQ2_K}, true
	case quant.Q3_K:
		return panel{256, panelQ3_K, packQ3_K}, true
	case quant.Q5_K:
		return panel{256, panelQ5_K, packQ5_K}, true
	case quant.IQ4_XS:
		return panel{256, panelIQ4_XS, packIQ4_XS}, true
	case quant.Q4_K:
		return panel{256, panelQ4_K, packQ4_K}, true
	case quant.Q6_K:
		return panel{256, 16 * 210, packQ6_K}, true
	case quant.F16, quant.BF16:
		return panel{1, 16 * 2, packHalf}, true
	}
	return panel{}, false
}

// CanQuant tells whether QuantWeights takes rows of k elements of a format.
func CanQuant(t quant.Type, k int) bool {
	p, ok := panelOf(t)
	return ok && k > 0 && k%p.elems == 0
}

// QuantWeightsLen returns the bytes of W (n,k) of a format.
func QuantWeightsLen(t quant.Type, n, k int) int {
	p, ok := panelOf(t)
	if !ok || k%p.elems != 0 {
		panic(fmt.Sprintf("kernel: QuantWeightsLen: rows of %d of %v", k, t))
	}
	return (n + QuantPanel - 1) / QuantPanel * (k / p.elems) * p.bytes
}

// Pack fills rows n0 on from rows as a file has them, n0 and their number multiples of QuantPanel, or up to N. The last panel's rows
// beyond N become zeros. Threads may fill disjoint ranges at once.
func (w QuantWeights) Pack(src []byte, n0 int) {
	p, ok := panelOf(w.Type)
	row := 0
	if ok {
		row = w.K / w.Type.BlockElems() * w.Type.BlockBytes()
	}
	if row == 0 || len(w.Data) != QuantWeightsLen(w.Type, w.N, w.K) || len(src)%row != 0 || n0%QuantPanel != 0 {
		panic("kernel: QuantWeights.Pack: lengths do not match")
	}
	rows := len(src) / row
	if n0 < 0 || n0+rows > w.N || rows%QuantPanel != 0 && n0+rows != w.N {
		panic("kernel: QuantWeights.Pack: rows outside the matrix")
	}
	blocks := w.K / p.elems
	in := row / blocks
	for r := 0; r < rows; r += QuantPanel {
		dst := w.panel(n0+r, p)
		if p.elems == 1 {
			clear(dst)
			for i := range min(QuantPanel, rows-r) {
				p.pack(dst, src[(r+i)*row:][:row], i)
			}
			continue
		}
		for b := range blocks {
			to := dst[b*p.bytes : (b+1)*p.bytes]
			clear(to)
			for i := range min(QuantPanel, rows-r) {
				from := (r+i)*row + b*in
				p.pack(to, src[from:from+in], i)
			}
		}
	}
}

// panel returns the panel of row n.
func (w QuantWeights) panel(n int, p panel) []byte {
	size := w.K / p.elems * p.bytes
	return w.Data[n/QuantPanel*size:][:size]
}

// GemmQuant computes C (M,N) = A (M,K) · W[n0:n0+N]ᵀ, A as QuantizeRows wrote it, M rows, and n0 a multiple of QuantPanel:
//
//	for m, n := range C {
//		s := float32(0)
//		for each group of 32 elements, of codes q and scale d of A, and of codes w of W {
//			for each half of it, or the whole where W has one scale for both {
//				s = fma(float32(Σ (w[i]−zero)·q[i]), scale·d, s)
//				s = fma(min, d·Σ q[i], s) // where W has minima
//			}
//		}
//		C[m,n] = s
//	}
//
// Sums of codes are exact, so the only error besides that of rounding A is of the chain: some 2K/32 roundings. The bits are the same
// for any M, split of N, and set. Exact. Many rows are faster with QuantWork bytes of work; nil does without. Where several calls multiply the same
// rows, near is what NearRows made of them in the form that the set wants for W; nil does without.
func (s Set) GemmQuant(c Mat, a, near []byte, w QuantWeights, n0 int, work []byte) {
	p, ok := panelOf(w.Type)
	if !ok || p.elems == 1 || len(w.Data) != QuantWeightsLen(w.Type, w.N, w.K) || len(a) != QuantizedLen(c.Rows, w.K) || near != nil && len(near) != NearLen(c.Rows, w.K) {
		panic("kernel: GemmQuant: lengths do not match")
	}
	c.checkPanels("GemmQuant", w.N, n0)
	t := s.quant()
	lda := QuantizedLen(1, w.K)
	if t.many != nil && len(work) >= QuantWork && c.Cols > 0 {
		done := t.many(c, a, lda, near, w, p, n0, work)
		c, a = c.from(done), a[done*lda:]
	}
	f := t.gemm
	for n := 0; n < c.Cols; n += QuantPanel {
		b := w.panel(n0+n, p)
		for m := 0; m < c.Rows; m += quantRows {
			f(w.Type, min(c.Rows-m, quantRows), min(c.Cols-n, QuantPanel), c.Data[m*c.RowStride+n:], c.RowStride, a[m*lda:], lda, b, w.K/p.elems)
		}
	}
}

// QuantWork is the bytes of work, on 64 bytes, that GemmQuant and GemmHalf of many rows take, in any set.
const QuantWork = max((manyPanels*manyGroups+1)*manyBytes+manyNear+manySums, 4*maxN*(maxM+maxKB))

// NearForm is how quantised rows are rearranged for tiles of which a weight of a format is the other side, or 0 where a set has no tiles.
type NearForm int

const (
	nearPlain     NearForm = iota + 1
	nearMin                // with the sums of groups
	nearHalvesMin          // with the sums of half groups
)

// NearForm returns the form for a format.
func (s Set) NearForm(t quant.Type) NearForm {
	if f := s.quant().form; f != nil {
		return f(t)
	}
	return 0
}

// NearLen returns the bytes of rows of k elements as NearRows writes them, 16 rows at a time; those after the last 16 are left out.
func NearLen(rows, k int) int { return rows / manyRows * (k / QuantGroup) * nearBytes }

// NearRows rearranges rows that QuantizeRows wrote, group by group of 16 rows: codes, scales, and what sums the form has.
func (s Set) NearRows(dst, a []byte, rows, k int, form NearForm) {
	if len(a) != QuantizedLen(rows, k) || len(dst) != NearLen(rows, k) || form < nearPlain || form > nearHalvesMin {
		panic("kernel: NearRows: lengths do not match")
	}
	lda, size := QuantizedLen(1, k), NearLen(manyRows, k)
	for r := 0; r+manyRows <= rows; r += manyRows {
		s.quant().near(form, k/QuantGroup, a[r*lda:], lda, dst[r/manyRows*size:])
	}
}

// SharesPanels tells whether products of a format in many rows unpack a panel once for all of them.
func (s Set) SharesPanels(t quant.Type) bool {
	q := s.quant()
	if t == quant.F16 || t == quant.BF16 {
		return q.widen != nil
	}
	return q.many != nil
}

// Many rows by tiles: panels are unpacked once for all of them, a part of K at a time.
const (
	manyRows   = 16  // of A, a tile
	manyPanels = 8   // that are unpacked at a time
	manyGroups = 32  // of a row, at a time: what they take of both sides stays in the nearest cache
	manyBytes  = 768 // of an unpacked group at most
	nearBytes  = 704 // a group of 16 rows
	manyNear   = manyGroups * nearBytes
	manySums   = 2 * 2 * 4 * manyRows * QuantPanel // of both halves of two groups
)

// from is the rows from r on.
func (m Mat) from(r int) Mat {
	if r == 0 {
		return m
	}
	m.Rows -= r
	if m.Rows == 0 {
		m.Data = nil
	} else {
		m.Data = m.Data[r*m.RowStride:]
	}
	return m
}

// quantRows is the most rows of A that a micro-kernel takes.
const quantRows = 8

// checkPanels panics unless c is rows of columns that are a range of n from n0 on.
func (m Mat) checkPanels(op string, n, n0 int) {
	m.check(op)
	if m.ColStride != 1 || n0 < 0 || n0%QuantPanel != 0 || n0+m.Cols > n || m.Cols%QuantPanel != 0 && n0+m.Cols != n {
		panic("kernel: " + op + ": columns outside the matrix")
	}
}

// quantTable is the part that differs between instruction sets.
type quantTable struct {
	quantize func(dst []byte, x []float32)
	// gemm multiplies rows of A, at most quantRows, lda bytes apart, by the blocks of one panel of a format, into as many columns of rows
	// of C, ldc elements apart.
	gemm func(t quant.Type, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, blocks int)
	// grouped is gemm with panels of GroupedWeights, groups of so many times 32 elements.
	grouped func(bits, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, groups, steps int)
	// half is gemm with float32 rows and panels of F16 or BF16.
	half func(t quant.Type, rows, cols int, c []float32, ldc int, a []float32, lda int, b []byte, k int)
	// many makes as many of the first rows of C as it likes, and says how many; nil if there is none. near may be nil.
	many func(c Mat, a []byte, lda int, near []byte, w QuantWeights, p panel, n0 int, work []byte) int
	// form is NearForm, and near rearranges 16 rows, lda bytes apart; nil where many is.
	form func(t quant.Type) NearForm
	near func(form NearForm, groups int, a []byte, lda int, out []byte)
	// half4 is half with one row and four whole panels, stride bytes apart; nil if there is none.
	half4 func(t quant.Type, c, a []float32, b []byte, stride, k int)
	// widen makes float32 of the first k times 16 elements of a panel, ld apart; nil if there is none.
	widen func(t quant.Type, k int, b []byte, out []float32, ld int)
}
