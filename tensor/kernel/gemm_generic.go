package kernel

// microGeneric is C (rows,16) = A·B, or C += A·B when acc, over kc >= 1 steps of packed panels:
// a holds tileM values a step, b tileN. Each element is one chain in ascending k.
func microGeneric(kc int, a, b, c []float32, ldc, rows int, acc bool) {
	for r := range rows {
		var s [tileN]float32
		row := c[r*ldc:][:tileN]
		if acc {
			copy(s[:], row)
		}
		for k := range kc {
			v := a[k*tileM+r]
			for j, w := range b[k*tileN:][:tileN] {
				s[j] += float32(v * w)
			}
		}
		copy(row, s[:])
	}
}

// packAGeneric stores a (rows,kc) step after step, tileM values each; absent rows are zeros.
func packAGeneric(dst []float32, a Mat, rows int) {
	for k := range a.Cols {
		d := dst[k*tileM:][:tileM]
		clear(d[rows:])
		for r := range rows {
			d[r] = a.Data[r*a.RowStride+k*a.ColStride]
		}
	}
}

// packBGeneric stores b (kc,N) as panels of tileN columns, stride elements apart; absent columns are
// zeros.
func packBGeneric(dst []float32, b Mat, stride int) {
	for j := 0; j < b.Cols; j += tileN {
		n := min(tileN, b.Cols-j)
		p := dst[j/tileN*stride:]
		for k := range b.Rows {
			d := p[k*tileN:][:tileN]
			clear(d[n:])
			src := b.Data[k*b.RowStride+j*b.ColStride:]
			if b.ColStride == 1 {
				copy(d, src[:n])
				continue
			}
			for i := range n {
				d[i] = src[i*b.ColStride]
			}
		}
	}
}
