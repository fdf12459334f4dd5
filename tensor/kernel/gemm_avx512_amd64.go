//go:build amd64 && !purego

package kernel

import "unsafe"

const (
	tileM512 = 12
	tileN512 = 32
)

var (
	avx512F32  = product{m: tileM512, n: tileN512, kb: 512, micro: microAVX512, direct: directF32, near: copyColsAVX512, packA: packAAVX512, packB: packBAVX512}
	avx512Wide = product{m: tileM512, n: tileN512, kb: 256, pairs: true, micro: microAVX512,
		packA: packAWideAVX512, packB: packBPairsAVX512, widen: widenPanelAVX512}
	avx512BF16 = product{m: tileM512, n: tileN512, kb: 512, pairs: true,
		micro: microPairsOfAVX512, packA: packAPairsAVX512, packB: packBPairsAVX512, roundTile: roundTile512, widenTile: widenTile512,
		attention: &tiles{strip: PanelCols, pack: packStripsPairs, block: blockPairs}}
)

// The micro-kernels by rows of the tile.
var microRowsAVX512 = [...]func(kc int, a *float32, lda int, b *float32, c *float32, ldc int, acc bool, next *float32){
	nil, microRows1AVX512, microRows2AVX512, microRows3AVX512, microRows4AVX512, microRows5AVX512, microRows6AVX512, microRows7AVX512, microRows8AVX512, microRows9AVX512, microRows10AVX512, microRows11AVX512, microRows12AVX512,
}

var microColsAVX512 = [...]func(kc int, a *float32, lda int, b *float32, c *float32, ldc int, acc bool, next *float32){
	nil, microCols1AVX512, microCols2AVX512, microCols3AVX512, microCols4AVX512, microCols5AVX512, microCols6AVX512, microCols7AVX512, microCols8AVX512, microCols9AVX512, microCols10AVX512, microCols11AVX512, microCols12AVX512,
}

var microPairsAVX512 = [...]func(kc int, a *float32, lda int, b *uint16, c *float32, ldc int, acc bool, next *float32){
	nil, microPairs1AVX512, microPairs2AVX512, microPairs3AVX512, microPairs4AVX512, microPairs5AVX512, microPairs6AVX512, microPairs7AVX512, microPairs8AVX512, microPairs9AVX512, microPairs10AVX512, microPairs11AVX512, microPairs12AVX512,
}

func microAVX512(kc int, a lhs, b, c []float32, ldc, rows int, acc bool, next *float32) {
	_, _ = b[kc*tileN512-1], c[(rows-1)*ldc+tileN512-1]
	if a.byRow {
		_ = a.data[(rows-1)*a.ld+kc-1]
		microRowsAVX512[rows](kc, &a.data[0], a.ld, &b[0], &c[0], ldc, acc, next)
		return
	}
	_ = a.data[(kc-1)*a.ld+rows-1]
	microColsAVX512[rows](kc, &a.data[0], a.ld, &b[0], &c[0], ldc, acc, next)
}

func microPairsOfAVX512(steps int, a lhs, b, c []float32, ldc, rows int, acc bool, next *float32) {
	_, _, _ = a.data[(steps-1)*a.ld+rows-1], b[steps*tileN512-1], c[(rows-1)*ldc+tileN512-1]
	microPairsAVX512[rows](steps, &a.data[0], a.ld, (*uint16)(unsafe.Pointer(&b[0])), &c[0], ldc, acc, next)
}

func roundTile512(rows int, c []float32, ldc int, h half) {
	_, _ = c[(rows-1)*ldc+tileN512-1], h.data[(rows-1)*h.ld+tileN512-1]
	roundTileAVX512(rows, &c[0], 4*ldc, &h.data[0], 2*h.ld)
}

func widenTile512(rows int, c []float32, ldc int, h half) {
	_, _ = c[(rows-1)*ldc+tileN512-1], h.data[(rows-1)*h.ld+tileN512-1]
	widenTileAVX512(rows, &c[0], 4*ldc, &h.data[0], 2*h.ld)
}

// packStripsPairs makes of each 32 rows what packB makes of as many columns, the steps of a strip filled up to a multiple of 16.
func packStripsPairs(dst []float32, a operand) {
	packBPairsAVX512(dst, operand{f32: a.f32, half: a.half, rows: a.cols, cols: a.rows, rowStride: a.colStride, colStride: a.rowStride}, roundUp(a.cols, halfK)/2*tileN512)
}

// blockPairs takes packed strips alone, and makes whole panels of C in float32.
func blockPairs(c Mat, _, _ half, kc int, bp []float32, acc bool, w work) {
	steps, panel := (kc+1)/2, roundUp(kc, halfK)/2*tileN512
	for j := 0; j < c.Cols; j += tileN512 {
		b := bp[j/tileN512*panel:]
		for i := 0; i < c.Rows; {
			to := min(i+tileM512, i/PanelCols*PanelCols+PanelCols, c.Rows) // within a strip
			microPairsOfAVX512(steps, lhs{data: w.a[i/PanelCols*panel+i%PanelCols:], ld: PanelCols}, b, c.Data[i*c.RowStride+j:], c.RowStride, to-i, acc, &b[0])
			i = to
		}
	}
}

// directF32 tells whether a micro-kernel takes a as it lies: its rows lie in memory.
func directF32(a operand) bool { return a.half == nil && a.colStride == 1 }

// packAAVX512 is for an A with neither stride 1.
func packAAVX512(dst []float32, a operand, rows int) { packAFloats(dst, a, rows, tileM512) }

func copyColsAVX512(dst []float32, ld int, a operand) {
	_, _ = dst[(a.cols-1)*ld+a.rows-1], a.f32[(a.cols-1)*a.colStride+a.rows-1]
	copyRowsAVX512(a.cols, &a.f32[0], 4*a.colStride, a.rows, &dst[0], 4*ld)
}

func widenPanelAVX512(steps int, src, dst []float32) {
	_, _ = src[steps*tileN512-1], dst[2*steps*tileN512-1]
	widenPairsAVX512(steps, (*uint32)(unsafe.Pointer(&src[0])), &dst[0])
}

func packAWideAVX512(dst []float32, a operand, rows int) {
	_ = dst[a.cols*tileM512-1]
	switch {
	case a.colStride == 1 && a.half == nil:
		packANearRowsAVX512(a.cols, &a.f32[0], 4*a.rowStride, rows, &dst[0])
	case a.colStride == 1:
		packAWideRowsAVX512(a.cols, &a.half[0], 2*a.rowStride, rows, &dst[0])
	case a.rowStride == 1 && a.half == nil:
		packANearColsAVX512(a.cols, &a.f32[0], 4*a.colStride, rows, &dst[0])
	case a.rowStride == 1:
		packAWideColsAVX512(a.cols, &a.half[0], 2*a.colStride, rows, &dst[0])
	default:
		packAWide(dst, a, rows, tileM512)
	}
}

func packAPairsAVX512(dst []float32, a operand, rows int) {
	_ = dst[(a.cols+1)/2*tileM512-1]
	d := (*uint32)(unsafe.Pointer(&dst[0]))
	switch {
	case a.colStride == 1 && a.half == nil:
		packARoundRowsAVX512(a.cols, &a.f32[0], 4*a.rowStride, rows, d)
	case a.colStride == 1:
		packAPairRowsAVX512(a.cols, &a.half[0], 2*a.rowStride, rows, d)
	case a.rowStride == 1 && a.half == nil:
		packARoundColsAVX512(a.cols, &a.f32[0], 4*a.colStride, rows, d)
	case a.rowStride == 1:
		packAPairColsAVX512(a.cols, &a.half[0], 2*a.colStride, rows, d)
	default:
		packAPairs(dst, a, rows, tileM512)
	}
}

func packBAVX512(dst []float32, b operand, stride int) {
	const n = tileN512
	kc := b.rows
	switch {
	case b.colStride == 1:
		j := b.cols / n * n
		if j > 0 {
			packBPanelsAVX512(kc, &b.f32[0], 4*b.rowStride, j/n, &dst[0], 4*stride)
		}
		if j < b.cols {
			packBRowsAVX512(kc, &b.f32[j], 4*b.rowStride, b.cols-j, &dst[j/n*stride])
		}
	case b.rowStride == 1:
		for j := 0; j < b.cols; j += n / 2 { // half a panel a call
			packBColsAVX512(kc, &b.f32[j*b.colStride], 4*b.colStride, min(n/2, b.cols-j), &dst[j/n*stride+j%n])
		}
	default:
		packBFloats(dst, b, stride, n)
	}
}

func packBPairsAVX512(dst []float32, b operand, stride int) {
	const n = tileN512
	kc := b.rows
	at := func(j int) *uint32 { return (*uint32)(unsafe.Pointer(&dst[j/n*stride+j%n])) }
	switch {
	case b.colStride == 1 && b.half == nil:
		j := 0
		for ; j+2*n <= b.cols; j += 2 * n {
			packBRoundRows2AVX512(kc, &b.f32[j], 4*b.rowStride, at(j), 4*stride)
		}
		for ; j < b.cols; j += n {
			packBRoundRowsAVX512(kc, &b.f32[j], 4*b.rowStride, min(n, b.cols-j), at(j))
		}
	case b.colStride == 1:
		j := 0
		for ; j+4*n <= b.cols; j += 4 * n {
			packBPairRows4AVX512(kc, &b.half[j], 2*b.rowStride, at(j), 4*stride)
		}
		for ; j < b.cols; j += n {
			packBPairRowsAVX512(kc, &b.half[j], 2*b.rowStride, min(n, b.cols-j), at(j))
		}
	case b.rowStride == 1 && b.half == nil:
		for j := 0; j < b.cols; j += n / 2 {
			packBRoundColsAVX512(kc, &b.f32[j*b.colStride], 4*b.colStride, min(n/2, b.cols-j), at(j))
		}
	case b.rowStride == 1:
		for j := 0; j < b.cols; j += n / 2 {
			packBPairColsAVX512(kc, &b.half[j*b.colStride], 2*b.colStride, min(n/2, b.cols-j), at(j))
		}
	default:
		packBPairs(dst, b, stride, n)
	}
}
