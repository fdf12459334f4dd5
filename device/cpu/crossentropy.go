package cpu

import (
	"math"

	"loadline/graph"
	"loadline/tensor"
)

// pieceElems is the logits that are exponentiated at a time where they must stay as they are.
const pieceElems = 4096

// sumBlocks adds row losses in blocks of 128 rows, ascending, in float64.
func sumBlocks(losses []float32) float64 {
	var sum float64
	for lo := 0; lo < len(losses); lo += tensor.BlockRows {
		var block float64
		for _, v := range losses[lo:min(lo+tensor.BlockRows, len(losses))] {
			block += float64(v)
		}
		sum += block
	}
	return sum
}

// rowLoss is the loss of a row of logits whose log-sum-exp is lse; sum is of the logits, where there is smoothing.
func rowLoss(l graph.LossTerms, lse, target, sum float64, v int) float32 {
	if l == (graph.LossTerms{}) {
		return float32(lse - target)
	}
	eps := float64(l.Smoothing)
	return float32(lse - float64((1-eps)*target) - float64(eps/float64(v)*sum) + float64(float64(l.Z)*lse*lse))
}

// lossGrad makes the gradient of a row of its probabilities.
func (s *Session) lossGrad(l graph.LossTerms, row []float32, target int32, weight float32, lse float64) {
	if l == (graph.LossTerms{}) {
		s.set.Scale(row, weight, row)
		row[target] -= weight
		return
	}
	s.set.Scale(row, float32(float64(weight)*(1+2*float64(l.Z)*lse)), row)
	if eps := float64(l.Smoothing); eps != 0 {
		each := float32(float64(weight) * eps / float64(len(row)))
		for i := range row {
			row[i] -= each
		}
	}
	row[target] -= float32(float64(weight) * (1 - float64(l.Smoothing)))
}

func bindCrossEntropy(b *binder, o graph.CrossEntropy) step {
	x, targets, weight, losses := b.in32(0), b.inInt(1), b.in32(2), b.scratch32()
	loss, lse := b.out32(0), b.out32(1)
	t := b.inType(0)
	v := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, worker int) {
		tmp := s.worker[worker][:pieceElems]
		for r := lo; r < hi; r++ {
			row := x[r*v : (r+1)*v]
			top := s.set.Max(row)
			var sum float64
			for i := 0; i < v; i += pieceElems {
				n := min(pieceElems, v-i)
				sum += s.set.ExpShift(tmp[:n], row[i:i+n], top)
			}
			l := float64(top) + math.Log(sum)
			if lse != nil {
				lse[r] = float32(l)
			}
			losses[r] = 0
			if k := targets[r]; k >= 0 {
				var all float64
				if o.Smoothing != 0 {
					all = s.set.Sum(row)
				}
				losses[r] = rowLoss(o.LossTerms, l, float64(row[k]), all, v)
			}
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("target", targets[:n], v, true); err != nil {
			return err
		}
		s.rows(n, v, f)
		if loss != nil {
			loss[0] = float32(sumBlocks(losses[:n]) * float64(weight[0]))
		}
		return nil
	})
}

func bindCrossEntropyGrad(b *binder, o graph.CrossEntropyGrad) step {
	x, targets, weight, lse, out := b.in32(0), b.inInt(1), b.in32(2), b.in32(3), b.out32(0)
	t := b.inType(0)
	v := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, _ int) {
		for r := lo; r < hi; r++ {
			row := out[r*v : (r+1)*v]
			k := targets[r]
			if k < 0 {
				clear(row)
				continue
			}
			s.set.ExpShift(row, x[r*v:(r+1)*v], lse[r])
			s.lossGrad(o.LossTerms, row, k, weight[0], float64(lse[r]))
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("target", targets[:n], v, true); err != nil {
			return err
		}
		s.rows(n, v, f)
		return nil
	})
}
