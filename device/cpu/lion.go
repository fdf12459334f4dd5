package cpu

import (
	"math"

	"loadline/graph"
)

func bindLion(b *binder, o graph.Lion) step {
	g, m, hyper, scale, mo := b.gradient(o.Target), b.in32(2), b.in32(3), b.in32(4), b.out32(1)
	return b.update(o.Target, 5, hyper, func(_ *Session, w []float32, lo, hi int) {
		m := carried(mo, m, lo, hi)
		lr, k := hyper[graph.HyperLR], gradScale(hyper, scale)
		decay, c1, c2 := float32(lr*o.Decay), 1-o.Beta1, 1-o.Beta2
		for i, x := range g[lo:hi] {
			gi := float32(x * k)
			u := float32(o.Beta1*m[i]) + float32(c1*gi)
			wi := w[i] - float32(decay*w[i])
			step := math.Float32frombits(math.Float32bits(lr) ^ math.Float32bits(u)&(1<<31)) // lr with the sign of u
			if u == 0 {
				step = 0
			} else if u != u {
				step = u
			}
			w[i] = wi - step
			m[i] = float32(o.Beta2*m[i]) + float32(c2*gi)
		}
	})
}
