package ref

import "math"

func softmax[T real](c *call[T]) error {
	x, sinks, p := &c.in[0], c.opt(1), &c.out[0]
	for r := range x.rows() {
		row, out := x.row(r), p.row(r)
		lse := logSumExp(row)
		if sinks.on {
			lse = withSink(lse, float64(sinks.f[r%sinks.last()]))
		}
		for i, a := range row {
			out[i] = T(math.Exp(float64(a) - lse))
		}
	}
	return nil
}

func softmaxGrad[T real](c *call[T]) error {
	dp, p, ds := &c.in[0], &c.in[1], &c.out[0]
	for r := range p.rows() {
		d, pr, out := dp.row(r), p.row(r), ds.row(r)
		s := dot(d, pr)
		for i, a := range pr {
			out[i] = T(float64(a) * (float64(d[i]) - s))
		}
	}
	return nil
}

// withSink is lse with one more element.
func withSink(lse, sink float64) float64 {
	top := max(lse, sink)
	return top + math.Log(math.Exp(lse-top)+math.Exp(sink-top))
}

// logSumExp is log Σ exp x.
func logSumExp[T real](x []T) float64 {
	top := math.Inf(-1)
	for _, a := range x {
		top = max(top, float64(a))
	}
	var z float64
	for _, a := range x {
		z += math.Exp(float64(a) - top)
	}
	return top + math.Log(z)
}
