package graph

import (
	"fmt"
	"strings"

	"loadline/tensor/dtype"
)

// Sym is a symbolic dimension.
type Sym uint8

// The symbolic dimensions: Rows is the number of tokens in this pass, Outs the number of rows that need logits.
const (
	Fixed Sym = iota
	Rows
	Outs
)

// Dim is the length of one axis: N, or N × Rows, or N × Outs.
type Dim struct {
	N  int
	Of Sym
}

// Bounds are the largest values of the symbolic dimensions. A training step always runs at its bounds.
type Bounds struct{ Rows, Outs int }

// Len is the axis length under b.
func (d Dim) Len(b Bounds) int {
	switch d.Of {
	case Rows:
		return d.N * b.Rows
	case Outs:
		return d.N * b.Outs
	}
	return d.N
}

// String is "7", "N", "2N", "O".
func (d Dim) String() string {
	s := [...]string{"", "N", "O"}[d.Of]
	if s != "" && d.N == 1 {
		return s
	}
	return fmt.Sprint(d.N) + s
}

// D is a fixed axis, R an axis of n elements per row, O one of n elements per output row.
func D(n int) Dim { return Dim{N: n} }

// R is an axis of n × Rows.
func R(n int) Dim { return Dim{N: n, Of: Rows} }

// O is an axis of n × Outs.
func O(n int) Dim { return Dim{N: n, Of: Outs} }

// MaxDims is the largest number of axes of a value.
const MaxDims = 4

// Shape is the axes of a value, outermost first; unused axes are zero. Shapes compare with ==.
type Shape struct {
	Dims [MaxDims]Dim
	N    int
}

// S makes a shape.
func S(dims ...Dim) Shape {
	var s Shape
	s.N = copy(s.Dims[:], dims)
	if s.N != len(dims) {
		panic("graph: too many dimensions")
	}
	return s
}

// Elems is the number of elements under b.
func (s Shape) Elems(b Bounds) int64 {
	n := int64(1)
	for _, d := range s.Dims[:s.N] {
		n *= int64(d.Len(b))
	}
	return n
}

// Last is the innermost axis length, which is never symbolic in a matrix of rows.
func (s Shape) Last() int {
	if s.N == 0 {
		return 1
	}
	return s.Dims[s.N-1].N
}

// Lead is the product of all axes but the last: the number of rows under b.
func (s Shape) Lead(b Bounds) int {
	n := 1
	for i := range s.N - 1 {
		n *= s.Dims[i].Len(b)
	}
	return n
}

// WithLast returns s with its innermost axis replaced.
func (s Shape) WithLast(n int) Shape {
	s.Dims[s.N-1] = D(n)
	return s
}

// String is "(N,128)".
func (s Shape) String() string {
	var parts []string
	for _, d := range s.Dims[:s.N] {
		parts = append(parts, d.String())
	}
	return "(" + strings.Join(parts, ",") + ")"
}

// Type is an element type with a shape; it compares with ==.
type Type struct {
	DType dtype.Type
	Shape Shape
}

// Bytes is the storage of a value of type t under b, unrounded. A matrix of a block type (outputs, inputs), or one for each expert, lies
// packed; what a file has of it is DType.Bytes of its elements.
func (t Type) Bytes(b Bounds) int64 {
	if t.DType.Block() {
		s := t.Shape
		want(s.N == 2 || s.N == 3, "%v is no matrix", t)
		matrices := int64(1)
		if s.N == 3 {
			matrices = int64(s.Dims[0].Len(b))
		}
		return matrices * t.DType.PackedBytes(int64(s.Dims[s.N-2].Len(b)), int64(s.Last()))
	}
	return t.DType.Bytes(t.Shape.Elems(b))
}

// weighs tells whether t can be the weight of a product of rows x: of x's type, or, where that is f32, of any that weights are stored in.
func (t Type) weighs(x Type) bool {
	if x.Shape.Last() != t.Shape.Last() || t.Shape.Last()%t.DType.BlockElems() != 0 {
		return false
	}
	return x.DType == t.DType && !t.DType.Block() || t.Stores(x)
}

// Stores tells whether t is a weight in a narrower type than the f32 rows x that meet it: the product sums in f32.
func (t Type) Stores(x Type) bool {
	return x.DType == dtype.F32 && (t.DType == dtype.F16 || t.DType == dtype.BF16 || t.DType.Block())
}

// String is "f32(N,128)".
func (t Type) String() string { return t.DType.String() + t.Shape.String() }

// F is an f32 type, I an i32 type.
func F(dims ...Dim) Type { return Type{dtype.F32, S(dims...)} }

// I is an i32 type.
func I(dims ...Dim) Type { return Type{dtype.I32, S(dims...)} }
