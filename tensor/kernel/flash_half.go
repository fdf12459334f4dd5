package kernel

// FlashHalf tells whether the set has instructions for products of bf16, for which the functions below are.
func (s Set) FlashHalf() bool { return s.t.bf16.attention != nil }

// FlashLeft is a left operand (M,K) of FlashMulHalf.
type FlashLeft struct {
	lhs     operand // itself, or
	packed  []float32
	rows, k int
	strip   int // the rows that packed strips have room for, or 0: as many as they have
}

// from is packed from row i and k0 on, where a strip begins and one of its parts of 32 of K.
func (a FlashLeft) from(i, k0 int) []float32 {
	rows := a.strip
	if rows == 0 {
		rows = min(PanelCols, a.rows-i)
	}
	return a.packed[(i*roundUp(a.k, halfK)+k0*rows)/2:]
}

// FlashHalfLen returns the elements that FlashLeft and FlashRight write at most of n rows or columns of k elements, in either
// role: two bf16 are one element.
func FlashHalfLen(n, k int) int { return roundUp(n, PanelCols) * roundUp(k, halfK) / 2 }

// halfK is the K that a tile takes at once.
const halfK = 32

// FlashLeft prepares a left operand. It may refer to a, or else packs it into buf.
func (s Set) FlashLeft(buf []float32, a MatBF16) FlashLeft {
	o := a.operand()
	o.check("FlashLeft")
	if a.Rows == 0 || a.Cols == 0 || len(buf) < FlashHalfLen(a.Rows, a.Cols) {
		panic("kernel: FlashLeft: buffer is too short, or nothing to prepare")
	}
	left := FlashLeft{packed: buf, rows: a.Rows, k: a.Cols, strip: s.t.bf16.attention.strip}
	if s.t.bf16.takes(o) {
		left.lhs = o
	} else {
		s.t.bf16.attention.pack(buf, o)
	}
	return left
}

// FlashRight packs a right operand (K,N).
func (s Set) FlashRight(dst []float32, b MatBF16) {
	o := b.operand()
	o.check("FlashRight")
	if b.Rows == 0 || b.Cols == 0 || len(dst) < FlashHalfLen(b.Cols, b.Rows) {
		panic("kernel: FlashRight: destination is too short, or nothing to pack")
	}
	s.t.bf16.packB(dst, o, roundUp(b.Rows, halfK)/2*PanelCols)
}

// FlashMulHalf is C (M,N) = A (M,K) · B (K,N), or adds the product to C when acc, in bf16 with sums in float32, as
// GemmBF16: of rows i0 to i1 of A, with k0 to k1 of K alone. i0 and k0 are multiples of 32, and so are i1 and k1 but for the last.
// C has ColStride 1. As FlashMul does it takes columns in panels: rows of C must go on to a multiple of PanelCols, and what C holds
// beyond N is undefined after.
func (s Set) FlashMulHalf(c Mat, a FlashLeft, i0, i1 int, b []float32, k0, k1 int, acc bool) {
	if i0%PanelCols != 0 || k0%halfK != 0 || i0 < 0 || i1 > a.rows || i1-i0 != c.Rows || k0 < 0 || k1 <= k0 || k1 > a.k || c.Rows == 0 || c.Cols == 0 ||
		i1%PanelCols != 0 && i1 != a.rows || k1%halfK != 0 && k1 != a.k || len(b) < FlashHalfLen(c.Cols, a.k) {
		panic("kernel: FlashMulHalf: shapes do not match")
	}
	c.check("FlashMulHalf: c")
	kp := roundUp(a.k, halfK)
	w := work{tile: b}
	if k0 == 0 && k1 == a.k { // panels and strips lie as the product wants them
		if a.lhs.half != nil {
			w.lhs = a.lhs.slice(i0, i1, 0, k1)
		} else {
			w.a = a.from(i0, 0)
		}
		s.t.bf16.attention.block(c, half{}, half{}, k1, b, acc, w)
		return
	}
	for j := 0; j < c.Cols; j += PanelCols {
		for i := i0; i < i1; i += PanelCols {
			if a.lhs.half != nil {
				w.lhs = a.lhs.slice(i, min(i+PanelCols, i1), k0, k1)
			} else {
				w.a = a.from(i, k0)
			}
			s.t.bf16.attention.block(c.Slice(i-i0, min(i+PanelCols, i1)-i0, j, min(j+PanelCols, c.Cols)), half{}, half{}, k1-k0, b[(j*kp+k0*PanelCols)/2:], acc, w)
		}
	}
}

// FlashForwardHalf is FlashForward with keys (n,K) and values, turned (K,n), in bf16, queries by FlashRight of (K,Cols), and
// probabilities rounded to bf16 for their product with the values: of keys from to to, at being the position of key 0. pairs
// holds FlashHalfLen(FlashWidth, FlashBlock).
func (s Set) FlashForwardHalf(p *FlashPanel, scores, pairs []float32, k, v FlashLeft, c float32, at, from, to int) {
	w, n, hd := s.t.f32.n, to-from, k.k
	if n <= 0 || n > FlashBlock || v.rows != hd || v.k != k.rows || len(scores) < n*w || len(p.Out) < hd*w || len(p.State) < 3*w {
		panic("kernel: FlashForwardHalf: shapes do not match")
	}
	end := to
	if end < k.rows {
		end = min(roundUp(end, PanelCols), k.rows) // whole tiles
	}
	s.FlashMulHalf(RowMajor(scores, end-from, p.Cols, w), k, from, end, p.Queries, 0, hd, false)
	s.flashSoftmax(p, scores, n, c, at+from)
	b := operand{f32: scores, rows: n, cols: p.Cols, rowStride: w, colStride: 1}
	kp := roundUp(n, halfK)
	s.t.bf16.packB(pairs, b, kp/2*PanelCols)
	s.t.flash.product(flashProduct{m: hd, n: w, a: scores, b: scores, c: p.Out, ldc: w, mode: flashScale, f: p.State[2*w:]})
	s.flashMulTail(RowMajor(p.Out, hd, p.Cols, w), v, pairs, from, n)
}

// flashMulTail adds to C the product of A and the n of K from k0 on, which b alone holds.
func (s Set) flashMulTail(c Mat, a FlashLeft, b []float32, k0, n int) {
	w := work{tile: b}
	for i := 0; i < a.rows; i += PanelCols {
		rows := min(PanelCols, a.rows-i)
		w.a = a.from(i, k0)
		s.t.bf16.attention.block(c.Slice(i, i+rows, 0, c.Cols), half{}, half{}, n, b, true, w)
	}
}
