//go:build amd64 && !purego

package kernel

func microAVX2(kc int, a, b, c []float32, ldc, rows int, acc bool) {
	_, _, _ = a[kc*tileM-1], b[kc*tileN-1], c[(rows-1)*ldc+tileN-1]
	switch rows {
	case 1:
		micro1AVX2(kc, &a[0], &b[0], &c[0], ldc, acc)
	case 2:
		micro2AVX2(kc, &a[0], &b[0], &c[0], ldc, acc)
	case 3:
		micro3AVX2(kc, &a[0], &b[0], &c[0], ldc, acc)
	case 4:
		micro4AVX2(kc, &a[0], &b[0], &c[0], ldc, acc)
	case 5:
		micro5AVX2(kc, &a[0], &b[0], &c[0], ldc, acc)
	default:
		micro6AVX2(kc, &a[0], &b[0], &c[0], ldc, acc)
	}
}

// packAAVX2 leaves in absent rows what no micro-kernel reads.
func packAAVX2(dst []float32, a Mat, rows int) {
	_ = dst[a.Cols*tileM+padA-1]
	switch {
	case a.ColStride == 1:
		packARowsAVX2(a.Cols, &a.Data[0], a.RowStride, rows, &dst[0])
	case a.RowStride == 1:
		packAColsAVX2(a.Cols, &a.Data[0], a.ColStride, rows, &dst[0])
	default:
		packAGeneric(dst, a, rows)
	}
}

func packBAVX2(dst []float32, b Mat, stride int) {
	kc := b.Rows
	switch {
	case b.ColStride == 1:
		j := 0
		for ; j+4*tileN <= b.Cols; j += 4 * tileN {
			packBRows4AVX2(kc, &b.Data[j], b.RowStride, &dst[j/tileN*stride], stride)
		}
		for ; j < b.Cols; j += tileN {
			packBRowsAVX2(kc, &b.Data[j], b.RowStride, min(tileN, b.Cols-j), &dst[j/tileN*stride])
		}
	case b.RowStride == 1:
		k8, n16 := kc&^7, b.Cols&^(tileN-1)
		if k8 > 0 {
			for j := 0; j < n16; j += tileN {
				packBColsAVX2(k8, &b.Data[j*b.ColStride], b.ColStride, &dst[j/tileN*stride])
			}
			if k8 < kc {
				packBGeneric(dst[k8*tileN:], b.Slice(k8, kc, 0, n16), stride)
			}
		} else {
			n16 = 0
		}
		if n16 < b.Cols {
			packBGeneric(dst[n16/tileN*stride:], b.Slice(0, kc, n16, b.Cols), stride)
		}
	default:
		packBGeneric(dst, b, stride)
	}
}
