package kernel

// PanelCols is what the width of a panel of a packed B divides in every set: column ranges of PackB,
// GemmPacked and their bf16 forms start at its multiples.
const PanelCols = 32

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

// PackedB is a B (K,N) rearranged for the micro-kernel: for each block of rows, panels of 16 or 32 columns
// (the set's tile), each panel row after row. In the last panel, what columns beyond N hold is of no concern.
//
//	block 0: [panel 0: k=0 c0..c15, k=1 c0..c15, …] [panel 1: …] …
//	block 1: …
//
// A Set reads what the same Set packed.
type PackedB struct {
	Data []float32 // PackedBLen(K, N) elements
	K, N int
}

// PackedBLen returns the elements that a packed B (k,n) needs, whatever the set but for Parts.
func PackedBLen(k, n int) int { return k * roundUp(n, PanelCols) }

// Cut is what a caller that cuts C into tiles, each a call of its own, should know of a set's product.
type Cut struct {
	Rows int // the rows of a tile are best a multiple of it; the columns one of PanelCols
	// Packing is what packing an element of A or B takes, in multiply-adds. Each tile packs its part of both; but
	// where Direct, an A of the product's type whose rows lie in memory is read as it is.
	Packing int
	Direct  bool
}

// Cut returns how to cut Gemm, or where bf16 GemmBF16.
func (s Set) Cut(bf16 bool) Cut {
	p := s.t.f32
	if bf16 {
		p = s.t.bf16
	}
	if p.tiles != nil {
		return Cut{p.m, 200 / max(p.pieces, 1), p.direct != nil}
	}
	return Cut{p.m, 24, p.direct != nil}
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
	s.t.f32.gemm(c, half{}, half{}, a.operand(), b.operand(), acc, ws)
}

// PackB fills columns j0 to j1 of dst from b (K,N); j0 is a multiple of PanelCols and j1 one too, or N.
// Threads may fill disjoint ranges at once.
func (s Set) PackB(dst PackedB, b Mat, j0, j1 int) {
	if dst.K != b.Rows || dst.N != b.Cols || len(dst.Data) < s.packedBLen(dst.K, dst.N) {
		panic("kernel: PackB: packed matrix does not match")
	}
	s.t.f32.packWhole(dst.Data, b.operand(), j0, j1)
}

// GemmPacked is Gemm, bits included, with columns j0 to j0+N of a packed B, j0 a multiple of
// PanelCols. Many threads may share b.
func (s Set) GemmPacked(c, a Mat, b PackedB, j0 int, acc bool, ws []float32) {
	if len(b.Data) < s.packedBLen(b.K, b.N) {
		panic("kernel: GemmPacked: packed matrix is too short")
	}
	s.t.f32.gemmPacked(c, half{}, half{}, a.operand(), b.Data, b.K, b.N, j0, acc, ws)
}
