//go:build amd64 && !purego

package kernel

import "unsafe"

var (
	avx2F32  = product{m: tileM, n: tileN, kb: 512, micro: microAVX2, direct: directF32, packA: packAAVX2, packB: packBAVX2}
	avx2BF16 = product{m: tileM, n: tileN, kb: 256, pairs: true, micro: microAVX2,
		packA: packAWideAVX2, packB: packBPairsAVX2, widen: widenPanelAVX2}
)

// The micro-kernels by rows of the tile.
var microRowsAVX2 = [...]func(kc int, a *float32, lda int, b *float32, c *float32, ldc int, acc bool, next *float32){
	nil, microRows1AVX2, microRows2AVX2, microRows3AVX2, microRows4AVX2, microRows5AVX2, microRows6AVX2,
}

var microColsAVX2 = [...]func(kc int, a *float32, lda int, b *float32, c *float32, ldc int, acc bool, next *float32){
	nil, microCols1AVX2, microCols2AVX2, microCols3AVX2, microCols4AVX2, microCols5AVX2, microCols6AVX2,
}

func microAVX2(kc int, a lhs, b, c []float32, ldc, rows int, acc bool, next *float32) {
	_, _ = b[kc*tileN-1], c[(rows-1)*ldc+tileN-1]
	if a.byRow {
		_ = a.data[(rows-1)*a.ld+kc-1]
		microRowsAVX2[rows](kc, &a.data[0], a.ld, &b[0], &c[0], ldc, acc, next)
		return
	}
	_ = a.data[(kc-1)*a.ld+rows-1]
	microColsAVX2[rows](kc, &a.data[0], a.ld, &b[0], &c[0], ldc, acc, next)
}

// packAAVX2 leaves in absent rows what no micro-kernel reads.
func packAAVX2(dst []float32, a operand, rows int) {
	_ = dst[a.cols*tileM+1]
	switch {
	case a.colStride == 1:
		packARowsAVX2(a.cols, &a.f32[0], a.rowStride, rows, &dst[0])
	case a.rowStride == 1:
		packAColsAVX2(a.cols, &a.f32[0], a.colStride, rows, &dst[0])
	default:
		packAGeneric(dst, a, rows)
	}
}

func packBAVX2(dst []float32, b operand, stride int) {
	kc := b.rows
	switch {
	case b.colStride == 1:
		j := 0
		for ; j+4*tileN <= b.cols; j += 4 * tileN {
			packBRows4AVX2(kc, &b.f32[j], b.rowStride, &dst[j/tileN*stride], stride)
		}
		for ; j < b.cols; j += tileN {
			packBRowsAVX2(kc, &b.f32[j], b.rowStride, min(tileN, b.cols-j), &dst[j/tileN*stride])
		}
	case b.rowStride == 1 && kc >= 8:
		k8, n16 := kc&^7, b.cols&^(tileN-1)
		for j := 0; j < n16; j += tileN {
			packBColsAVX2(k8, &b.f32[j*b.colStride], b.colStride, &dst[j/tileN*stride])
		}
		if k8 < kc && n16 > 0 {
			packBGeneric(dst[k8*tileN:], b.slice(k8, kc, 0, n16), stride)
		}
		if n16 < b.cols {
			packBGeneric(dst[n16/tileN*stride:], b.slice(0, kc, n16, b.cols), stride)
		}
	default:
		packBGeneric(dst, b, stride)
	}
}

func widenPanelAVX2(steps int, src, dst []float32) {
	_, _ = src[steps*tileN-1], dst[2*steps*tileN-1]
	widenPairsAVX2(steps, (*uint32)(unsafe.Pointer(&src[0])), &dst[0])
}

// packAWideAVX2 packs float32 and rounds in place; bf16 it widens, whole rows before they are packed.
func packAWideAVX2(dst []float32, a operand, rows int) {
	kc := a.cols
	switch {
	case a.half == nil:
		packAAVX2(dst, a, rows)
		if rows == tileM || a.colStride == 1 {
			roundedBF16AVX2(dst[:kc*tileM], dst[:kc*tileM])
		} else {
			for k := range kc {
				p := dst[k*tileM:][:rows]
				roundedBF16AVX2(p, p)
			}
		}
	case a.colStride == 1 && kc <= packKB:
		var wide [tileM * packKB]float32
		for r := range rows {
			row, x := wide[r*packKB:][:kc], a.half[r*a.rowStride:][:kc]
			n := kc &^ 31
			widenBF16AVX2(row[:n], x[:n])
			widenBF16Generic(row[n:], x[n:])
		}
		packARowsAVX2(kc, &wide[0], packKB, rows, &dst[0])
	case a.rowStride == 1 && rows == tileM:
		// The routine reads 8 elements a step; the last steps may lie too near to the end.
		n := min(kc, max(0, (len(a.half)-8)/max(1, a.colStride)+1))
		if len(a.half) < 8 {
			n = 0
		}
		if n > 0 {
			packAHalfColsAVX2(n, &a.half[0], 2*a.colStride, &dst[0])
		}
		for k := n; k < kc; k++ {
			for r := range tileM {
				dst[k*tileM+r] = widenBF16(a.half[k*a.colStride+r])
			}
		}
	default:
		packAWideGeneric(dst, a, rows)
	}
}

func packBPairsAVX2(dst []float32, b operand, stride int) {
	kc := b.rows
	at := func(j int) *uint32 { return (*uint32)(unsafe.Pointer(&dst[j/tileN*stride])) }
	switch {
	case b.colStride == 1 && b.half == nil:
		j := 0
		for ; j+4*tileN <= b.cols; j += 4 * tileN {
			packBRoundRows4AVX2(kc, &b.f32[j], 4*b.rowStride, at(j), 4*stride)
		}
		for ; j < b.cols; j += tileN {
			packBRoundRowsAVX2(kc, &b.f32[j], 4*b.rowStride, min(tileN, b.cols-j), at(j))
		}
	case b.colStride == 1:
		j := 0
		for ; j+4*tileN <= b.cols; j += 4 * tileN {
			packBPairRows4AVX2(kc, &b.half[j], 2*b.rowStride, at(j), 4*stride)
		}
		for ; j+tileN <= b.cols; j += tileN {
			packBPairRowsAVX2(kc, &b.half[j], 2*b.rowStride, at(j))
		}
		if j < b.cols {
			packBPairsGeneric(dst[j/tileN*stride:], b.slice(0, kc, j, b.cols), stride)
		}
	case b.rowStride == 1 && kc >= 16:
		k16, n16 := kc&^15, b.cols&^(tileN-1)
		if b.half != nil {
			for j := 0; j < n16; j += tileN {
				packBPairColsAVX2(k16, &b.half[j*b.colStride], b.colStride, at(j))
			}
		} else {
			packBRoundColsAVX2(dst, b.slice(0, k16, 0, b.cols), n16, stride)
		}
		if k16 < kc && n16 > 0 {
			packBPairsGeneric(dst[k16/2*tileN:], b.slice(k16, kc, 0, n16), stride)
		}
		if n16 < b.cols {
			packBPairsGeneric(dst[n16/tileN*stride:], b.slice(0, kc, n16, b.cols), stride)
		}
	default:
		packBPairsGeneric(dst, b, stride)
	}
}

// packBRoundColsAVX2 rounds 64 steps of 16 columns, then transposes them.
func packBRoundColsAVX2(dst []float32, b operand, n16, stride int) {
	const chunk = 64
	var half [tileN * chunk]uint16
	for j := 0; j < n16; j += tileN {
		for k := 0; k < b.rows; k += chunk {
			kc := min(chunk, b.rows-k)
			for i := range tileN {
				x, h := b.f32[(j+i)*b.colStride+k:][:kc], half[i*chunk:][:kc]
				whole := kc &^ 15
				roundBF16AVX2(h[:whole], x[:whole])
				roundBF16Generic(h[whole:], x[whole:])
			}
			p := (*uint32)(unsafe.Pointer(&dst[j/tileN*stride+k/2*tileN]))
			packBPairColsAVX2(kc, &half[0], chunk, p)
		}
	}
}
