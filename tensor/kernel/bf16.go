package kernel

import "unsafe"

// MatBF16 is an operand of a bf16 product. Its elements lie in memory as bf16 in Half, or, where Half is
// nil, as float32 in F32, rounded to the nearest bf16 (ties to even) as they are packed. Element (i,j) is at
// i*RowStride+j*ColStride.
type MatBF16 struct {
	Half                 []uint16
	F32                  []float32
	Rows, Cols           int
	RowStride, ColStride int
}

// RowMajorBF16 returns the view of bf16 data as rows of cols elements, ld elements apart.
func RowMajorBF16(data []uint16, rows, cols, ld int) MatBF16 {
	return MatBF16{Half: data, Rows: rows, Cols: cols, RowStride: ld, ColStride: 1}
}

// BF16 returns m as an operand that is rounded to bf16 while it is packed.
func (m Mat) BF16() MatBF16 {
	return MatBF16{F32: m.Data, Rows: m.Rows, Cols: m.Cols, RowStride: m.RowStride, ColStride: m.ColStride}
}

// T returns the transposed view.
func (m MatBF16) T() MatBF16 {
	m.Rows, m.Cols, m.RowStride, m.ColStride = m.Cols, m.Rows, m.ColStride, m.RowStride
	return m
}

// Slice returns the view of rows i0 to i1 and columns j0 to j1.
func (m MatBF16) Slice(i0, i1, j0, j1 int) MatBF16 {
	if i0 < 0 || i1 < i0 || i1 > m.Rows || j0 < 0 || j1 < j0 || j1 > m.Cols {
		panic("kernel: MatBF16.Slice: range outside the matrix")
	}
	if i1 > i0 && j1 > j0 {
		o := m.operand().slice(i0, i1, j0, j1)
		m.Half, m.F32 = o.half, o.f32
	}
	m.Rows, m.Cols = i1-i0, j1-j0
	return m
}

func (m MatBF16) operand() operand {
	return operand{f32: m.F32, half: m.Half, rows: m.Rows, cols: m.Cols, rowStride: m.RowStride, colStride: m.ColStride}
}

// PackedBF16 is a B (K,N) of bf16 rearranged as PackedB is, two rows at a time: a dword holds rows k and k+1
// of one column, k in the high half; in avx512amx in the low half. After the last row of an odd K comes zero, in
// avx512amx after any the zeros up to a multiple of 32.
//
//	block 0: [panel 0: (k=0,1) c0..c31, (k=2,3) c0..c31, …] [panel 1: …] …
//
// A Set reads what the same Set packed.
type PackedBF16 struct {
	Data []uint32 // PackedBF16Len(K, N) pairs
	K, N int
}

// PackedBF16Len returns the pairs that a packed bf16 B (k,n) needs, whatever the set.
func PackedBF16Len(k, n int) int { return roundUp(k, amxK) / 2 * roundUp(n, PanelCols) }

// dwords is the packed data as the product sees it.
func (p PackedBF16) dwords() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(p.Data))), len(p.Data))
}

// GemmBF16 is Gemm with both operands in bf16 and sums in float32:
//
//	for i, j := range C {
//		s := float32(0) // or C[i,j] when acc
//		for k := range K {
//			s = fma(float32(A[i,k]), float32(B[k,j]), s)
//		}
//		C[i,j] = s
//	}
//
// The products are exact, so each step rounds once: the sets generic, avx2 and avx512 give the bits of Gemm over
// the widened operands. avx512bf16 sums by VDPBF16PS, which takes the two k of a pair in this order with a
// rounding each, takes denormal operands and sums for zero and makes no denormal sum: the same bits where none
// occurs. avx512amx sums by TDPBF16PS, 32 k at a time from k=0 on, with denormals as zero too:
//
//	for ; k < K; k += 32 {
//		var p [2]float32
//		for q := k; q < min(k+32, K); q++ {
//			p[q%2] = fma(float32(A[i,q]), float32(B[q,j]), p[q%2])
//		}
//		s += p[0] + p[1]
//	}
//
// Each element is one chain in ascending k: the bits are the same for any split of M, N or the threads, and
// for any split of K at multiples of 32 into consecutive calls of which all but the first have acc set.
// |err| <= (K+1)·2⁻²³·Σ|A[i,k]·B[k,j]|, and K·2⁻¹²⁵·(1+max|A|+max|B|) more for denormals.
//
// C and ws are as for Gemm.
func (s Set) GemmBF16(c Mat, a, b MatBF16, acc bool, ws []float32) {
	s.t.bf16.gemm(c, half{}, half{}, a.operand(), b.operand(), acc, ws)
}

// GemmBF16Round is GemmBF16 with C in bf16, rounded once as RoundBF16 does: out = from + A·B, where from is as out is,
// or has no Half and stands for zeros; what GemmBF16 says of denormal sums goes for from too. Both have ColStride 1, and
// from may be out. c (M,N) is room for sums; its elements are undefined afterwards.
func (s Set) GemmBF16Round(out, from, a, b MatBF16, c Mat, ws []float32) {
	s.rounded(out, from, a.Cols, c, func(start, end half, acc bool) {
		s.t.bf16.gemm(c, start, end, a.operand(), b.operand(), acc, ws)
	})
}

// GemmBF16PackedRound is GemmBF16Round, bits included, with columns j0 to j0+N of a packed B as GemmBF16Packed takes them.
func (s Set) GemmBF16PackedRound(out, from, a MatBF16, b PackedBF16, j0 int, c Mat, ws []float32) {
	if len(b.Data) < PackedBF16Len(b.K, b.N) {
		panic("kernel: GemmBF16PackedRound: packed matrix is too short")
	}
	s.rounded(out, from, a.Cols, c, func(start, end half, acc bool) {
		s.t.bf16.gemmPacked(c, start, end, a.operand(), b.dwords(), b.K, b.N, j0, acc, ws)
	})
}

// rounded has a product over k made into c, and rounds it into out; products by tiles and those with roundTile read from and write out themselves.
func (s Set) rounded(out, from MatBF16, k int, c Mat, product func(start, end half, acc bool)) {
	acc := from.Half != nil
	out.accepts(c, "out")
	if acc {
		from.accepts(c, "from")
	}
	start, end := half{from.Half, from.RowStride}, half{out.Half, out.RowStride}
	if (s.t.bf16.tiles != nil || s.t.bf16.roundTile != nil) && k > 0 {
		product(start, end, false)
		return
	}
	for i := 0; acc && i < c.Rows; i++ {
		s.WidenBF16(c.Data[i*c.RowStride:][:c.Cols], start.data[i*start.ld:][:c.Cols])
	}
	product(half{}, half{}, acc)
	for i := range c.Rows {
		s.RoundBF16(end.data[i*end.ld:][:c.Cols], c.Data[i*c.RowStride:][:c.Cols])
	}
}

// accepts panics unless m can be c in bf16.
func (m MatBF16) accepts(c Mat, what string) {
	if m.Rows != c.Rows || m.Cols != c.Cols || m.ColStride != 1 {
		panic("kernel: GemmBF16Round: " + what + " does not match c")
	}
	o := m.operand()
	o.f32 = nil
	o.check("GemmBF16Round: " + what)
}

// PackBF16 fills columns j0 to j1 of dst from b (K,N); j0 is a multiple of PanelCols and j1 one too, or N.
// Threads may fill disjoint ranges at once.
func (s Set) PackBF16(dst PackedBF16, b MatBF16, j0, j1 int) {
	if dst.K != b.Rows || dst.N != b.Cols || len(dst.Data) < PackedBF16Len(dst.K, dst.N) {
		panic("kernel: PackBF16: packed matrix does not match")
	}
	s.t.bf16.packWhole(dst.dwords(), b.operand(), j0, j1)
}

// GemmBF16Packed is GemmBF16, bits included, with columns j0 to j0+N of a packed B, j0 a multiple of
// PanelCols. Many threads may share b.
func (s Set) GemmBF16Packed(c Mat, a MatBF16, b PackedBF16, j0 int, acc bool, ws []float32) {
	if len(b.Data) < PackedBF16Len(b.K, b.N) {
		panic("kernel: GemmBF16Packed: packed matrix is too short")
	}
	s.t.bf16.gemmPacked(c, half{}, half{}, a.operand(), b.dwords(), b.K, b.N, j0, acc, ws)
}
