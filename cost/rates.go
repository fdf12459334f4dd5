package cost

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"loadline/graph"
	"loadline/tensor/dtype"
)

// Key names what is measured apart: a kind of operation in an element type.
type Key struct {
	Kind string
	Type dtype.Type
}

// String is the key in files and tables, such as "matmul/bf16".
func (k Key) String() string { return fmt.Sprintf("%s/%v", k.Kind, k.Type) }

// Work is what an operation's time is made of.
type Work struct {
	FLOPs float64
	Moved float64 // bytes read and written
	Rows  float64 // short runs of elements that are begun anew: rows of the first result, or rows of each head

	// Of a matrix product, whose sides are packed, each in its own way and as often as the cut of the other wants, and whose sums
	// are carried: the bytes of either side and of the result. They are 0 elsewhere.
	Left, Right, Result float64
}

// WorkOf is the work of an operation under b.
func WorkOf(op graph.Op, b graph.Bounds, in, out []graph.Type) Work {
	w := Work{FLOPs: op.FLOPs(b, in, out), Moved: graph.Moved(op, b, in, out)}
	if len(out) > 0 && out[0].Shape.N > 0 {
		w.Rows = float64(out[0].Shape.Lead(b))
	}
	switch o := op.(type) {
	case graph.MatMul, graph.MatMulDX, graph.MatMulDW, graph.GroupedMatMul, graph.GroupedMatMulDX, graph.GroupedMatMulDW:
		w.Left, w.Right, w.Result = float64(in[0].Bytes(b)), float64(in[1].Bytes(b)), float64(out[0].Bytes(b))
	case graph.Rope:
		w.Rows *= float64(o.Heads)
	case graph.Updater:
		if n := o.Updates().N; n > 0 {
			w.Rows *= float64(n) / float64(in[0].Shape.Elems(b))
		}
	case graph.Attention:
		w.Rows *= float64(o.Heads)
	case graph.AttentionGrad:
		w.Rows *= float64(o.Heads)
	}
	return w
}

// Rate is the time of one kind of operation: a fixed part, and one for each part of its work. No part is negative, so more work never
// takes less time. A matrix product has parts for its sides and its result in place of those for bytes and rows.
type Rate struct {
	Key   string  `json:"key"`
	Fixed float64 `json:"fixed"` // seconds
	FLOP  float64 `json:"flop"`  // seconds a FLOP
	Byte  float64 `json:"byte"`  // seconds a byte
	Far   float64 `json:"far"`   // seconds more a byte beyond what caches near a core hold
	Row   float64 `json:"row"`   // seconds a row

	// Seconds a byte of either side of a product, and of its result.
	Left   float64 `json:"left,omitempty"`
	Right  float64 `json:"right,omitempty"`
	Result float64 `json:"result,omitempty"`
}

// nearBytes is what caches near a core hold, about: bytes that an operation moves beyond them come from further away.
const nearBytes = 4 << 20

// parts is how many parts a rate has: Fixed, FLOP, Byte, Far, Left, Right, Result, Row, bits of a subset in this order.
const parts = 8

// amounts is w by the parts of a rate.
func (w Work) amounts() [parts]float64 {
	if w.Result > 0 {
		return [parts]float64{1, w.FLOPs, 0, 0, w.Left, w.Right, w.Result, 0}
	}
	return [parts]float64{1, w.FLOPs, w.Moved, max(w.Moved-nearBytes, 0), 0, 0, 0, w.Rows}
}

// Parts are the parts of r, in order.
func (r *Rate) Parts() [parts]float64 {
	return [parts]float64{r.Fixed, r.FLOP, r.Byte, r.Far, r.Left, r.Right, r.Result, r.Row}
}

// Seconds is the time of an operation.
func (r Rate) Seconds(w Work) (sum float64) {
	a, p := w.amounts(), r.Parts()
	for i := range p {
		sum += a[i] * p[i]
	}
	return sum
}

// Rates are a machine's rates.
//
// Invariant: List ascends by Key, and no key is there twice.
type Rates struct {
	List []Rate `json:"list"`
}

// of returns the rate of a kind. What was measured in f32 alone stands for the narrow types, and a product without a bias for one with it.
func (r *Rates) of(k Key) (Rate, bool) {
	for first := k.Type; ; {
		i, ok := slices.BinarySearchFunc(r.List, k.String(), func(x Rate, key string) int { return cmp.Compare(x.Key, key) })
		switch {
		case ok:
			return r.List[i], true
		case k.Type != dtype.F32:
			k.Type = dtype.F32
		case strings.HasSuffix(k.Kind, withBias):
			k = Key{strings.TrimSuffix(k.Kind, withBias), first}
		default:
			return Rate{}, false
		}
	}
}

// Sample is one measured operation.
type Sample struct {
	Key Key
	Work
	Seconds float64
}

// Fit finds the rates that are nearest to samples, by least squares of relative errors over the rates without a negative
// part. A sample weighs by the root of its time: what takes long counts more, and lies in the caches as long operations do. The same samples in any order give the same rates. Samples without a time are left out.
func Fit(samples []Sample) *Rates {
	by := map[string][]Sample{}
	var keys []string
	for _, s := range samples {
		if !(s.Seconds > 0) {
			continue
		}
		k := s.Key.String()
		if by[k] == nil {
			keys = append(keys, k)
		}
		by[k] = append(by[k], s)
	}
	slices.Sort(keys)
	r := &Rates{}
	for _, k := range keys {
		slices.SortFunc(by[k], func(a, b Sample) int {
			return cmp.Or(cmp.Compare(a.FLOPs, b.FLOPs), cmp.Compare(a.Moved, b.Moved), cmp.Compare(a.Rows, b.Rows), cmp.Compare(a.Seconds, b.Seconds))
		})
		x := fitOne(by[k])
		x.Key = k
		r.List = append(r.List, x)
	}
	return r
}

// fitOne solves min Σ √seconds·(x·a(s)/seconds − 1)² over x ≥ 0 for the parts of a rate. With so few unknowns the best of the
// solutions over every subset of them that has no negative part is the answer (compare Lawson & Hanson, 1974, chapter 23).
func fitOne(samples []Sample) Rate {
	// Parts in units of their means, which keeps the equations well conditioned.
	var scale [parts]float64
	var all float64                                                                   // of the weights
	rows, goal := make([][parts]float64, len(samples)), make([]float64, len(samples)) //mem:ok a few hundred samples of a kind
	for i, s := range samples {
		goal[i] = math.Sqrt(math.Sqrt(s.Seconds))
		all += goal[i] * goal[i]
		rows[i] = s.amounts()
		for j := range rows[i] {
			rows[i][j] *= goal[i] / s.Seconds
			scale[j] += rows[i][j] / float64(len(samples))
		}
	}
	var gram [parts][parts]float64
	var right [parts]float64
	for i, row := range rows {
		for j := range row {
			if scale[j] > 0 {
				row[j] /= scale[j]
			}
		}
		for j := range row {
			right[j] += row[j] * goal[i]
			for k := range row {
				gram[j][k] += row[j] * row[k]
			}
		}
	}
	var best [parts]float64
	least := all // the error of x = 0
	for n := 1; n < 1<<parts; n++ {
		subset := (n%(1<<(parts-1)))<<1 | n>>(parts-1) // those without a fixed part first, as one size alone says nothing of others
		if subset&12 == 8 {                            // far bytes cost more than others, not alone
			continue
		}
		x, ok := solve(gram, right, subset)
		if !ok {
			continue
		}
		e := all
		for j := range x {
			e -= x[j] * right[j] // at a stationary point the error is the sum of goal² − x·right
		}
		if e < least-1e-9*all {
			least, best = e, x
		}
	}
	for j := range best {
		if scale[j] > 0 {
			best[j] /= scale[j]
		}
	}
	return Rate{Fixed: best[0], FLOP: best[1], Byte: best[2], Far: best[3], Left: best[4], Right: best[5], Result: best[6], Row: best[7]}
}

// solve solves the equations of a subset of the unknowns, bits of subset; the others are 0. It says no where they have no
// clear solution or one with a negative part.
func solve(gram [parts][parts]float64, right [parts]float64, subset int) (x [parts]float64, ok bool) {
	var at []int
	for j := range parts {
		if subset>>j&1 == 1 {
			at = append(at, j)
		}
	}
	n := len(at)
	var a [parts][parts + 1]float64
	for i, p := range at {
		for j, q := range at {
			a[i][j] = gram[p][q]
		}
		a[i][n] = right[p]
	}
	for i := range n { // the matrix is positive semidefinite: no exchanges of rows are needed
		if a[i][i] <= 1e-9*gram[at[i]][at[i]] {
			return x, false
		}
		for k := range n {
			if k == i {
				continue
			}
			f := a[k][i] / a[i][i]
			for j := i; j <= n; j++ {
				a[k][j] -= f * a[i][j]
			}
		}
	}
	for i, p := range at {
		if x[p] = a[i][n] / a[i][i]; !(x[p] >= 0) {
			return x, false
		}
	}
	return x, true
}
