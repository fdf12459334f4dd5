package graph

import (
	"fmt"

	"loadline/mem"
)

// AdafactorMoments is the first half of an Adafactor step (arXiv 1804.04235, as transformers.Adafactor with relative_step and
// scale_parameter off): second moments of a matrix as the moving means of its rows and its columns. g (…,R,C) f32, row (…,R), col (…,C),
// hyper, scale (1) or None → row, col, and the factors r (…,R), c (…,C) of the update: with g' = g·hyper[HyperGrad]·scale and β =
// hyper[HyperDecay2],
//
//	row = β·row + (1−β)·mean over a row of (g'² + 1e-30); col likewise over a column
//	r_i·c_j·g_ij = u_ij / max(1, RMS(u)), where u_ij = g'_ij / √(row_i/mean(row)) / √col_j
//
// RMS is over the whole tensor, the mean of row over one matrix. With one axis, row is the moving mean of every element, col and c are
// None and of no elements, and u = g'/√row. Sums run in f64: along a row, down a column, and over rows in ascending order; r and c are rounded once.
type AdafactorMoments struct{}

// AdafactorUpdate is the second half: w, g, r, c or None, hyper, master or None → w and, with a master, master: w −= lr·Decay·w; w −=
// lr·(g·r·c). On a shard, w, g and the master are of the shard, r and c whole. Cols is C of the whole tensor, and Rows R.
type AdafactorUpdate struct {
	Decay      float32
	Rows, Cols int // of a matrix; both 0 where the weight has one axis
	Target
}

func (AdafactorMoments) Kind() string { return "adafactor_moments" }
func (AdafactorUpdate) Kind() string  { return "adafactor_update" }
func (o AdafactorUpdate) Attrs() string {
	return fmt.Sprintf("decay=%g rows=%d cols=%d", o.Decay, o.Rows, o.Cols) + o.attrs()
}

// AdafactorTypes is the types of a weight's row and column moments; the second is the zero Type where the weight has one axis.
func AdafactorTypes(w Type) (row, col Type) {
	n := w.Shape.N
	if n < 2 {
		return F(w.Shape.Dims[:n]...), Type{}
	}
	cols := append([]Dim(nil), w.Shape.Dims[:n-2]...)
	return F(w.Shape.Dims[:n-1]...), F(append(cols, w.Shape.Dims[n-1])...)
}

func (AdafactorMoments) Outputs(in []Type) []Type {
	row, col := AdafactorTypes(in[0])
	want(in[1] == row && in[2] == col, "adafactor_moments: g %v, row %v, col %v", in[0], in[1], in[2])
	if col.Shape.N == 0 {
		return []Type{row, row}
	}
	return []Type{row, row, col, col}
}
func (o AdafactorUpdate) Outputs(in []Type) []Type {
	want((in[3].Shape.N > 0) == (o.Cols > 0), "adafactor_update: %d columns, factors %v", o.Cols, in[3])
	return o.results("adafactor_update", 5, in)
}
func (AdafactorMoments) FLOPs(b Bounds, in, _ []Type) float64  { return 8 * elems(b, in[0]) }
func (o AdafactorUpdate) FLOPs(b Bounds, in, _ []Type) float64 { return 6 * o.updated(b, in[0]) }
func (AdafactorMoments) Writes() []Alias                       { return []Alias{{0, 1}, {2, 2}} }
func (AdafactorUpdate) Writes() []Alias                        { return []Alias{{0, 0}, {1, 5}} }
func (AdafactorMoments) Purpose(int) mem.Purpose               { return mem.Workspace }

// Scratch holds a sum for every row.
func (AdafactorMoments) Scratch(b Bounds, in, _ []Type) int64 { return in[1].Bytes(b) }

// Traffic counts the gradient three times: for rows, for columns, for the update's mean square.
func (AdafactorMoments) Traffic(b Bounds, in, out []Type) float64 {
	return 3*float64(in[0].Bytes(b)) + 4*float64(in[1].Bytes(b)+in[2].Bytes(b))
}

// OnShard is the same update of a shard.
func (o AdafactorUpdate) OnShard(ranks, elems int) Op {
	o.Ranks, o.Elems = ranks, elems
	return o
}

// OnPiece is the same update of a piece.
func (o AdafactorUpdate) OnPiece(p Piece) Op {
	o.Only = p
	return o
}

// InPlace lets a gathered or sliced weight, and what was fetched, be updated where they lie.
func (o AdafactorUpdate) InPlace() []Alias { return o.Writes() }
