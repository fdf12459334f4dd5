package kernel

// FlashBlock is the most keys that FlashForward takes at once.
const FlashBlock = 128

// FlashWidth is the columns of a panel of attention, at most PanelCols. It depends on the set alone.
func (s Set) FlashWidth() int { return s.t.f32.n }

// FlashPackLen returns the elements that FlashPack writes of n rows of k elements, whatever the set.
func FlashPackLen(n, k int) int { return k * roundUp(n, PanelCols) }

// FlashPack writes the rows of x (N,K) as columns: panels of FlashWidth rows, element k of row w of a panel at k·FlashWidth+w.
// What lies beyond the last row is undefined.
func (s Set) FlashPack(dst []float32, x Mat) {
	if len(dst) < x.Cols*roundUp(x.Rows, s.t.f32.n) {
		panic("kernel: FlashPack: destination is too short")
	}
	b := x.T().operand()
	b.check("FlashPack: x")
	if x.Rows > 0 && x.Cols > 0 {
		s.t.f32.packB(dst, b, x.Cols*s.t.f32.n)
	}
}

// FlashMul is C (M,N) = A (M,K) · B (K,N), or adds the product to C when acc: small operands that lie in cache, taken as they
// are. The bits are Gemm's. B and C have ColStride 1, A has ColStride 1 or RowStride 1. Columns are taken in whole panels:
// rows of B and C must go on to a multiple of FlashWidth, and what C holds beyond N is undefined after.
func (s Set) FlashMul(c, a, b Mat, acc bool) {
	if a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows || c.Rows == 0 || c.Cols == 0 || a.Cols == 0 {
		panic("kernel: FlashMul: shapes do not match")
	}
	w := s.t.f32.n
	b.Cols, c.Cols = roundUp(b.Cols, w), roundUp(c.Cols, w)
	b.check("FlashMul: b")
	for j := 0; j < c.Cols; j += w {
		d := c
		d.Data, d.Cols = c.Data[j:], w
		s.flashPanel(d, a, b.Data[j:], b.RowStride, acc)
	}
}

// FlashMulPacked is FlashMul, where B (K,N) is what FlashPack made of N rows of K elements.
func (s Set) FlashMulPacked(c, a Mat, b []float32) {
	w := s.t.f32.n
	if a.Rows != c.Rows || c.Rows == 0 || c.Cols == 0 || a.Cols == 0 || len(b) < a.Cols*roundUp(c.Cols, w) {
		panic("kernel: FlashMulPacked: shapes do not match")
	}
	for j := 0; j < c.Cols; j += w {
		d := c
		d.Data, d.Cols = c.Data[j:], w
		s.flashPanel(d, a, b[j*a.Cols:], w, false)
	}
}

// flashPanel is one panel of C.
func (s Set) flashPanel(c, a Mat, b []float32, ldb int, acc bool) {
	c.check("FlashMul: c")
	a.check("FlashMul: a")
	if c.ColStride != 1 || a.ColStride != 1 && a.RowStride != 1 {
		panic("kernel: FlashMul: strides")
	}
	mode := flashStore
	if acc {
		mode = flashAdd
	}
	p := flashProduct{m: c.Rows, k: a.Cols, n: c.Cols, a: a.Data, b: b, ldb: ldb, c: c.Data, ldc: c.RowStride, mode: mode}
	if a.ColStride == 1 {
		p.lda = a.RowStride
	} else {
		p.cols, p.lda = true, a.ColStride
	}
	s.t.flash.product(p)
}

// flashProduct is a product of one panel: C (m,n) and A (m,k); element (i,k) of A lies at i·lda+k, or where cols is set at
// i+k·lda. n is FlashWidth or half of it.
type flashProduct struct {
	m, k, n int
	a       []float32
	lda     int
	cols    bool
	b       []float32
	ldb     int
	c       []float32
	ldc     int
	mode    int
	f       []float32
}

// The modes of flashProduct: C is the product, C plus the product, or C times f, by columns, plus the product.
const (
	flashStore = iota
	flashAdd
	flashScale
)

// FlashPanel is up to FlashWidth queries, the columns, on their way through the keys. A column continues the online softmax of
// arXiv 2205.14135 in powers of two: with the exponents x[j] = c·(key j · query), the largest of all so far m, the sum l and
// the unnormalised output o,
//
//	m' = max(m, float32(c·max(k·q)))
//	f  = 2^(m - m')
//	e[j] = 2^(fma(k[j]·q, c, -m'))
//	l  = fma(l, f, sum(e)) // in 4 lanes: lane j%4, then (0+2)+(1+3)
//	o  = o·f, then one chain of fma(v[j], e[j], o) in ascending j
//
// A power below 2⁻¹²⁵ is 0. Every element is a function of its own column and the keys alone, so the bits do not depend on
// the other columns.
type FlashPanel struct {
	Queries []float32 // what FlashPack made of the queries
	Out     []float32 // o (K,FlashWidth)
	State   []float32 // 3·FlashWidth: m, l, f
	Lo, Hi  []int32   // FlashWidth: the first and last position that a column sees
	Cols    int       // how many columns are wanted
	Half    bool      // it takes keys in bf16
	Scale   float32   // with a Cap, scores are SoftCap's of it, and c is log₂e
	Cap     float32   // 0 for none
}

// few tells whether o is held by rows (Cols,K), which saves work where columns are few; the bits are the same.
func (p *FlashPanel) few(w, hd int) bool { return p.Cols <= w/4 && hd%w == 0 && !p.Half }

// Reset prepares p for the first keys of k elements.
func (p *FlashPanel) Reset(s Set, k int) {
	w := s.t.f32.n
	for i := range w {
		p.State[i], p.State[w+i] = minusInf, 0
	}
	if p.few(w, k) {
		clear(p.Out[:p.Cols*k])
		return
	}
	clear(p.Out[:w*k])
}

// FlashForward takes at most FlashBlock keys and values (n,K), at positions from at on. scores holds
// FlashBlock·FlashWidth.
func (s Set) FlashForward(p *FlashPanel, scores []float32, k, v Mat, c float32, at int) {
	w, n, hd, cols := s.t.f32.n, k.Rows, k.Cols, p.Cols
	k.check("FlashForward: k")
	v.check("FlashForward: v")
	if n == 0 || n > FlashBlock || hd == 0 || k.ColStride != 1 || v.ColStride != 1 || v.Rows != n || v.Cols != hd || cols > w ||
		len(scores) < n*w || len(p.Queries) < hd*w || len(p.Out) < hd*w || len(p.State) < 3*w {
		panic("kernel: FlashForward: shapes do not match")
	}
	width := w
	if cols <= w/2 {
		width = w / 2
	}
	s.t.flash.product(flashProduct{m: n, k: hd, n: width, a: k.Data, lda: k.RowStride, b: p.Queries, ldb: w, c: scores, ldc: w})
	s.flashSoftmax(p, scores, n, c, at)
	if !p.few(w, hd) {
		s.t.flash.product(flashProduct{m: hd, k: n, n: width, a: v.Data, lda: v.RowStride, cols: true, b: scores, ldb: w, c: p.Out, ldc: w,
			mode: flashScale, f: p.State[2*w:]})
		return
	}
	for i := range cols {
		o := p.Out[i*hd : (i+1)*hd]
		s.t.scale(o, p.State[2*w+i], o)
	}
	for j := 0; j < hd; j += w {
		s.t.flash.product(flashProduct{m: cols, k: n, n: w, a: scores, lda: w, cols: true, b: v.Data[j:], ldb: v.RowStride, c: p.Out[j:], ldc: hd, mode: flashAdd})
	}
}

// flashSoftmax is the part between the products.
func (s Set) flashSoftmax(p *FlashPanel, scores []float32, n int, c float32, at int) {
	w := s.t.f32.n
	lo, hi, masked := p.Lo[:w], p.Hi[:w], false
	for j := 0; p.Cap > 0 && j < n; j++ {
		row := scores[j*w:][:p.Cols]
		s.SoftCap(row, row, p.Scale, p.Cap)
	}
	for i := range p.Cols {
		masked = masked || int(lo[i]) > at || int(hi[i]) < at+n-1
	}
	s.t.flash.softmax(n, scores, c, at, p.State, lo, hi, masked)
}

// FlashRows prepares tmp, FlashPackLen(FlashWidth, K) elements, for FlashRow. k is K.
func (s Set) FlashRows(tmp []float32, p *FlashPanel, k int) {
	w := s.t.f32.n
	if !p.few(w, k) {
		s.t.f32.packB(tmp, operand{f32: p.Out[:k*w], rows: w, cols: k, rowStride: 1, colStride: w}, w*w)
	}
}

// FlashRow writes a times column i of o, tmp being what FlashRows prepared.
func (s Set) FlashRow(out []float32, a float32, p *FlashPanel, tmp []float32, i int) {
	w := s.t.f32.n
	if p.few(w, len(out)) {
		s.t.scale(out, a, p.Out[i*len(out):][:len(out)])
		return
	}
	for j := 0; j < len(out); j += w {
		n := min(w, len(out)-j)
		s.t.scale(out[j:j+n], a, tmp[j*w+i*w:][:n])
	}
}

// FlashProbs makes of the scores p (M,N) and of the gradients d (M,N) of probabilities, in place, the probabilities and the
// gradients of scores, which are times scale before softmax:
//
//	p[i,j] = 2^(fma(p[i,j], c, -lse[i])) // below 2⁻¹²⁵ it is 0; the exponent is below 127
//	d[i,j] = p[i,j]·fma(d[i,j], scale, -delta[i])
//
// Where masked is set both are 0 but for columns lo[i] to hi[i]. Rows of p and d are alike in stride and go on to a multiple of
// FlashWidth.
func (s Set) FlashProbs(p, d Mat, c, scale float32, lse, delta []float32, lo, hi []int32, masked bool) {
	n := roundUp(p.Cols, s.t.f32.n)
	if d.Rows != p.Rows || d.Cols != p.Cols || d.RowStride != p.RowStride || p.ColStride != 1 || d.ColStride != 1 || p.Rows == 0 || p.Cols == 0 ||
		len(p.Data) < (p.Rows-1)*p.RowStride+n || len(d.Data) < (p.Rows-1)*p.RowStride+n || len(lse) < p.Rows || len(delta) < p.Rows ||
		masked && (len(lo) < p.Rows || len(hi) < p.Rows) {
		panic("kernel: FlashProbs: shapes do not match")
	}
	s.t.flash.probs(p.Rows, n, p.Data, d.Data, p.RowStride, c, scale, lse, delta, lo, hi, masked)
}
