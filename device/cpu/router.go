package cpu

import (
	"math"
	"slices"

	"loadline/graph"
)

func bindRouter(b *binder, o graph.Router) step {
	logits, weights, ids := b.in32(0), b.out32(0), b.outInt(1)
	t := b.inType(0)
	e := t.Shape.Last()
	return perRow(t, func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			row := logits[r*e : (r+1)*e]
			w, id := weights[r*o.TopK:(r+1)*o.TopK], ids[r*o.TopK:(r+1)*o.TopK]
			topK(w, id, row)
			if !o.All {
				s.set.Softmax(w)
				continue
			}
			top := float64(w[0])
			z := routed(row, top)
			for i, x := range w {
				w[i] = float32(math.Exp(float64(x)-top) / z)
			}
		}
	})
}

// routed is what softmax over all experts divides by, with the largest logit known.
func routed(row []float32, top float64) (z float64) {
	for _, x := range row {
		z += math.Exp(float64(x) - top)
	}
	return z
}

// topK puts the largest of row and their places in w and id, largest first; of equal ones the lower place first. NaN counts
// as -Inf.
func topK(w []float32, id []int32, row []float32) {
	for k := range w {
		best := -1
	next:
		for i := range row {
			for _, taken := range id[:k] {
				if int(taken) == i {
					continue next
				}
			}
			if best < 0 || rank(row[i]) > rank(row[best]) {
				best = i
			}
		}
		w[k], id[k] = row[best], int32(best)
	}
}

func rank(v float32) float32 {
	if v != v {
		return float32(math.Inf(-1))
	}
	return v
}

func bindRouterGrad(b *binder, o graph.RouterGrad) step {
	dw, weights, ids, out := b.in32(0), b.in32(1), b.inInt(2), b.out32(0)
	t := b.inType(0)
	k, e := t.Shape.Last(), o.Experts
	var logits []float32
	if o.All {
		logits = b.in32(3)
	}
	f := fn(func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			w, g, to := weights[r*k:(r+1)*k], dw[r*k:(r+1)*k], out[r*e:(r+1)*e]
			d := float32(s.set.SumMul(g, w))
			clear(to)
			if o.All {
				row := logits[r*e : (r+1)*e]
				top := float64(slices.Max(row))
				z := routed(row, top)
				for j, x := range row {
					to[j] = -float32(math.Exp(float64(x)-top)/z) * d
				}
			}
			for i, id := range ids[r*k : (r+1)*k] {
				to[id] = w[i] * (g[i] - d)
			}
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("expert", ids[:n*k], e, false); err != nil {
			return err
		}
		s.rows(n, e, f)
		return nil
	})
}
