package kernel

import (
	"encoding/binary"

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
// Each element is one chain in ascending k, so the bits are the same for any M and any split of N. Exact.
func (s Set) GemmHalf(c, a Mat, w QuantWeights, n0 int) {
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
