package kernel

import (
	"encoding/binary"
	"unsafe"

	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

// GemmHalf computes C (M,N) = A (M,K) · W[n0:n0+N]ᵀ with W of F16 or BF16, and n0 a multiple of QuantPanel. A has ColStride 1.
//
//	for m, n := range C {
//		s := float32(0)
//		for k := range K {
//			s = fma(W[n,k], A[m,k], s)
//		}
//		C[m,n] = s
//	}
//
// Each element is one chain in ascending k, so the bits are the same for any M and any split of N. Exact. Many rows are faster with
// QuantWork bytes of work; nil does without.
func (s Set) GemmHalf(c, a Mat, w QuantWeights, n0 int, work []byte) {
	p, _ := panelOf(w.Type)
	if p.elems != 1 || len(w.Data) != QuantWeightsLen(w.Type, w.N, w.K) || a.ColStride != 1 || a.Rows != c.Rows || a.Cols != w.K {
		panic("kernel: GemmHalf: lengths do not match")
	}
	c.checkPanels("GemmHalf", w.N, n0)
	a.check("GemmHalf")
	if c.Rows == 0 || c.Cols == 0 || w.K == 0 {
		for m := range c.Rows {
			clear(c.Data[m*c.RowStride:][:c.Cols])
		}
		return
	}
	t := s.quant()
	if c.Rows >= halfMany && t.widen != nil && len(work) >= QuantWork {
		s.manyHalf(c, a, w, p, n0, work)
		return
	}
	stride := w.K * p.bytes
	n := 0
	for ; c.Rows == 1 && c.Cols-n >= 4*QuantPanel && t.half4 != nil; n += 4 * QuantPanel {
		t.half4(w.Type, c.Data[n:], a.Data, w.Data[(n0+n)/QuantPanel*stride:], stride, w.K)
	}
	for ; n < c.Cols; n += QuantPanel {
		for m := 0; m < c.Rows; m += quantRows {
			t.half(w.Type, min(c.Rows-m, quantRows), min(c.Cols-n, QuantPanel), c.Data[m*c.RowStride+n:], c.RowStride, a.Data[m*a.RowStride:], a.RowStride, w.panel(n0+n, p), w.K)
		}
	}
}

// halfMany is the rows from which widening a panel first costs less than widening it in the micro-kernels.
const halfMany = 16

// manyHalf multiplies by panels of W that are widened once for all rows, with the micro-kernels of float32, whose sums are such chains too.
func (s Set) manyHalf(c, a Mat, w QuantWeights, p panel, n0 int, bytes []byte) {
	f, widen := s.t.f32, s.quant().widen
	floats := unsafe.Slice((*float32)(unsafe.Pointer(&bytes[0])), len(bytes)/4)
	ws := work{tile: floats[:maxM*maxN]}
	b := floats[maxM*maxN:][:f.kb*f.n]
	for k := 0; k < w.K; k += f.kb {
		kc := min(f.kb, w.K-k)
		for n := 0; n < c.Cols; n += f.n {
			for h := 0; h < f.n; h += QuantPanel {
				if n+h < c.Cols {
					widen(w.Type, kc, w.panel(n0+n+h, p)[k*p.bytes:], b[h:], f.n)
				} else {
					clearColumns(b[h:], kc, f.n)
				}
			}
			for i := 0; i < c.Rows; i += blockM {
				i1 := min(i+blockM, c.Rows)
				ws.lhs = a.Slice(0, a.Rows, k, k+kc).operand()
				f.column(c.Slice(i, i1, n, min(n+f.n, c.Cols)), kc, b[:kc*f.n], b[:kc*f.n], i, k > 0, &ws)
			}
		}
	}
}

// clearColumns zeroes 16 columns of rows ld apart.
func clearColumns(x []float32, rows, ld int) {
	for r := range rows {
		clear(x[r*ld:][:QuantPanel])
	}
}

func gemmHalfGeneric(t quant.Type, rows, cols int, c []float32, ldc int, a []float32, lda int, b []byte, k int) {
	var w [QuantPanel]float32
	for r := range rows {
		clear(c[r*ldc:][:cols])
	}
	for i := range k {
		for n := range w {
			h := binary.LittleEndian.Uint16(b[2*(QuantPanel*i+n):])
			if t == quant.BF16 {
				w[n] = dtype.FromBF16(h)
			} else {
				w[n] = dtype.FromF16(h)
			}
		}
		for r := range rows {
			for n := range cols {
				c[r*ldc+n] = fma32(w[n], a[r*lda+i], c[r*ldc+n])
			}
		}
	}
}
