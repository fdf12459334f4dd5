package ref

import "loadline/graph"

func dispatch[T real](c *call[T], o graph.Dispatch) error {
	ids, order, place, offsets := c.in[0].i, c.out[0].i, c.out[1].i, c.out[2].i
	at := int32(0)
	for e := range o.Experts {
		offsets[e] = at
		for pair, id := range ids {
			if _, err := index("expert", id, o.Experts); err != nil {
				return err
			}
			if int(id) == e {
				order[at], place[pair] = int32(pair), at
				at++
			}
		}
	}
	offsets[o.Experts] = at
	return nil
}

func gatherRows[T real](c *call[T], o graph.GatherRows) error {
	x, order, y := &c.in[0], &c.in[1], &c.out[0]
	for i, pair := range order.i {
		p, err := index("pair", pair, x.rows()*o.TopK)
		if err != nil {
			return err
		}
		copy(y.row(i), x.row(p/o.TopK))
	}
	return nil
}

func gatherRowsGrad[T real](c *call[T], o graph.GatherRowsGrad) error {
	dy, place, acc, dx := &c.in[0], &c.in[2], c.opt(3), &c.out[0]
	d := dy.last()
	sum := make([]float64, d) //mem:ok ref is the definition: it is clear before it is small
	for t := range dx.rows() {
		clear(sum)
		for n := range o.TopK {
			p, err := index("place", place.i[t*o.TopK+n], dy.rows())
			if err != nil {
				return err
			}
			for i, a := range dy.row(p) {
				sum[i] += float64(a)
			}
		}
		for i, s := range sum {
			dx.f[t*d+i] = T(acc.at(t*d+i) + s)
		}
	}
	return nil
}
