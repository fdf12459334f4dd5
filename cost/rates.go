package cost

import (
	"cmp"
	"fmt"
	"math"
	"slices"

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
}

// WorkOf is the work of an operation under b.
func WorkOf(op graph.Op, b graph.Bounds, in, out []graph.Type) Work {
	w := Work{FLOPs: op.FLOPs(b, in, out), Moved: graph.Moved(op, b, in, out)}
	if len(out) > 0 && out[0].Shape.N > 0 {
		w.Rows = float64(out[0].Shape.Lead(b))
	}
	switch o := op.(type) {
	case graph.Rope:
		w.Rows *= float64(o.Heads)
	case graph.Attention:
		w.Rows *= float64(o.Heads)
	case graph.AttentionGrad:
		w.Rows *= float64(o.Heads)
	}
	return w
}

// Rate is the time of one kind of operation: Fixed + flops·FLOP + moved·Byte + rows·Row. No part is negative, so more work never
// takes less time.
type Rate struct {
	Key   string  `json:"key"`
	Fixed float64 `json:"fixed"` // seconds
	FLOP  float64 `json:"flop"`  // seconds a FLOP
	Byte  float64 `json:"byte"`  // seconds a byte
	Row   float64 `json:"row"`   // seconds a row
}

// Seconds is the time of an operation.
func (r Rate) Seconds(w Work) float64 {
	return r.Fixed + w.FLOPs*r.FLOP + w.Moved*r.Byte + w.Rows*r.Row
}

// Rates are a machine's rates.
//
// Invariant: List ascends by Key, and no key is there twice.
type Rates struct {
	List []Rate `json:"list"`
}

// of returns the rate of a kind. What was measured in f32 alone stands for the narrow types.
func (r *Rates) of(k Key) (Rate, bool) {
	for {
		i, ok := slices.BinarySearchFunc(r.List, k.String(), func(x Rate, key string) int { return cmp.Compare(x.Key, key) })
		switch {
		case ok:
			return r.List[i], true
		case k.Type == dtype.F32:
			return Rate{}, false
		}
		k.Type = dtype.F32
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

// fitOne solves min Σ √seconds·(x·a(s)/seconds − 1)² over x ≥ 0 for the four parts of a rate. With so few unknowns the best of the
// solutions over every subset of them that has no negative part is the answer (compare Lawson & Hanson, 1974, chapter 23).
func fitOne(samples []Sample) Rate {
	// Parts in units of their means, which keeps the equations well conditioned.
	var scale [parts]float64
	var all float64                                                                   // of the weights
	rows, goal := make([][parts]float64, len(samples)), make([]float64, len(samples)) //mem:ok a few hundred samples of a kind
	for i, s := range samples {
		goal[i] = math.Sqrt(math.Sqrt(s.Seconds))
		all += goal[i] * goal[i]
		rows[i] = [parts]float64{goal[i] / s.Seconds, goal[i] * s.FLOPs / s.Seconds, goal[i] * s.Moved / s.Seconds, goal[i] * s.Rows / s.Seconds}
		for j, x := range rows[i] {
			scale[j] += x / float64(len(samples))
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
	least := float64(len(samples)) // of the error without its constant, which x = 0 has
	for _, subset := range subsets {
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
	return Rate{Fixed: best[0], FLOP: best[1], Byte: best[2], Row: best[3]}
}

// parts are those of a rate: Fixed, FLOP, Byte, Row, bits of a subset in this order.
const parts = 4

// subsets are all that are not empty, those without the first and the last part before the others: what explains no more is not used, for
// one size alone says nothing of others.
var subsets = [...]int{2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15}

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
