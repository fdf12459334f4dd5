package ref

import (
	"math"

	"loadline/graph"
)

// rowLoss is the loss of one row of logits.
func rowLoss[T real](l graph.LossTerms, logits []T, t int, lse float64) float64 {
	loss := lse - float64((1-float64(l.Smoothing))*float64(logits[t]))
	if l.Smoothing != 0 {
		var sum float64
		for _, x := range logits {
			sum += float64(x)
		}
		loss -= float64(float64(l.Smoothing) / float64(len(logits)) * sum)
	}
	return loss + float64(float64(l.Z)*lse*lse)
}

func crossEntropy[T real](c *call[T], o graph.CrossEntropy) error {
	logits, targets, weight, loss, lse := &c.in[0], &c.in[1], &c.in[2], &c.out[0], &c.out[1]
	var sum float64
	for r := range logits.rows() {
		row := logits.row(r)
		l := logSumExp(row)
		lse.f[r] = T(l)
		if targets.i[r] < 0 {
			continue
		}
		t, err := index("target", targets.i[r], len(row))
		if err != nil {
			return err
		}
		sum += rowLoss(o.LossTerms, row, t, l)
	}
	loss.f[0] = T(sum * float64(weight.f[0]))
	return nil
}

func crossEntropyGrad[T real](c *call[T], o graph.CrossEntropyGrad) error {
	logits, targets, weight, lse, out := &c.in[0], &c.in[1], &c.in[2], &c.in[3], &c.out[0]
	for r := range logits.rows() {
		if err := lossGrad(o.LossTerms, out.row(r), logits.row(r), targets.i[r], float64(weight.f[0]), float64(lse.f[r])); err != nil {
			return err
		}
	}
	return nil
}

// lossGrad is the gradient of a row's loss, or 0 where the target is negative. Out may be logits.
func lossGrad[T real](l graph.LossTerms, out, logits []T, target int32, weight, lse float64) error {
	if target < 0 {
		clear(out)
		return nil
	}
	t, err := index("target", target, len(logits))
	if err != nil {
		return err
	}
	smoothing := float64(l.Smoothing)
	for j, a := range logits {
		p := float64(math.Exp(float64(a)-lse)*(1+2*float64(l.Z)*lse)) - smoothing/float64(len(logits))
		if j == t {
			p -= 1 - smoothing
		}
		out[j] = T(weight * p)
	}
	return nil
}
