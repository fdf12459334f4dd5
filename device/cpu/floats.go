package cpu

import (
	"fmt"

	"loadline/compile"
	"loadline/mem/arena"
	"loadline/tensor/dtype"
)

// floats is the elements of a float operand in their storage type: f of f32, h of bf16 or f16. The zero value is an absent
// operand. Everything is computed in f32: narrow elements are widened into a thread's workspace, a piece or a row at a
// time, and rounded once, to nearest even, when the operation stores them.
type floats struct {
	t dtype.Type
	f []float32
	h []uint16
}

// narrowElems is the elements of a piece of narrow operands: those of an operation stay in L2.
const narrowElems = 2048

func (x floats) absent() bool { return x.f == nil && x.h == nil }
func (x floats) narrow() bool { return x.t != dtype.F32 }
func (x floats) len() int     { return len(x.f) + len(x.h) }

// slice is elements lo to hi; of nothing, nothing.
func (x floats) slice(lo, hi int) floats {
	switch {
	case x.absent():
		return x
	case x.narrow():
		return floats{t: x.t, h: x.h[lo:hi]}
	}
	return floats{f: x.f[lo:hi]}
}

// same tells whether x and y begin at one address.
func (x floats) same(y floats) bool {
	if x.narrow() {
		return len(x.h) > 0 && len(y.h) > 0 && &x.h[0] == &y.h[0]
	}
	return same(x.f, y.f)
}

// load is elements lo to hi as f32: themselves, or widened into what it takes of c.
func (x floats) load(s *Session, lo, hi int, c *carver) []float32 {
	if !x.narrow() {
		return x.f[lo:hi]
	}
	buf := c.take(hi - lo)
	s.widen(x.t, buf, x.h[lo:hi])
	return buf
}

// room is where to compute elements lo to hi: their place, or what it takes of c.
func (x floats) room(lo, hi int, c *carver) []float32 {
	if !x.narrow() {
		return x.f[lo:hi]
	}
	return c.take(hi - lo)
}

// store puts what was computed in room where it belongs.
func (x floats) store(s *Session, lo, hi int, from []float32) {
	if x.narrow() {
		s.round(x.t, x.h[lo:hi], from)
	}
}

// put writes n elements from at on, which lie elsewhere.
func (x floats) put(s *Session, at int, from []float32) {
	if x.narrow() {
		s.round(x.t, x.h[at:at+len(from)], from)
		return
	}
	copy(x.f[at:], from)
}

// get is put's reverse.
func (x floats) get(s *Session, at int, to []float32) {
	if x.narrow() {
		s.widen(x.t, to, x.h[at:at+len(to)])
		return
	}
	copy(to, x.f[at:])
}

// copy copies n elements of y from b on to a on; between types through what it takes of c.
func (x floats) copy(s *Session, a int, y floats, b, n int, c *carver) {
	switch {
	case x.t != y.t:
		x.put(s, a, y.load(s, b, b+n, c))
	case x.narrow():
		copy(x.h[a:a+n], y.h[b:])
	default:
		copy(x.f[a:a+n], y.f[b:])
	}
}

// clear makes elements lo to hi 0.
func (x floats) clear(lo, hi int) {
	if x.narrow() {
		clear(x.h[lo:hi])
		return
	}
	clear(x.f[lo:hi])
}

// fill makes elements lo to hi v.
func (x floats) fill(lo, hi int, v float32) {
	if x.narrow() {
		one := dtype.ToF16(v)
		if x.t == dtype.BF16 {
			one = dtype.ToBF16(v)
		}
		for i := lo; i < hi; i++ {
			x.h[i] = one
		}
		return
	}
	for i := lo; i < hi; i++ {
		x.f[i] = v
	}
}

// widen makes f32 of a narrow type, exactly.
func (s *Session) widen(t dtype.Type, out []float32, x []uint16) {
	if t == dtype.BF16 {
		s.set.WidenBF16(out, x)
		return
	}
	s.set.WidenF16(out, x)
}

// round rounds f32 to a narrow type, to nearest even.
func (s *Session) round(t dtype.Type, out []uint16, x []float32) {
	if t == dtype.BF16 {
		s.set.RoundBF16(out, x)
		return
	}
	s.set.RoundF16(out, x)
}

// floats resolves o, whose elements must be floats that can be computed with.
func (b *binder) floats(o compile.Operand) floats {
	p := b.bytes(o)
	if b.err != nil || o.Buffer < 0 {
		return floats{}
	}
	switch t := o.Type.DType; t {
	case dtype.F32:
		return floats{f: arena.F32(p)}
	case dtype.BF16, dtype.F16:
		return floats{t: t, h: arena.U16(p)}
	default:
		b.err = fmt.Errorf("want elements of f32, bf16 or f16, got %v", o.Type)
		return floats{}
	}
}

// inF and outF are an operand and a result of any float type; absent ones are the zero floats.
func (b *binder) inF(i int) floats {
	if i >= len(b.in.In) {
		return floats{}
	}
	return b.floats(b.in.In[i])
}

func (b *binder) outF(i int) floats {
	if i >= len(b.in.Out) {
		return floats{}
	}
	return b.floats(b.in.Out[i])
}

// isNarrow tells whether elements of t need widening.
func isNarrow(t dtype.Type) bool { return t == dtype.BF16 || t == dtype.F16 }

// anyNarrow tells whether an operand or a result of in is narrow.
func anyNarrow(in *compile.Instr) bool { return narrowNeeds(in) > 0 }

// narrowNeeds is a thread's workspace, in bytes, to hold a piece or a row of every narrow operand and result.
func narrowNeeds(in *compile.Instr) (n int64) {
	for _, os := range [2][]compile.Operand{in.In, in.Out} {
		for _, o := range os {
			if o.Buffer >= 0 && isNarrow(o.Type.DType) {
				n += 4 * int64(takes(max(narrowElems, o.Type.Shape.Last())))
			}
		}
	}
	return n
}

// pieceFn computes elements lo to hi, with c to take workspace from where operands are narrow.
type pieceFn func(s *Session, lo, hi int, c carver)

// perPiece is a step that runs f over the elements of a value of type t: in pieces where an operand is narrow.
func (b *binder) perPiece(o compile.Operand, f pieceFn) step {
	if !anyNarrow(b.in) {
		return perElem(o.Type, func(s *Session, lo, hi, _ int) { f(s, lo, hi, nil) })
	}
	return perElem(o.Type, func(s *Session, lo, hi, worker int) {
		for ; lo < hi; lo += narrowElems {
			f(s, lo, min(hi, lo+narrowElems), s.carver(worker))
		}
	})
}
