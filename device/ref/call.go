package ref

import (
	"fmt"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor"
)

// view is an operand at the bounds of a run. An absent one is the zero view.
type view[T real] struct {
	on   bool
	typ  graph.Type
	dims [graph.MaxDims]int
	f    []T     // elements of a float value
	i    []int32 // elements of an int32 value
}

// last is the length of the innermost axis.
func (v *view[T]) last() int { return v.dims[v.typ.Shape.N-1] }

// rows is the product of the other axes.
func (v *view[T]) rows() int {
	n := 1
	for _, d := range v.dims[:v.typ.Shape.N-1] {
		n *= d
	}
	return n
}

// row is row r of a float value.
func (v *view[T]) row(r int) []T {
	k := v.last()
	return v.f[r*k : (r+1)*k]
}

// at is element i of a float value, or 0 where the value is absent.
func (v *view[T]) at(i int) float64 {
	if !v.on {
		return 0
	}
	return float64(v.f[i])
}

// call is an instruction about to run.
type call[T real] struct {
	s       *session[T]
	instr   *compile.Instr
	state   string // name of the first operand
	in, out []view[T]
}

// opt is operand i, or the zero view where it is absent or not given.
func (c *call[T]) opt(i int) *view[T] {
	if i < len(c.in) {
		return &c.in[i]
	}
	return &view[T]{}
}

// kernel runs an instruction. Outputs may lie in operands' places as the operation's InPlace says.
type kernel[T real] func(c *call[T]) error

// dot is Σ x·y in float64, ascending.
func dot[T real](x, y []T) float64 {
	var s float64
	for i, a := range x {
		s += float64(float64(a) * float64(y[i]))
	}
	return s
}

// total sums vectors over rows, ascending, from an accumulator on: in float64, rounded to T after every
// tensor.BlockRows rows.
type total[T real] struct {
	sum  []float64
	rows int
}

// newTotal starts a sum of n elements at acc, or at 0 where acc is nil.
func newTotal[T real](n int, acc []T) *total[T] {
	t := &total[T]{sum: make([]float64, n)} //mem:ok a sum in the reference's own precision
	for i, a := range acc {
		t.sum[i] = float64(a)
	}
	return t
}

// next ends a row.
func (t *total[T]) next() {
	if t.rows++; t.rows%tensor.BlockRows == 0 {
		for i, x := range t.sum {
			t.sum[i] = float64(T(x))
		}
	}
}

// into stores the sum.
func (t *total[T]) into(out []T) {
	for i, x := range t.sum {
		out[i] = T(x)
	}
}

// index returns id as an index below n, or an error that names what.
func index(what string, id int32, n int) (int, error) {
	if id < 0 || int(id) >= n {
		return 0, fmt.Errorf("%s %d is not in 0..%d", what, id, n-1)
	}
	return int(id), nil
}
