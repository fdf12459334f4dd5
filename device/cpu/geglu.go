package cpu

import (
	"loadline/compile"
	"loadline/graph"
)

// gelu is one of the two kernels of gelu.
func (s *Session) gelu(out, x []float32, tanh bool) {
	if tanh {
		s.set.GeluTanh(out, x)
	} else {
		s.set.Gelu(out, x)
	}
}

// geGLUNeeds is a thread's workspace: beside what narrow operands take, one piece, and for the gradient two.
func geGLUNeeds(in *compile.Instr) int64 {
	return narrowNeeds(in) + 4*int64(takes(narrowElems)*len(in.Out))
}

// inPieces is a step that runs f over the elements of a value of type t, so many at a time that a piece fits into workspace.
func inPieces(t graph.Type, f pieceFn) step {
	return perElem(t, func(s *Session, lo, hi, worker int) {
		for ; lo < hi; lo += narrowElems {
			f(s, lo, min(hi, lo+narrowElems), s.carver(worker))
		}
	})
}

// bindGeGLU takes workspace for gelu(gate): the result may lie in the place of up.
func bindGeGLU(b *binder, o graph.GeGLU) step {
	gate, up, out := b.inF(0), b.inF(1), b.outF(0)
	return inPieces(b.outType(0), func(s *Session, lo, hi int, c carver) {
		to, act := out.room(lo, hi, &c), c.take(hi-lo)
		s.gelu(act, gate.load(s, lo, hi, &c), o.Tanh)
		s.set.Mul(to, act, up.load(s, lo, hi, &c))
		out.store(s, lo, hi, to)
	})
}

// bindGeGLUGrad makes both results before it stores one: each may lie in the place of an operand.
func bindGeGLUGrad(b *binder, o graph.GeGLUGrad) step {
	da, gate, up, dgate, dup := b.inF(0), b.inF(1), b.inF(2), b.outF(0), b.outF(1)
	return inPieces(b.outType(0), func(s *Session, lo, hi int, c carver) {
		d, g, u := da.load(s, lo, hi, &c), gate.load(s, lo, hi, &c), up.load(s, lo, hi, &c)
		dg, du := c.take(hi-lo), c.take(hi-lo)
		s.set.Mul(dg, d, u)
		if o.Tanh {
			s.set.GeluTanhGrad(dg, dg, g)
		} else {
			s.set.GeluGrad(dg, dg, g)
		}
		s.gelu(du, g, o.Tanh)
		s.set.Mul(du, du, d)
		dgate.put(s, lo, dg)
		dup.put(s, lo, du)
	})
}
