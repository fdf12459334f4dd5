package kernel

// GroupedWeights is a matrix W (N,K) of integer codes of 4 or 8 bits with a float32 scale and zero point for each Group elements of a
// row, as the quantised checkpoints of Hugging Face have them: element (n,k) is scale·(code − zero). Of each panel of 16 rows it has, for
// one group after another,
//
//	┌ 16 scales, f32 ┬ 16 of scale·(half − zero), f32 ┬ for each 32 elements 4 or 8 registers of codes, as Q4_0 and Q8_0 have them ┐
//
// half being 8 or 128, which the kernels take away as integers. For 128 elements a group that is 4.5 or 8.5 bits an element.
type GroupedWeights struct {
	Bits, Group int // Group is a multiple of QuantGroup that divides K
	N, K        int
	Data        []byte // GroupedLen(Bits, N, K, Group) bytes
}

// CanGroup tells whether GroupedWeights takes rows of k elements.
func CanGroup(bits, k, group int) bool {
	return (bits == 4 || bits == 8) && group > 0 && group%QuantGroup == 0 && k > 0 && k%group == 0
}

// groupBytes is the bytes of 16 rows' groups.
func groupBytes(bits, group int) int { return 128 + group/QuantGroup*64*bits }

// GroupedLen returns the bytes of W (n,k).
func GroupedLen(bits, n, k, group int) int {
	if !CanGroup(bits, k, group) {
		panic("kernel: GroupedLen: no such weights")
	}
	return (n + QuantPanel - 1) / QuantPanel * (k / group) * groupBytes(bits, group)
}

// PackRow fills row n from its codes and the scales and zero points of its groups. Data begins as zeros, which rows beyond N stay.
// Threads may fill different rows at once.
func (w GroupedWeights) PackRow(n int, codes []uint8, scales, zeros []float32) {
	groups := w.K / w.Group
	if n < 0 || n >= w.N || len(codes) != w.K || len(scales) != groups || len(zeros) != groups || len(w.Data) != GroupedLen(w.Bits, w.N, w.K, w.Group) {
		panic("kernel: GroupedWeights.PackRow: lengths do not match")
	}
	for g := range groups {
		w.packGroup(n, g, codes[g*w.Group:(g+1)*w.Group], scales[g], zeros[g])
	}
}

// packGroup fills group g of row n.
func (w GroupedWeights) packGroup(n, g int, codes []uint8, scale, zero float32) {
	size, row := groupBytes(w.Bits, w.Group), n%QuantPanel
	dst := w.Data[(n/QuantPanel*(w.K/w.Group)+g)*size:][:size]
	putFloat(dst[4*row:], scale)
	putFloat(dst[64+4*row:], scale*(w.half()-zero))
	for i := 0; i < w.Group; i += QuantGroup {
		from, to := codes[i:][:QuantGroup], dst[128+i/QuantGroup*64*w.Bits:]
		if w.Bits == 8 {
			toLanes(to, from, row)
			continue
		}
		var nibbles [16]byte
		for j := range nibbles {
			nibbles[j] = from[j]&15 | from[16+j]<<4
		}
		toLanes(to, nibbles[:], row)
	}
}

func (w GroupedWeights) half() float32 { return float32(int(1) << (w.Bits - 1)) }

// GemmGrouped computes C (M,N) = A (M,K) · W[n0:n0+N]ᵀ as GemmQuant does: of each 32 elements the integer sum with the scale, then
// scale·(half − zero) with the sum of A's codes. Exact.
func (s Set) GemmGrouped(c Mat, a []byte, w GroupedWeights, n0 int) {
	if len(w.Data) != GroupedLen(w.Bits, w.N, w.K, w.Group) || len(a) != QuantizedLen(c.Rows, w.K) {
		panic("kernel: GemmGrouped: lengths do not match")
	}
	c.checkPanels("GemmGrouped", w.N, n0)
	f, lda := s.quant().grouped, QuantizedLen(1, w.K)
	size := w.K / w.Group * groupBytes(w.Bits, w.Group)
	for n := 0; n < c.Cols; n += QuantPanel {
		b := w.Data[(n0+n)/QuantPanel*size:][:size]
		for m := 0; m < c.Rows; m += quantRows {
			f(w.Bits, min(c.Rows-m, quantRows), min(c.Cols-n, QuantPanel), c.Data[m*c.RowStride+n:], c.RowStride, a[m*lda:], lda, b, w.K/w.Group, w.Group/QuantGroup)
		}
	}
}

func gemmGroupedGeneric(bits, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, groups, steps int) {
	for r := range rows {
		clear(c[r*ldc:][:cols])
	}
	u := unpacked{mins: true, zero: 1 << (bits - 1)}
	size := groupBytes(bits, steps*QuantGroup)
	for g := range groups {
		from := b[g*size:][:size]
		for row := range QuantPanel {
			u.scale[0][row], u.min[0][row] = float(from[4*row:]), float(from[64+4*row:])
		}
		for step := range steps {
			codes := from[128+step*64*bits:]
			for row := range QuantPanel {
				if bits == 4 {
					u.readNibbles(codes, row)
					continue
				}
				for i := range QuantGroup {
					u.codes[row][i] = lane(codes, row, i)
				}
			}
			for r := range rows {
				u.multiply(c[r*ldc:][:cols], a[r*lda+(g*steps+step)*quantGroupBytes:][:quantGroupBytes])
			}
		}
	}
}
