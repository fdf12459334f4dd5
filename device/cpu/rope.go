package cpu

import (
	"math"

	"loadline/compile"
	"loadline/graph"
)

// ropeTable is the cosines and sines of a pass's rows. The rotations of one program that share positions and angles share
// it: the first one in a run fills it.
type ropeTable struct {
	key      ropeKey
	cos, sin []float32 // (N,K/2)
	fresh    bool      // filled in this run
}

type ropeKey struct {
	theta     float64
	turned    int
	divisors  graph.Divisors
	magnitude float64
	pos       int32 // the buffer of positions
}

func ropeKeyOf(o graph.Rope, in *compile.Instr) ropeKey {
	return ropeKey{o.Theta, o.Width(), o.Divisors, o.Magnitude, in.In[1].Buffer}
}

// tables is a program's distinct tables, in order of first use, with the bytes of each.
func ropeTables(p *compile.Program) (keys []ropeKey, bytes []int64) {
next:
	for i := range p.Instrs {
		o, ok := p.Instrs[i].Op.(graph.Rope)
		if !ok {
			continue
		}
		k := ropeKeyOf(o, &p.Instrs[i])
		for _, have := range keys {
			if have == k {
				continue next
			}
		}
		rows := p.Instrs[i].In[1].Type.Shape.Elems(p.Bounds)
		keys, bytes = append(keys, k), append(bytes, 2*graph.RoundUp(4*rows*int64(o.Width()/2)))
	}
	return keys, bytes
}

// ropeNeeds is the bytes of a program's tables.
func ropeNeeds(p *compile.Program) (n int64) {
	_, bytes := ropeTables(p)
	for _, b := range bytes {
		n += b
	}
	return n
}

// table is the instruction's table.
func (b *binder) table(o graph.Rope) *ropeTable {
	if b.x.ropes == nil {
		keys, bytes := ropeTables(b.x.Program)
		at := int64(0)
		for i, k := range keys {
			half := bytes[i] / 8
			b.x.ropes = append(b.x.ropes, &ropeTable{key: k, cos: b.s.shared[at : at+half], sin: b.s.shared[at+half : at+2*half]})
			at += 2 * half
		}
	}
	for _, t := range b.x.ropes {
		if t.key == ropeKeyOf(o, b.in) {
			return t
		}
	}
	panic("cpu: rotation without a table")
}

func bindRope(b *binder, o graph.Rope) step {
	x, pos, out := b.inF(0), b.inInt(1), b.outF(0)
	t, tab := b.outType(0), b.table(o)
	fixed := b.x.Buffers[b.in.In[1].Buffer].Persistent()
	turned, half, d := o.Width(), o.Width()/2, o.Heads*o.HeadDim
	angles, m := o.Frequencies(), o.Factor()
	fill := fn(func(_ *Session, lo, hi, _ int) {
		for i := range half {
			for r := lo; r < hi; r++ {
				sin, cos := math.Sincos(float64(pos[r]) * angles[i])
				tab.cos[r*half+i], tab.sin[r*half+i] = float32(m*cos), float32(m*sin)
			}
		}
	})
	turn := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			cos, sin := tab.cos[r*half:(r+1)*half], tab.sin[r*half:(r+1)*half]
			c := s.carver(worker)
			from, to := x.load(s, r*d, (r+1)*d, &c), out.room(r*d, (r+1)*d, &c)
			for h := 0; h < d; h += o.HeadDim {
				end := h + turned
				copy(to[end:h+o.HeadDim], from[end:h+o.HeadDim])
				if o.Inverse {
					s.set.RopeGrad(to[h:end], from[h:end], cos, sin)
				} else {
					s.set.Rope(to[h:end], from[h:end], cos, sin)
				}
			}
			out.store(s, r*d, (r+1)*d, to)
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if !tab.fresh || !fixed {
			s.rows(n, 64*half, fill)
			tab.fresh = true
		}
		s.rows(n, d, turn)
		return nil
	})
}
