//go:build amd64 && !purego

package kernel

import "unsafe"

// The tiles of AMX: a register holds 16 rows of 64 bytes, which are 32 bf16 of A, 16 pairs of k of B by 16
// columns, or 16 float32 of C. A block of C is 32 x 32.
const (
	amxRows  = 16
	amxLine  = 4 * amxRows // bytes of a tile's row
	amxBlock = 2 * amxRows // rows and columns of a block of C
)

var (
	tilesAMX  = &tiles{pack: packStripsAMX, block: blockAMX}
	avx512AMX = product{m: amxBlock, n: amxBlock, kb: amxKB, pairs: true, unit: amxK / 2, direct: directAMX, packB: packBAMX, tiles: tilesAMX, attention: tilesAMX}
)

// directAMX tells whether tiles can be loaded from a: rows of bf16, of whole tiles.
func directAMX(a operand) bool {
	return a.half != nil && a.colStride == 1 && a.cols%amxK == 0
}

// packStripsAMX makes rows of 64 bytes for each strip of 32 rows and each 32 of K, the last k filled up with zeros.
func packStripsAMX(dst []float32, a operand) {
	kp := roundUp(a.cols, amxK)
	for i := 0; i < a.rows; i += amxBlock {
		r := min(amxBlock, a.rows-i)
		packAAMX(words(dst)[i*kp:][:r*kp], a.slice(i, i+r, 0, a.cols), r)
	}
}

// words is x as twice as many bf16.
func words(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// packAAMX packs one strip.
func packAAMX(dst []uint16, a operand, rows int) {
	step := rows * amxK // of one 32 of K
	switch {
	case a.colStride == 1 && a.half == nil:
		for i := range rows {
			tileARoundAMX(a.cols, &a.f32[i*a.rowStride], &dst[i*amxK], 2*step)
		}
	case a.rowStride == 1 && a.half == nil:
		for k := 0; k < a.cols; k += amxK {
			for i := 0; i < rows; i += amxRows {
				tileAColsRoundAMX(min(amxK, a.cols-k), &a.f32[i+k*a.colStride], 4*a.colStride, min(amxRows, rows-i), &dst[k/amxK*step+i*amxK])
			}
		}
	case a.rowStride == 1:
		for k := 0; k < a.cols; k += amxK {
			tileAColsAMX(min(amxK, a.cols-k), &a.half[k*a.colStride], 2*a.colStride, rows, &dst[k/amxK*step])
		}
	default:
		for k := 0; k < a.cols; k += amxK {
			for i := range rows {
				d := dst[k/amxK*step+i*amxK:][:amxK]
				n := min(amxK, a.cols-k)
				clear(d[n:])
				if a.half != nil && a.colStride == 1 {
					copy(d[:n], a.half[i*a.rowStride+k:])
					continue
				}
				for q := range n {
					d[q] = a.bits(i, k+q)
				}
			}
		}
	}
}

// packBAMX fills panels of 32 columns with pairs of k, the earlier in the low half.
func packBAMX(dst []float32, b operand, stride int) {
	const n = amxBlock
	kc := b.rows
	at := func(j int) *uint32 { return (*uint32)(unsafe.Pointer(&dst[j/n*stride+j%n])) }
	pairs := (kc + 1) / 2
	switch {
	case b.colStride == 1:
		j := 0
		for ; j+4*n <= b.cols; j += 4 * n {
			if b.half == nil {
				tileBRowsRound4AMX(kc, &b.f32[j], 4*b.rowStride, at(j), 4*stride)
			} else {
				tileBRows4AMX(kc, &b.half[j], 2*b.rowStride, at(j), 4*stride)
			}
		}
		for ; j < b.cols; j += n {
			if b.half == nil {
				tileBRowsRoundAMX(kc, &b.f32[j], 4*b.rowStride, min(n, b.cols-j), at(j))
			} else {
				tileBRowsAMX(kc, &b.half[j], 2*b.rowStride, min(n, b.cols-j), at(j))
			}
		}
	case b.rowStride == 1:
		for j := 0; j < b.cols; j += n / 2 { // half a panel a call, which fills up with zeros itself
			if b.half == nil {
				tileBColsRoundAMX(kc, &b.f32[j*b.colStride], 4*b.colStride, min(n/2, b.cols-j), at(j))
			} else {
				tileBColsAMX(kc, &b.half[j*b.colStride], 2*b.colStride, min(n/2, b.cols-j), at(j))
			}
		}
		return
	default:
		d := unsafe.Slice((*uint32)(unsafe.Pointer(&dst[0])), len(dst))
		for j := range b.cols {
			for k := 0; k < kc; k += 2 {
				w := uint32(b.bits(k, j))
				if k+1 < kc {
					w |= uint32(b.bits(k+1, j)) << 16
				}
				d[j/n*stride+k/2*n+j%n] = w
			}
		}
	}
	for j := 0; j < b.cols; j += n {
		clear(dst[j/n*stride+pairs*n:][:(roundUp(kc, amxK)/2-pairs)*n])
	}
}

// amxConfig is the configuration of tiles for a block of C of rows by cols: palette, then at 16 bytes a row and
// at 48 rows of each register. Registers 0 to 3 are C, 4 and 5 A, 6 and 7 B.
func amxConfig(rows, cols int) (c [64]byte) {
	c[0] = 1
	r := [2]int{min(rows, amxRows), max(rows-amxRows, 0)}
	n := [2]int{min(cols, amxRows), max(cols-amxRows, 0)}
	set := func(t, rows, bytes int) {
		if rows > 0 && bytes > 0 {
			c[16+2*t], c[48+t] = byte(bytes), byte(rows)
		}
	}
	for i := range 2 {
		for j := range 2 {
			set(2*i+j, r[i], 4*n[j])
		}
		set(4+i, r[i], amxLine)
		set(6+i, amxK/2, 4*n[i])
	}
	return c
}

// blockAMX gives each call a strip of 32 rows and up to 10 panels: some 10 µs.
func blockAMX(c Mat, from, out half, kc int, bp []float32, acc bool, w work) {
	blocks := (kc + amxK - 1) / amxK
	pb := blocks * amxK / 2 * amxBlock
	for j0 := 0; j0 < c.Cols; j0 += blockN {
		j1 := min(j0+blockN, c.Cols)
		edge := j0 + (j1-j0)/amxBlock*amxBlock
		for i := 0; i < c.Rows; i += amxBlock {
			r := min(amxBlock, c.Rows-i)
			s := strip{rows: r, blocks: blocks, ldc: c.RowStride, acc: acc, buf: &w.tile[0], pb: pb}
			if w.lhs.half != nil {
				s.a, s.aRow, s.aStep = &w.lhs.half[i*w.lhs.rowStride], 2*w.lhs.rowStride, amxLine
			} else {
				s.a, s.aRow, s.aStep = &words(w.a)[i*blocks*amxK], amxLine, r*amxLine
			}
			if edge > j0 {
				s.run(c, from, out, i, j0, amxBlock, (edge-j0)/amxBlock, bp)
			}
			if edge < j1 {
				s.run(c, from, out, i, edge, j1-edge, 1, bp)
			}
		}
	}
}

// strip is a strip of rows of A by some panels of B.
type strip struct {
	a            *uint16
	aRow, aStep  int // bytes
	rows, blocks int
	ldc          int // elements
	acc          bool
	buf          *float32
	pb           int // dwords of a panel
}

// first is where rows by cols elements from row i and column j on begin, or nil.
func (h half) first(i, j, rows, cols int) *uint16 {
	if h.data == nil {
		return nil
	}
	return &h.data[i*h.ld+j : (i+rows-1)*h.ld+j+cols][0]
}

// run does panels of cols columns from row i and column j of c on.
func (s *strip) run(c Mat, from, out half, i, j, cols, panels int, bp []float32) {
	config := amxConfig(s.rows, cols)
	b := (*uint32)(unsafe.Pointer(&bp[j/amxBlock*s.pb : (j/amxBlock+panels)*s.pb][0]))
	width := (panels-1)*amxBlock + cols
	to := &c.Data[i*c.RowStride+j : (i+s.rows-1)*c.RowStride+j+width][0]
	f, h := from.first(i, j, s.rows, width), out.first(i, j, s.rows, width)
	switch {
	case s.rows > amxRows && cols > amxRows:
		tiles22AMX(&config, panels, s.blocks, s.a, s.aRow, s.aStep, b, 4*s.pb, to, 4*s.ldc, s.acc, f, 2*from.ld, h, 2*out.ld, s.rows, cols, s.buf)
	case s.rows > amxRows:
		tiles21AMX(&config, panels, s.blocks, s.a, s.aRow, s.aStep, b, 4*s.pb, to, 4*s.ldc, s.acc, f, 2*from.ld, h, 2*out.ld, s.rows, cols, s.buf)
	case cols > amxRows:
		tiles12AMX(&config, panels, s.blocks, s.a, s.aRow, s.aStep, b, 4*s.pb, to, 4*s.ldc, s.acc, f, 2*from.ld, h, 2*out.ld, s.rows, cols, s.buf)
	default:
		tiles11AMX(&config, panels, s.blocks, s.a, s.aRow, s.aStep, b, 4*s.pb, to, 4*s.ldc, s.acc, f, 2*from.ld, h, 2*out.ld, s.rows, cols, s.buf)
	}
}
