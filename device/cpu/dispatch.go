package cpu

import "loadline/graph"

func bindDispatch(b *binder, o graph.Dispatch) step {
	ids, order, place, offsets := b.inInt(0), b.outInt(0), b.outInt(1), b.outInt(2)
	t := b.inType(0)
	return stepFunc(func(s *Session) error {
		ids := ids[:t.Shape.Elems(s.b)]
		if err := checkIDs("expert", ids, o.Experts, false); err != nil {
			return err
		}
		clear(offsets)
		for _, e := range ids {
			offsets[e+1]++
		}
		for e := range o.Experts {
			offsets[e+1] += offsets[e]
		}
		for pair, e := range ids { // offsets[e] runs from its expert's first place to the next one's
			at := offsets[e]
			offsets[e]++
			order[at], place[pair] = int32(pair), at
		}
		copy(offsets[1:], offsets[:o.Experts])
		offsets[0] = 0
		return nil
	})
}

func bindGatherRows(b *binder, o graph.GatherRows) step {
	x, order, out := b.inF(0), b.inInt(1), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, worker int) {
		for i := lo; i < hi; i++ {
			c := s.carver(worker)
			out.copy(s, i*d, x, int(order[i])/o.TopK*d, d, &c)
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkPlaces("order", order[:n]); err != nil {
			return err
		}
		s.rows(n, d, f)
		return nil
	})
}

func bindGatherRowsGrad(b *binder, o graph.GatherRowsGrad) step {
	dy, place, acc, out := b.inF(0), b.inInt(2), b.inF(3), b.outF(0)
	t := b.outType(0)
	d := t.Shape.Last()
	f := fn(func(s *Session, lo, hi, worker int) {
		for r := lo; r < hi; r++ {
			c := s.carver(worker)
			row := out.room(r*d, (r+1)*d, &c)
			switch {
			case acc.absent():
				clear(row)
			case acc.narrow() || !acc.same(out):
				acc.get(s, r*d, row)
			}
			for _, p := range place[r*o.TopK : (r+1)*o.TopK] {
				c := c
				s.set.Add(row, row, dy.load(s, int(p)*d, int(p)*d+d, &c))
			}
			out.store(s, r*d, (r+1)*d, row)
		}
	})
	return stepFunc(func(s *Session) error {
		n := t.Shape.Lead(s.b)
		if err := checkPlaces("place", place[:n*o.TopK]); err != nil {
			return err
		}
		s.rows(n, d*o.TopK, f)
		return nil
	})
}
