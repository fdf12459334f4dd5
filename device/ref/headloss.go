package ref

import (
	"math"

	"loadline/graph"
)

// headRow is the logits of a row, rounded as MatMul and SoftCap round them, and the slopes of the softcap where slopes is not nil.
func headRow[T real](logits, h []T, w *view[T], softcap float64, slopes []float64) {
	for j := range logits {
		x := T(dot(h, w.row(j)))
		if softcap > 0 {
			x = T(softcap * math.Tanh(float64(x)/softcap))
			if slopes != nil {
				t := float64(x) / softcap
				slopes[j] = 1 - float64(t*t)
			}
		}
		logits[j] = x
	}
}

func headLoss[T real](c *call[T], o graph.HeadLoss) error {
	h, w, targets, weight, loss := &c.in[0], &c.in[1], &c.in[2], &c.in[3], &c.out[0]
	logits := make([]T, w.rows()) //mem:ok ref is the definition: it is clear before it is small
	var sum float64
	for r := range h.rows() {
		if targets.i[r] < 0 {
			continue
		}
		t, err := index("target", targets.i[r], len(logits))
		if err != nil {
			return err
		}
		headRow(logits, h.row(r), w, o.Softcap, nil)
		sum += rowLoss(o.LossTerms, logits, t, logSumExp(logits))
	}
	loss.f[0] = T(sum * float64(weight.f[0]))
	return nil
}

func headLossGrad[T real](c *call[T], o graph.HeadLossGrad) error {
	h, w, targets, weight, acc := &c.in[0], &c.in[1], &c.in[2], &c.in[3], c.opt(4)
	dh, dw, loss := &c.out[0], &c.out[1], &c.out[2]
	d := h.last()
	logits := make([]T, w.rows())       //mem:ok ref is the definition: it is clear before it is small
	back := make([]float64, d)          //mem:ok ref is the definition: it is clear before it is small
	slopes := make([]float64, w.rows()) //mem:ok ref is the definition: it is clear before it is small
	total := newTotal(len(dw.f), acc.f)
	var sum float64
	for r := range h.rows() {
		row, t := h.row(r), targets.i[r]
		if t < 0 {
			clear(dh.row(r))
			total.next()
			continue
		}
		headRow(logits, row, w, o.Softcap, slopes)
		lse := logSumExp(logits)
		at, err := index("target", t, len(logits))
		if err != nil {
			return err
		}
		sum += rowLoss(o.LossTerms, logits, at, lse)
		if err := lossGrad(o.LossTerms, logits, logits, t, float64(weight.f[0]), float64(T(lse))); err != nil {
			return err
		}
		for j := range logits {
			if o.Softcap > 0 {
				logits[j] = T(float64(logits[j]) * slopes[j])
			}
		}
		roundTo(h.typ.DType, logits) // as the gradient of any activation
		clear(back)
		for j, g := range logits {
			for i, a := range w.row(j) {
				back[i] += float64(float64(g) * float64(a))
				total.sum[j*d+i] += float64(float64(g) * float64(row[i]))
			}
		}
		total.next()
		store64(dh.row(r), back)
	}
	total.into(dw.f)
	loss.f[0] = T(sum * float64(weight.f[0]))
	return nil
}
