package kernel

import "math"

// The generic tile, which the AVX2 set shares.
const (
	tileM = 6
	tileN = 16
)

var (
	genericF32  = product{m: tileM, n: tileN, kb: 256, micro: microGeneric, packA: packAGeneric, packB: packBGeneric}
	genericBF16 = product{m: tileM, n: tileN, kb: 256, pairs: true, micro: microGeneric,
		packA: packAWideGeneric, packB: packBPairsGeneric, widen: widenPairsGeneric}
)

func microGeneric(steps int, a lhs, b, c []float32, ldc, rows int, acc bool, _ *float32) {
	if a.byRow {
		panic("kernel: the generic micro-kernel takes packed panels")
	}
	for r := range rows {
		var s [tileN]float32
		row := c[r*ldc:][:tileN]
		if acc {
			copy(s[:], row)
		}
		for k := range steps {
			v := a.data[k*a.ld+r]
			for j, w := range b[k*tileN:][:tileN] {
				s[j] += float32(v * w)
			}
		}
		copy(row, s[:])
	}
}

func packAGeneric(dst []float32, a operand, rows int) { packAFloats(dst, a, rows, tileM) }

func packAFloats(dst []float32, a operand, rows, m int) {
	for k := range a.cols {
		d := dst[k*m:][:rows]
		for r := range d {
			d[r] = a.f32[r*a.rowStride+k*a.colStride]
		}
	}
}

func packAWideGeneric(dst []float32, a operand, rows int) { packAWide(dst, a, rows, tileM) }

// packAWide is packA with the values of bf16.
func packAWide(dst []float32, a operand, rows, m int) {
	for k := range a.cols {
		d := dst[k*m:][:rows]
		for r := range d {
			d[r] = widenBF16(a.bits(r, k))
		}
	}
}

func packBGeneric(dst []float32, b operand, stride int) { packBFloats(dst, b, stride, tileN) }

func packBFloats(dst []float32, b operand, stride, n int) {
	for j := 0; j < b.cols; j += n {
		cols := min(n, b.cols-j)
		p := dst[j/n*stride:]
		for k := range b.rows {
			d := p[k*n:][:n]
			clear(d[cols:])
			src := b.f32[k*b.rowStride+j*b.colStride:]
			if b.colStride == 1 {
				copy(d, src[:cols])
				continue
			}
			for i := range cols {
				d[i] = src[i*b.colStride]
			}
		}
	}
}

func packBPairsGeneric(dst []float32, b operand, stride int) { packBPairs(dst, b, stride, tileN) }

func packBPairs(dst []float32, b operand, stride, n int) {
	for j := 0; j < b.cols; j += n {
		cols := min(n, b.cols-j)
		p := dst[j/n*stride:]
		for k := 0; k < b.rows; k += 2 {
			d := p[k/2*n:][:n]
			clear(d[cols:])
			for i := range cols {
				d[i] = b.pair(k, j+i, k+1 < b.rows)
			}
		}
	}
}

func widenPairsGeneric(steps int, src, dst []float32) {
	for k := range steps {
		early, late := dst[2*k*tileN:][:tileN], dst[(2*k+1)*tileN:][:tileN]
		for j, w := range src[k*tileN:][:tileN] {
			pair := math.Float32bits(w)
			early[j], late[j] = math.Float32frombits(pair&0xffff0000), math.Float32frombits(pair<<16)
		}
	}
}

// pair is elements (k,j) and (k+1,j), zero unless it exists, in one dword.
func (o operand) pair(k, j int, both bool) float32 {
	w := uint32(o.bits(k, j)) << 16
	if both {
		w |= uint32(o.bits(k+1, j))
	}
	return math.Float32frombits(w)
}

// packAPairs is packA into pairs, for tiles of m rows.
func packAPairs(dst []float32, a operand, rows, m int) {
	t := operand{f32: a.f32, half: a.half, rows: a.cols, cols: a.rows, rowStride: a.colStride, colStride: a.rowStride}
	for k := 0; k < t.rows; k += 2 {
		d := dst[k/2*m:][:rows]
		for r := range d {
			d[r] = t.pair(k, r, k+1 < t.rows)
		}
	}
}
