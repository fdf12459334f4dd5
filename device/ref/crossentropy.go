package ref

import "math"

func crossEntropy[T real](c *call[T]) error {
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
		sum += l - float64(row[t])
	}
	loss.f[0] = T(sum * float64(weight.f[0]))
	return nil
}

func crossEntropyGrad[T real](c *call[T]) error {
	logits, targets, weight, lse, out := &c.in[0], &c.in[1], &c.in[2], &c.in[3], &c.out[0]
	for r := range logits.rows() {
		if err := lossGrad(out.row(r), logits.row(r), targets.i[r], float64(weight.f[0]), float64(lse.f[r])); err != nil {
			return err
		}
	}
	return nil
}

// lossGrad is weight·(softmax(logits) − onehot(target)), or 0 where the target is negative. Out may be logits.
func lossGrad[T real](out, logits []T, target int32, weight, lse float64) error {
	if target < 0 {
		clear(out)
		return nil
	}
	t, err := index("target", target, len(logits))
	if err != nil {
		return err
	}
	for j, a := range logits {
		p := math.Exp(float64(a) - lse)
		if j == t {
			p--
		}
		out[j] = T(weight * p)
	}
	return nil
}
