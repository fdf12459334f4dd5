package kernel

import (
	"fmt"
	"math"

	"loadline/tensor/quant"
)

// TableWeights is a matrix W (N,K) of codes that stand for values of a table, with a float32 scale for each group of elements of a row:
// element (n,k) is float32(scale·value). Of each panel of 16 rows it has, for one group after another,
//
//	┌ 16 scales, f32 ┬ 16 bytes, those of rows 0 to 15, for each element — or for two, the first in the low half ┐
type TableWeights struct {
	Group quant.Group // of a table
	N, K  int
	Data  []byte // TableLen(Group, N, K) bytes
}

// tableBytes is the bytes of 16 rows' groups.
func tableBytes(g quant.Group) int { return QuantPanel * (4 + g.Elems*g.Bits/8) }

// TableLen returns the bytes of W (n,k).
func TableLen(g quant.Group, n, k int) int {
	if g.Table == quant.Integers || g.Elems < 1 || tableK%g.Elems != 0 || k%g.Elems != 0 {
		panic(fmt.Sprintf("kernel: TableLen: rows of %d in groups of %d", k, g.Elems))
	}
	return (n + QuantPanel - 1) / QuantPanel * (k / g.Elems) * tableBytes(g)
}

// PackFrom fills W from src, whole blocks of its rows, one row after another, of which at is the first block's place in bytes. Data begins
// as zeros, which rows beyond N stay. Threads may fill disjoint pieces at once.
func (w TableWeights) PackFrom(src []byte, at int) {
	g := w.Group
	size, row := g.Bytes(), w.K/g.Elems
	if len(w.Data) != TableLen(g, w.N, w.K) || g.Elems > maxGroup || at < 0 || at%size != 0 || len(src)%size != 0 {
		panic("kernel: TableWeights.PackFrom: lengths do not match")
	}
	if (at+len(src))/size > w.N*row {
		panic("kernel: TableWeights.PackFrom: rows outside the matrix")
	}
	var codes [maxGroup]uint8
	for b := at / size; len(src) > 0; b, src = b+1, src[size:] {
		scale, _ := g.Get(codes[:g.Elems], src[:size])
		if g.Table == quant.TableE4M3 && anyNaN(codes[:g.Elems]) {
			scale = float32(math.NaN())
		}
		dst, r := w.group(b/row, b%row), b/row%QuantPanel
		putFloat(dst[4*r:], scale)
		dst = dst[4*QuantPanel:]
		if g.Bits == 8 {
			for k, c := range codes[:g.Elems] {
				dst[QuantPanel*k+r] = c
			}
			continue
		}
		for k := 0; k < g.Elems; k += 2 {
			dst[QuantPanel/2*k+r] = codes[k]&15 | codes[k+1]<<4
		}
	}
}

// group is group i of the panel of row n.
func (w TableWeights) group(n, i int) []byte {
	size := tableBytes(w.Group)
	return w.Data[(n/QuantPanel*(w.K/w.Group.Elems)+i)*size:][:size]
}

// What of W is widened at a time, which then stays in L1: so many elements of so many rows.
const (
	tableK = 128
	tableN = PanelCols
)

// TableWorkspace returns the elements of workspace that GemmTable needs for m rows.
func TableWorkspace(m int) int { return tableK*tableN + GemmWorkspace(m, tableN, tableK) }

// GemmTable computes C (M,N) = A (M,K) · W[n0:n0+N]ᵀ, n0 a multiple of QuantPanel: to the bit what Gemm makes of the elements of W. A and
// C have ColStride 1. ws has at least TableWorkspace(M) elements.
func (s Set) GemmTable(c, a Mat, w TableWeights, n0 int, ws []float32) {
	if len(w.Data) != TableLen(w.Group, w.N, w.K) || a.ColStride != 1 || a.Rows != c.Rows || a.Cols != w.K || len(ws) < TableWorkspace(c.Rows) {
		panic("kernel: GemmTable: lengths do not match")
	}
	c.checkPanels("GemmTable", w.N, n0)
	a.check("GemmTable")
	p := s.t.f32
	wide, ws := ws[:tableK*tableN], ws[tableK*tableN:]
	for n := 0; n < c.Cols; n += tableN {
		n1 := min(n+tableN, c.Cols)
		for k := 0; k < w.K; k += tableK {
			k1 := min(k+tableK, w.K)
			for r := n; r < n1; r += QuantPanel {
				dst := wide[(r-n)/p.n*p.n*(k1-k)+(r-n)%p.n:]
				for i := k; i < k1; i += w.Group.Elems {
					s.widenGroup(dst[(i-k)*p.n:], p.n, w.Group, w.group(n0+r, i/w.Group.Elems))
				}
			}
			p.gemmPacked(c.Slice(0, c.Rows, n, n1), half{}, half{}, a.Slice(0, a.Rows, k, k1).operand(), wide, k1-k, n1-n, 0, k > 0, ws)
		}
	}
}

// anyNaN tells whether one of some codes of E4M3 is NaN. Its row's sums are NaN then, and so may be all of its group.
func anyNaN(codes []uint8) bool {
	for _, c := range codes {
		if c&0x7f == 0x7f {
			return true
		}
	}
	return false
}

// widenGroupGeneric makes the elements of a group of a panel: element k of row r goes to k·stride+r.
func widenGroupGeneric(dst []float32, stride int, g quant.Group, src []byte) {
	var scale [QuantPanel]float32
	for r := range scale {
		scale[r] = float(src[4*r:])
	}
	src = src[4*QuantPanel:]
	if g.Bits == 8 {
		values := (*[256]float32)(g.Table.Values())
		for k := range g.Elems {
			from, to := (*[QuantPanel]byte)(src[QuantPanel*k:]), (*[QuantPanel]float32)(dst[stride*k:])
			for r := range scale {
				to[r] = values[from[r]] * scale[r]
			}
		}
		return
	}
	var values [QuantPanel][16]float32 // by row, times its scale
	table := (*[16]float32)(g.Table.Values())
	for r, s := range scale {
		for i, v := range table {
			values[r][i] = v * s
		}
	}
	for k := 0; k < g.Elems; k += 2 {
		from, even, odd := (*[QuantPanel]byte)(src[QuantPanel/2*k:]), (*[QuantPanel]float32)(dst[stride*k:]), (*[QuantPanel]float32)(dst[stride*(k+1):])
		for r, b := range from {
			even[r], odd[r] = values[r][b&15], values[r][b>>4]
		}
	}
}
