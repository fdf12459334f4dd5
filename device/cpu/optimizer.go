package cpu

import (
	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// gradScale is what gradients are multiplied by: the loss scale's inverse times the clip factor.
func gradScale(hyper, scale []float32) float32 {
	g := hyper[graph.HyperGrad]
	if scale != nil {
		g *= scale[0]
	}
	return g
}

// carried makes part of a state's next version begin as the old one where they do not share memory.
func carried(out, in []float32, lo, hi int) []float32 {
	if !same(out, in) {
		copy(out[lo:hi], in[lo:hi])
	}
	return out[lo:hi]
}

// updateFn changes w, elements lo to hi of what an update is of.
type updateFn func(s *Session, w []float32, lo, hi int)

// gradient is what an update of t takes of its gradient.
func (b *binder) gradient(t graph.Target) []float32 {
	g := b.in32(1)
	if p := t.Only; p.N > 0 && g != nil {
		return g[p.At:][:p.N]
	}
	return g
}

// perUpdated is a step that runs f over the elements that an update is of. The rest of the weight stays as it is.
func (b *binder) perUpdated(t graph.Target, f fn) step {
	if t.Only.N == 0 {
		return perElem(b.outType(0), f)
	}
	old, out := b.inF(0), b.outF(0)
	var c copyTask
	return stepFunc(func(s *Session) error {
		s.carryF(&c, out, old)
		s.elems(t.Only.N, f)
		return nil
	})
}

// update is a step that applies f to the weight: in its place where it is f32; to its master, which is then rounded into it; or, where it is
// narrow and has no master, to its widened elements, which are rounded stochastically. Operand i and the last result are the master. Elements
// count from the first that is updated.
func (b *binder) update(t graph.Target, i int, hyper []float32, f updateFn) step {
	old, out := b.inF(0), b.outF(0)
	if p := t.Only; p.N > 0 {
		old, out = old.slice(p.At, p.At+p.N), out.slice(p.At, p.At+p.N)
	}
	master := b.in32(i)
	if t.Ranks > 0 {
		b.wantRanks(t.Ranks)
	}
	rank, _ := b.s.ranks()
	first := t.First(rank)
	switch {
	case master != nil:
		next := b.out32(len(b.in.Out) - 1)
		return b.perUpdated(t, func(s *Session, lo, hi, _ int) {
			w := carried(next, master, lo, hi)
			f(s, w, lo, hi)
			out.put(s, lo, w)
		})
	case t.Key != 0:
		return b.perUpdated(t, func(s *Session, lo, hi, worker int) {
			key := t.StepKey(uint32(hyper[graph.HyperSeedLo]), uint32(hyper[graph.HyperSeedHi]))
			for ; lo < hi; lo += narrowElems {
				n := min(hi, lo+narrowElems) - lo
				c := s.carver(worker)
				w := old.load(s, lo, lo+n, &c)
				f(s, w, lo, lo+n)
				s.set.StochasticBF16(out.h[lo:lo+n], w, key, uint64(first+lo))
			}
		})
	}
	return b.perUpdated(t, func(s *Session, lo, hi, _ int) {
		f(s, carried(out.f, old.f, lo, hi), lo, hi)
	})
}

// updateNeeds is a thread's workspace for an update: a piece of a narrow weight without a master.
func updateNeeds(in *compile.Instr) int64 {
	if in.Out[0].Type.DType == dtype.F32 {
		return 0
	}
	return 4 * int64(takes(narrowElems))
}

func bindAdamW(b *binder, o graph.AdamW) step {
	g, m, v, hyper, scale, mo, vo := b.gradient(o.Target), b.in32(2), b.in32(3), b.in32(4), b.in32(5), b.out32(1), b.out32(2)
	return b.update(o.Target, 6, hyper, func(s *Session, w []float32, lo, hi int) {
		s.set.AdamW(w, carried(mo, m, lo, hi), carried(vo, v, lo, hi), g[lo:hi], kernel.AdamW{
			LR: hyper[graph.HyperLR], Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, WeightDecay: o.Decay,
			Correction1: hyper[graph.HyperBias1], Correction2: hyper[graph.HyperBias2], GradScale: gradScale(hyper, scale),
		})
	})
}

func bindSGD(b *binder, o graph.SGD) step {
	g, buf, hyper, scale := b.gradient(o.Target), b.in32(2), b.in32(3), b.in32(4)
	var bo []float32
	if buf != nil {
		bo = b.out32(1)
	}
	return b.update(o.Target, 5, hyper, func(s *Session, w []float32, lo, hi int) {
		var m []float32
		if buf != nil {
			m = carried(bo, buf, lo, hi)
		}
		lr, k := hyper[graph.HyperLR], gradScale(hyper, scale)
		if !o.Nesterov || m == nil {
			s.set.SGD(w, m, g[lo:hi], lr, o.Momentum, o.Decay, k)
			return
		}
		for i, x := range g[lo:hi] {
			gi := float32(x*k) + float32(o.Decay*w[i])
			m[i] = float32(o.Momentum*m[i]) + gi
			gi += float32(o.Momentum * m[i])
			w[i] -= float32(lr * gi)
		}
	})
}
