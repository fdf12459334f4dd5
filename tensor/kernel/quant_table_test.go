package kernel

import (
	"bytes"
	"math"
	"testing"

	"loadline/tensor/quant"
)

// TestGemmTable compares products of codes of a table with those of what they stand for, to the bit, and their bytes with what plans count.
func TestGemmTable(t *testing.T) {
	r := newRand()
	for _, g := range []quant.Group{{Bits: 8, Elems: 32, Table: quant.TableE4M3}, {Bits: 8, Elems: 128, Table: quant.TableE4M3}, {Bits: 4, Elems: 64, Table: quant.TableNF4}} {
		for _, size := range [][3]int{{1, 16, 128}, {3, 75, 5 * 64}, {9, 96, 256}} {
			m, n, k := size[0], size[1], size[2]
			k -= k % g.Elems
			var src []byte
			wide := make([]float32, 0, n*k)
			codes, block := make([]uint8, g.Elems), make([]byte, g.Bytes())
			for range n * k / g.Elems {
				scale := r.Float32() - 0.5
				for i := range codes {
					if codes[i] = uint8(r.Uint32()) & uint8(1<<g.Bits-1); codes[i]&0x7f == 0x7f {
						codes[i] = 0 // no NaN
					}
					wide = append(wide, g.Value(codes[i], scale, 0))
				}
				g.Put(block, codes, scale, 0)
				src = append(src, block...)
			}
			w := TableWeights{Group: g, N: n, K: k, Data: make([]byte, TableLen(g, n, k))}
			if d, ok := g.DType(); !ok || d.PackedBytes(int64(n), int64(k)) != int64(len(w.Data)) {
				t.Errorf("%v: planned as %d bytes, want %d", d, d.PackedBytes(int64(n), int64(k)), len(w.Data))
			}
			w.PackFrom(src, 0)
			again := w
			again.Data = make([]byte, len(w.Data))
			for at := 0; at < len(src); {
				piece := min(len(src)-at, (1+r.IntN(20))*g.Bytes())
				again.PackFrom(src[at:at+piece], at)
				at += piece
			}
			if !bytes.Equal(again.Data, w.Data) {
				t.Errorf("%v: packed in pieces it differs", g)
			}
			a := make([]float32, m*k)
			for i := range a {
				a[i] = r.Float32() - 0.5
			}
			for _, s := range Sets() {
				want, got := make([]float32, m*n), make([]float32, m*n)
				s.Gemm(RowMajor(want, m, n, n), RowMajor(a, m, k, k), RowMajor(wide, n, k, k).T(), false, make([]float32, GemmWorkspace(m, n, k)))
				for lo := 0; lo < n; lo += 48 { // in parts
					hi := min(lo+48, n)
					s.GemmTable(RowMajor(got, m, n, n).Slice(0, m, lo, hi), RowMajor(a, m, k, k), w, lo, make([]float32, TableWorkspace(m)))
				}
				for i, x := range got {
					if math.Float32bits(x) != math.Float32bits(want[i]) {
						t.Fatalf("%s: %v (%d,%d,%d): element %d: got %v, want %v", s.Name(), g, m, n, k, i, x, want[i])
					}
				}
			}
		}
	}
}

// TestTableNaN makes the row of a NaN, and no other, NaN.
func TestTableNaN(t *testing.T) {
	g := quant.Group{Bits: 8, Elems: 32, Table: quant.TableE4M3}
	w := TableWeights{Group: g, N: 3, K: 32, Data: make([]byte, TableLen(g, 3, 32))}
	for n := range w.N {
		codes, block := make([]uint8, 32), make([]byte, g.Bytes())
		if codes[n] = 0x38; n == 1 {
			codes[7] = 0xff
		}
		g.Put(block, codes, 2, 0)
		w.PackFrom(block, n*g.Bytes())
	}
	for _, s := range Sets() {
		c, a := make([]float32, 3), make([]float32, 32)
		a[0], a[2] = 1, 3
		s.GemmTable(RowMajor(c, 1, 3, 3), RowMajor(a, 1, 32, 32), w, 0, make([]float32, TableWorkspace(1)))
		if c[0] != 2 || c[1] == c[1] || c[2] != 6 {
			t.Errorf("%s: got %v, want 2, NaN and 6", s.Name(), c)
		}
	}
}
