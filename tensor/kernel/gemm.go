package kernel

import "unsafe"

// The blocking of the matrix product. One call of the micro-kernel makes a tile of tileM x tileN over
// at most blockK steps: its B panel (16 KiB) stays in L1, the A block (144 KiB) in L2.
// No result depends on them, since the micro-kernel continues the stored sum.
const (
	tileM  = 6
	tileN  = 16
	blockM = 24 * tileM
	blockK = 256
	blockN = 48 * tileN
	smallN = 4 * tileN // blockN when few rows reuse a packed B: it stays near
	smallM = 8 * tileM

	padA = 8 // floats after each A panel: packing stores 8 floats where 6 count
)

// PanelCols is the width of a panel of a packed B: column ranges of PackB and GemmPacked start at its
// multiples.
const PanelCols = tileN

// Mat is a matrix view: element (i,j) is Data[i*RowStride+j*ColStride]. Strides are not negative.
// A matrix with RowStride 1 or ColStride 1 is packed by vector code; any other stride works.
type Mat struct {
	Data                 []float32
	Rows, Cols           int
	RowStride, ColStride int
}

// RowMajor returns the view of data as rows of cols elements, ld elements apart.
func RowMajor(data []float32, rows, cols, ld int) Mat {
	return Mat{data, rows, cols, ld, 1}
}

// T returns the transposed view.
func (m Mat) T() Mat {
	return Mat{m.Data, m.Cols, m.Rows, m.ColStride, m.RowStride}
}

// Slice returns the view of rows i0 to i1 and columns j0 to j1.
func (m Mat) Slice(i0, i1, j0, j1 int) Mat {
	if i0 < 0 || i1 < i0 || i1 > m.Rows || j0 < 0 || j1 < j0 || j1 > m.Cols {
		panic("kernel: Mat.Slice: range outside the matrix")
	}
	d := m.Data
	if i1 > i0 && j1 > j0 {
		d = d[i0*m.RowStride+j0*m.ColStride:]
	}
	return Mat{d, i1 - i0, j1 - j0, m.RowStride, m.ColStride}
}

// check panics when an element of m lies outside Data.
func (m Mat) check(op string) {
	if m.Rows < 0 || m.Cols < 0 || m.RowStride < 0 || m.ColStride < 0 {
		panic("kernel: " + op + ": negative dimension or stride")
	}
	if m.Rows > 0 && m.Cols > 0 && (m.Rows-1)*m.RowStride+(m.Cols-1)*m.ColStride >= len(m.Data) {
		panic("kernel: " + op + ": matrix reaches past its data")
	}
}

// PackedB is a B (K,N) rearranged for the micro-kernel: for each block of blockK rows, panels of
// PanelCols columns, each panel row after row; the last panel is filled with zeros.
//
//	block 0: [panel 0: k=0 c0..c15, k=1 c0..c15, …] [panel 1: …] …
//	block 1: …
//
// A Set reads what the same Set packed.
type PackedB struct {
	Data []float32 // PackedBLen(K, N) elements
	K, N int
}

// PackedBLen returns the elements that a packed B (k,n) needs.
func PackedBLen(k, n int) int { return k * roundUp(n, tileN) }

// GemmWorkspace returns the elements of workspace that one thread's Gemm or GemmPacked of at most
// (m,n,k) needs: less than 1 MiB whatever the size, and monotonic in each argument.
func GemmWorkspace(m, n, k int) int {
	const align = 16 // the parts start on 64 bytes
	kc := min(k, blockK)
	a := roundUp(min(m, blockM), tileM) / tileM * (kc*tileM + padA)
	b := roundUp(min(n, blockN), tileN) * kc
	return align + tileM*tileN + roundUp(b, align) + roundUp(a, align)
}

// Gemm computes C (M,N) = A (M,K) · B (K,N), or adds the product to C when acc.
//
//	for i, j := range C {
//		s := float32(0) // or C[i,j] when acc
//		for k := range K {
//			s = fma(A[i,k], B[k,j], s) // the generic set: s += float32(A[i,k] * B[k,j])
//		}
//		C[i,j] = s
//	}
//
// Each element is one chain in ascending k, so the bits are the same for any split of M, N or the
// threads, and for any split of K into consecutive calls of which all but the first have acc set.
// |err| <= (K+1)·2⁻²³·Σ|A[i,k]·B[k,j]|.
//
// C has ColStride 1. ws has at least GemmWorkspace(M, N, K) elements; its content is of no concern
// before and undefined after. Threads split C by rows (or columns) with Slice, each with its own ws.
func (s Set) Gemm(c, a, b Mat, acc bool, ws []float32) {
	if a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows {
		panic("kernel: Gemm: shapes do not match")
	}
	b.check("Gemm: b")
	nb := blockN
	if c.Rows <= smallM {
		nb = smallN
	}
	if !s.gemmEdge(c, a, acc, ws) {
		return
	}
	tile, bp, ap := carve(ws, c.Rows, c.Cols, a.Cols)
	for k := 0; k < a.Cols; k += blockK {
		k1 := min(k+blockK, a.Cols)
		for j := 0; j < c.Cols; j += nb {
			j1 := min(j+nb, c.Cols)
			s.t.packB(bp, b.Slice(k, k1, j, j1), (k1-k)*tileN)
			s.block(c.Slice(0, c.Rows, j, j1), a.Slice(0, a.Rows, k, k1), bp, acc || k > 0, j == 0, tile, ap)
		}
	}
}

// PackB fills columns j0 to j1 of dst from b (K,N); j0 is a multiple of PanelCols and j1 one too, or N.
// Threads may fill disjoint ranges at once.
func (s Set) PackB(dst PackedB, b Mat, j0, j1 int) {
	if dst.K != b.Rows || dst.N != b.Cols || len(dst.Data) < PackedBLen(dst.K, dst.N) {
		panic("kernel: PackB: packed matrix does not match")
	}
	if j0 < 0 || j1 < j0 || j1 > dst.N || j0%tileN != 0 || j1%tileN != 0 && j1 != dst.N {
		panic("kernel: PackB: range is not of whole panels")
	}
	b.check("PackB: b")
	if j0 == j1 {
		return
	}
	np := roundUp(dst.N, tileN)
	for k := 0; k < dst.K; k += blockK {
		k1 := min(k+blockK, dst.K)
		s.t.packB(dst.Data[k*np+j0*(k1-k):], b.Slice(k, k1, j0, j1), (k1-k)*tileN)
	}
}

// GemmPacked is Gemm, bits included, with columns j0 to j0+N of a packed B, j0 a multiple of
// PanelCols. Many threads may share b.
func (s Set) GemmPacked(c, a Mat, b PackedB, j0 int, acc bool, ws []float32) {
	if a.Rows != c.Rows || a.Cols != b.K || j0 < 0 || j0+c.Cols > b.N || len(b.Data) < PackedBLen(b.K, b.N) {
		panic("kernel: GemmPacked: shapes do not match")
	}
	if j0%tileN != 0 {
		panic("kernel: GemmPacked: first column is not at a panel")
	}
	if !s.gemmEdge(c, a, acc, ws) {
		return
	}
	tile, _, ap := carve(ws, c.Rows, c.Cols, a.Cols)
	np := roundUp(b.N, tileN)
	for k := 0; k < a.Cols; k += blockK {
		k1 := min(k+blockK, a.Cols)
		s.block(c, a.Slice(0, a.Rows, k, k1), b.Data[k*np+j0*(k1-k):], acc || k > 0, true, tile, ap)
	}
}

// gemmEdge checks the operands common to both forms and does the cases without a sum; it reports
// whether there is more to do.
func (s Set) gemmEdge(c, a Mat, acc bool, ws []float32) bool {
	if c.ColStride != 1 {
		panic("kernel: Gemm: c has a column stride")
	}
	c.check("Gemm: c")
	a.check("Gemm: a")
	if len(ws) < GemmWorkspace(c.Rows, c.Cols, a.Cols) {
		panic("kernel: Gemm: workspace is too small")
	}
	if c.Rows == 0 || c.Cols == 0 {
		return false
	}
	if a.Cols == 0 && !acc {
		for i := range c.Rows {
			clear(c.Data[i*c.RowStride:][:c.Cols])
		}
	}
	return a.Cols > 0
}

// carve splits a workspace into an edge tile, the packed B and the packed A.
func carve(ws []float32, m, n, k int) (tile, bp, ap []float32) {
	off := int(-uintptr(unsafe.Pointer(&ws[0])) % 64 / 4)
	ws = ws[off:]
	b := roundUp(roundUp(min(n, blockN), tileN)*min(k, blockK), 16)
	return ws[:tileM*tileN], ws[tileM*tileN:][:b], ws[tileM*tileN+b:]
}

// block adds (or stores) the product of one k block: c (M,N), a (M,kc), bp panels of kc rows. fresh is
// false when the call before had the same a, which is then still packed if it fits.
func (s Set) block(c, a Mat, bp []float32, acc, fresh bool, tile, ap []float32) {
	kc := a.Cols
	fresh = fresh || c.Rows > blockM
	pa, pb := kc*tileM+padA, kc*tileN // elements of a panel
	for i0 := 0; i0 < c.Rows; i0 += blockM {
		mb := min(blockM, c.Rows-i0)
		for i := 0; fresh && i < mb; i += tileM {
			r := min(tileM, mb-i)
			s.t.packA(ap[i/tileM*pa:][:pa], a.Slice(i0+i, i0+i+r, 0, kc), r)
		}
		for j := 0; j < c.Cols; j += tileN {
			n := min(tileN, c.Cols-j)
			bj := bp[j/tileN*pb:][:pb]
			for i := 0; i < mb; i += tileM {
				r := min(tileM, mb-i)
				ai := ap[i/tileM*pa:][:kc*tileM]
				ct := c.Data[(i0+i)*c.RowStride+j:]
				if n == tileN {
					s.t.micro(kc, ai, bj, ct, c.RowStride, r, acc)
					continue
				}
				for q := 0; acc && q < r; q++ {
					copy(tile[q*tileN:], ct[q*c.RowStride:][:n])
				}
				s.t.micro(kc, ai, bj, tile, tileN, r, acc)
				for q := range r {
					copy(ct[q*c.RowStride:][:n], tile[q*tileN:])
				}
			}
		}
	}
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }
