package model

import (
	"fmt"
	"math"

	"loadline/graph"
)

// Param is a weight: a State of the graphs, and its place in published checkpoint files.
type Param struct {
	Name   string     // the State's name: the published tensor's where State and tensor are one
	Type   graph.Type // in the graph's orientation: a matrix is (outputs, inputs), experts are (E, outputs, inputs)
	Init   Init
	Layer  int    // graph.Outside for embeddings, the final norm and the head
	Part   string // the part of the layer that reads it, e.g. "attn.qkv"
	Pieces []Piece
}

// Piece is a part of a Param that lies in one published tensor. A Param has several where a file keeps every expert in a tensor
// of its own; several Params share a tensor where a file keeps projections fused (GPT-2's c_attn).
//
//	elements of the Param                    published tensor Name, row-major, Width columns
//	First + r·Cols + c, r < Rows, c < Cols   row Row+r, column Col+c·Step; or Row+c, Col+r·Step where Transposed
type Piece struct {
	Name       string // published name
	Shape      []int  // of the published tensor
	First      int    // first element in the Param
	Rows, Cols int    // of the piece, in the Param's orientation
	Width      int    // columns of the published tensor
	Row, Col   int    // where the piece begins in the published tensor
	Transposed bool
	Step       int // columns from one element to the next: 2 where two projections are published in turns; 0 is 1
}

// Run is a stretch of a published tensor: N elements from element At on are the elements Range, Range+Stride, … of a
// range of a Param.
type Run struct {
	Piece  int // index in Param.Pieces
	At     int
	Range  int
	Stride int
	N      int
}

// Elems is the number of elements.
func (p Param) Elems() int { return int(p.Type.Shape.Elems(graph.Bounds{})) }

// Runs calls yield for the stretches of published tensors that together are elements at to at+n of p, until yield returns false.
// It is how a file is read or written in the order of the State, through a buffer of any length: where a piece is not transposed a
// range is one run (or one a row, beside other pieces); where it is transposed, a range is one run for each of the published
// tensor's rows that it meets, as long as the range has rows, so a longer buffer makes longer runs.
func (p Param) Runs(at, n int, yield func(Run) bool) {
	end := at + n
	for i := range p.Pieces {
		c := &p.Pieces[i]
		lo, hi := max(at, c.First), min(end, c.First+c.Rows*c.Cols)
		if lo >= hi {
			continue
		}
		base := lo - at
		lo, hi = lo-c.First, hi-c.First // in the piece
		var ok bool
		if c.Transposed {
			ok = c.across(i, lo, hi, base, yield)
		} else {
			ok = c.along(i, lo, hi, base, yield)
		}
		if !ok {
			return
		}
	}
}

// along yields runs of elements that are neighbours on both sides.
func (c *Piece) along(i, lo, hi, base int, yield func(Run) bool) bool {
	if c.Step > 1 {
		for x := lo; x < hi; x++ {
			if !yield(Run{i, (c.Row+x/c.Cols)*c.Width + c.Col + x%c.Cols*c.Step, base + x - lo, 1, 1}) {
				return false
			}
		}
		return true
	}
	if c.Cols == c.Width { // whole rows
		return yield(Run{i, c.Row*c.Width + lo, base, 1, hi - lo})
	}
	for x := lo; x < hi; {
		r, col := x/c.Cols, x%c.Cols
		n := min(hi-x, c.Cols-col)
		if !yield(Run{i, (c.Row+r)*c.Width + c.Col + col, base + x - lo, 1, n}) {
			return false
		}
		x += n
	}
	return true
}

// across yields, for each column of the piece, the elements that the range has of it: neighbours in the file, Cols apart in the
// range.
func (c *Piece) across(i, lo, hi, base int, yield func(Run) bool) bool {
	for col := range c.Cols {
		first := (lo - col + c.Cols - 1) / c.Cols // the first row r with r·Cols+col >= lo
		if lo <= col {
			first = 0
		}
		last := (hi - col + c.Cols - 1) / c.Cols // one past the last
		if hi <= col || last <= first {
			continue
		}
		for r := first; c.Step > 1 && r < last; r++ {
			if !yield(Run{i, (c.Row+col)*c.Width + c.Col + r*c.Step, base + r*c.Cols + col - lo, 1, 1}) {
				return false
			}
		}
		if c.Step > 1 {
			continue
		}
		if !yield(Run{i, (c.Row+col)*c.Width + c.Col + first, base + first*c.Cols + col - lo, c.Cols, last - first}) {
			return false
		}
	}
	return true
}

// initStd is the standard deviation of weights; that of a projection back onto the residual stream is divided by
// √(2·layers) (GPT-2).
const initStd = 0.02

// lister appends parameters, or only counts their elements.
type lister struct {
	out      []Param
	layer    int
	counting bool
	count    float64
}

// add appends a parameter that is a published tensor of the same name and shape.
func (l *lister) add(part, name string, in Init, dims ...int) {
	w := dims[len(dims)-1]
	l.piece(part, name, in, dims, Piece{Name: name, Shape: dims, Rows: elems(dims) / w, Cols: w, Width: w})
}

// within appends a parameter that is rows of a published tensor: from row first on, of all.
func (l *lister) within(part, name, published string, in Init, first, all, rows, cols int) {
	l.piece(part, name, in, []int{rows, cols}, Piece{Name: published, Shape: []int{all, cols}, Rows: rows, Cols: cols, Width: cols, Row: first})
}

// piece appends a parameter with its pieces.
func (l *lister) piece(part, name string, in Init, dims []int, pieces ...Piece) {
	if l.counting {
		l.tally(dims...)
		return
	}
	ds := make([]graph.Dim, len(dims))
	for i, n := range dims {
		ds[i] = graph.D(n)
	}
	l.out = append(l.out, Param{Name: name, Type: graph.F(ds...), Init: in, Layer: l.layer, Part: part, Pieces: pieces})
}

// tally counts elements.
func (l *lister) tally(dims ...int) {
	n := 1.0
	for _, d := range dims {
		n *= float64(d)
	}
	l.count += n
}

func elems(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// experts appends one projection of all experts, published as a tensor an expert.
func (l *lister) experts(part, prefix, w string, in Init, e, rows, cols int) {
	if l.counting {
		l.tally(e, rows, cols)
		return
	}
	pieces := make([]Piece, e)
	for i := range pieces {
		pieces[i] = Piece{
			Name: fmt.Sprintf("%s%d.%s.weight", prefix, i, w), Shape: []int{rows, cols},
			First: i * rows * cols, Rows: rows, Cols: cols, Width: cols,
		}
	}
	l.piece(part, prefix+w, in, []int{e, rows, cols}, pieces...)
}

// starts is how weights start: most, those of a projection back onto the residual stream, and norms.
func (c Config) starts() (std, back, one Init) {
	return Init{Std: initStd}, Init{Std: float32(initStd / math.Sqrt(2*float64(c.NumLayers)))}, Init{Const: 1}
}

// Parameters lists the weights of a valid configuration: the embedding, the layers in order, the final norm, the head.
func (c Config) Parameters() []Param {
	l := &lister{}
	c.family().list(l, c)
	return l.out
}
