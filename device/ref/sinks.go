package ref

import "math"

func sinkGrad[T real](c *call[T]) error {
	do, o, lse, sinks, acc, out := &c.in[0], &c.in[1], &c.in[2], &c.in[3], c.opt(4), &c.out[0]
	heads := sinks.last()
	k := o.last() / heads
	sum := make([]float64, heads) //mem:ok ref is the definition: it is clear before it is small
	for r := range o.rows() {
		for h := range heads {
			i := r*heads + h
			sum[h] -= math.Exp(float64(sinks.f[h])-float64(lse.f[i])) * dot(head(do.f, i, k), head(o.f, i, k))
		}
	}
	for h := range heads {
		out.f[h] = T(sum[h] + acc.at(h))
	}
	return nil
}

func softmaxSinkGrad[T real](c *call[T]) error {
	dp, p, acc, out := &c.in[0], &c.in[1], c.opt(2), &c.out[0]
	heads := out.last()
	sum := make([]float64, heads) //mem:ok ref is the definition: it is clear before it is small
	for r := range p.rows() {
		rest := 1.0
		for _, x := range p.row(r) {
			rest -= float64(x)
		}
		sum[r%heads] -= rest * dot(dp.row(r), p.row(r))
	}
	for h := range heads {
		out.f[h] = T(sum[h] + acc.at(h))
	}
	return nil
}
