package cpu

import (
	"loadline/graph"
)

func bindKVAppend(b *binder) step {
	pool, x, slots, out := b.pool(b.in.In[0]), b.inF(1), b.inInt(2), b.pool(b.in.Out[0])
	pt, t := b.inType(0), b.inType(1)
	d := t.Shape.Last()
	var cp copyTask
	f := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			if k := int(slots[r]); k >= 0 {
				c := s.carver(worker)
				if out.b != nil {
					out.write(k*d, x.load(s, r*d, (r+1)*d, &c))
				} else {
					out.plain.copy(s, k*d, x, r*d, d, &c)
				}
			}
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkIDs("slot", slots[:n], pt.Shape.Lead(s.b), true); err != nil {
			return err
		}
		s.carryPool(&cp, &out, &pool)
		s.rows(n, d, f)
		return nil
	})
}

func bindKVCopy(b *binder, o graph.KVCopy) step {
	pool, pairs, out := b.pool(b.in.In[0]), b.inInt(1), b.pool(b.in.Out[0])
	pt, t := b.inType(0), b.inType(1)
	n := o.Block * pt.Shape.Last()
	var c copyTask
	return stepFunc(func(s *Session) error {
		blocks := pt.Shape.Lead(s.b) / o.Block
		s.carryPool(&c, &out, &pool)
		for i := range t.Shape.Lead(s.b) {
			from, to := pairs[2*i], pairs[2*i+1]
			if from < 0 {
				break
			}
			if int(from) >= blocks {
				return idError("source block", i, from, blocks)
			}
			if to < 0 || int(to) >= blocks {
				return idError("destination block", i, to, blocks)
			}
			out.move(s, int(to)*n, int(from)*n, n)
		}
		return nil
	})
}
