package ref

import (
	"math"

	"loadline/graph"
	"loadline/tensor/dtype"
)

// updating is what an update computes on: a master where there is one, else the weight; to holds its new value. It may be where from is. What is not
// updated of the weight is carried over.
type updating[T real] struct {
	from, to []T
	first    int // place of the first element in the whole tensor
	end      func()
}

// only is the elements of x, a weight or its gradient, that an update of t is of.
func only[T real](t graph.Target, x []T) []T {
	if p := t.Only; p.N > 0 {
		return x[p.At:][:p.N]
	}
	return x
}

// updates begins an update whose master would be operand and result i; where there is none the result that it would be is missing.
func updates[T real](c *call[T], t graph.Target, i int, hyper []T) updating[T] {
	if t.Only.N > 0 {
		copy(c.out[0].f, c.in[0].f)
	}
	weight := only(t, c.out[0].f)
	w := updating[T]{from: only(t, c.in[0].f), to: weight, first: t.First(c.s.group.Rank()), end: func() {}}
	switch master := c.opt(i); {
	case master.on:
		w.from, w.to = master.f, c.out[len(c.out)-1].f
		w.end = func() { copy(weight, w.to) } // rounded when stored
	case t.Key != 0:
		key := t.StepKey(uint32(hyper[graph.HyperSeedLo]), uint32(hyper[graph.HyperSeedHi]))
		w.end = func() { roundStochastic(w.to, key, uint64(w.first)) }
	}
	return w
}

// roundStochastic rounds x to bf16: of the neighbours lo and hi, x becomes the one further from zero with the probability
// (|x|-|lo|)/(|hi|-|lo|), to the 2⁻¹⁶ that 16 random bits resolve.
func roundStochastic[T real](x []T, key uint32, first uint64) {
	for i, v := range x {
		if f := float32(v); f == f {
			x[i] = T(dtype.FromBF16(uint16((math.Float32bits(f) + uint32(random16(key, first+uint64(i)))) >> 16)))
		}
	}
}

// random16 is 16 bits of Philox2x32-10 (Salmon et al., SC 2011) for element e of a tensor. Counter c gives those of the elements e with
// e/32·8 + e%16/2 = c.
func random16(key uint32, e uint64) uint16 {
	c := e/32*8 + e%16/2
	lo, hi := uint32(c), uint32(c>>32)
	for range 10 {
		p := uint64(lo) * 0xD256D193
		lo, hi = uint32(p>>32)^key^hi, uint32(p)
		key += 0x9E3779B9
	}
	if e%2 == 1 {
		lo = hi
	}
	if e/16%2 == 1 {
		lo >>= 16
	}
	return uint16(lo)
}

// adamW computes in T, rounding every operation. An explicit conversion keeps products from being fused.
func adamW[T real](c *call[T], o graph.AdamW) error {
	g, m, v, hyper := only(o.Target, c.in[1].f), c.in[2].f, c.in[3].f, c.in[4].f
	w := updates(c, o.Target, 6, hyper)
	factor := gradFactor(c, 5, hyper)
	lr, b1, b2 := hyper[graph.HyperLR], T(o.Beta1), T(o.Beta2)
	step, root := lr/hyper[graph.HyperBias1], sqrt(hyper[graph.HyperBias2])
	for i, x := range w.from {
		gi := g[i] * factor
		wi := x - T(T(lr*T(o.Decay))*x)
		mi := T(b1*m[i]) + T((1-b1)*gi)
		vi := T(b2*v[i]) + T(T((1-b2)*gi)*gi)
		w.to[i] = wi - T(step*mi)/(sqrt(vi)/root+T(o.Eps))
		c.out[1].f[i], c.out[2].f[i] = mi, vi
	}
	w.end()
	return nil
}

// sgd computes in T, rounding every operation.
func sgd[T real](c *call[T], o graph.SGD) error {
	g, buf, hyper := only(o.Target, c.in[1].f), &c.in[2], c.in[3].f
	w := updates(c, o.Target, 5, hyper)
	factor := gradFactor(c, 4, hyper)
	lr := hyper[graph.HyperLR]
	for i, x := range w.from {
		gi := T(g[i]*factor) + T(T(o.Decay)*x)
		if buf.on {
			bi := T(T(o.Momentum)*buf.f[i]) + gi
			c.out[1].f[i] = bi
			if o.Nesterov {
				gi += T(T(o.Momentum) * bi)
			} else {
				gi = bi
			}
		}
		w.to[i] = x - T(lr*gi)
	}
	w.end()
	return nil
}

// gradFactor is what gradients are multiplied by: the hyper input's factor, and operand i where it is present.
func gradFactor[T real](c *call[T], i int, hyper []T) T {
	f := hyper[graph.HyperGrad]
	if s := c.opt(i); s.on {
		f *= s.f[0]
	}
	return f
}

func sqrt[T real](x T) T { return T(math.Sqrt(float64(x))) }
