package cost

import (
	"cmp"
	"fmt"
	"slices"

	"loadline/tensor/dtype"
)

// Key names what is measured apart: a kind of operation in an element type.
type Key struct {
	Kind string
	Type dtype.Type
}

// String is the key in files and tables, such as "matmul/bf16".
func (k Key) String() string { return fmt.Sprintf("%s/%v", k.Kind, k.Type) }

// Rate is the time of one kind of operation: Fixed + flops·FLOP + moved·Byte. No part is negative, so more work never
// takes less time.
type Rate struct {
	Key   string  `json:"key"`
	Fixed float64 `json:"fixed"` // seconds
	FLOP  float64 `json:"flop"`  // seconds a FLOP
	Byte  float64 `json:"byte"`  // seconds a byte
}

// Seconds is the time of an operation.
func (r Rate) Seconds(flops, moved float64) float64 { return r.Fixed + flops*r.FLOP + moved*r.Byte }

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
	Key          Key
	FLOPs, Moved float64
	Seconds      float64
}

// Fit finds the rates that are nearest to samples in relative error, by least squares over the rates without a negative
// part. The same samples in any order give the same rates. Samples without a time are left out.
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
			return cmp.Or(cmp.Compare(a.FLOPs, b.FLOPs), cmp.Compare(a.Moved, b.Moved), cmp.Compare(a.Seconds, b.Seconds))
		})
		x := fitOne(by[k])
		x.Key = k
		r.List = append(r.List, x)
	}
	return r
}

// fitOne solves min Σ (x·a(s)/seconds − 1)² over x ≥ 0 for the three parts of a rate. With three unknowns the best of the
// solutions over every subset of them that has no negative part is the answer (compare Lawson & Hanson, 1974, chapter 23).
func fitOne(samples []Sample) Rate {
	// Parts in units of their means, which keeps the equations well conditioned.
	var scale [3]float64
	rows := make([][3]float64, len(samples))
	for i, s := range samples {
		rows[i] = [3]float64{1 / s.Seconds, s.FLOPs / s.Seconds, s.Moved / s.Seconds}
		for j, x := range rows[i] {
			scale[j] += x / float64(len(samples))
		}
	}
	var gram [3][3]float64
	var right [3]float64
	for _, row := range rows {
		for j := range row {
			if scale[j] > 0 {
				row[j] /= scale[j]
			}
		}
		for j := range row {
			right[j] += row[j]
			for k := range row {
				gram[j][k] += row[j] * row[k]
			}
		}
	}
	var best [3]float64
	least := float64(len(samples))                      // of the error without its constant, which x = 0 has
	for _, subset := range []int{2, 4, 6, 1, 3, 5, 7} { // a fixed part only where it explains more: one size alone says nothing of others
		x, ok := solve(gram, right, subset)
		if !ok {
			continue
		}
		e := float64(len(samples))
		for j := range x {
			e -= x[j] * right[j] // at a stationary point the error is n − x·right
		}
		if e < least-1e-9 {
			least, best = e, x
		}
	}
	for j := range best {
		if scale[j] > 0 {
			best[j] /= scale[j]
		}
	}
	return Rate{Fixed: best[0], FLOP: best[1], Byte: best[2]}
}

// solve solves the equations of a subset of the unknowns, bits of subset; the others are 0. It says no where they have no
// clear solution or one with a negative part.
func solve(gram [3][3]float64, right [3]float64, subset int) (x [3]float64, ok bool) {
	var at []int
	for j := range 3 {
		if subset>>j&1 == 1 {
			at = append(at, j)
		}
	}
	n := len(at)
	var a [3][4]float64
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
