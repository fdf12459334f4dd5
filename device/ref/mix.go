package ref

import "loadline/graph"

func mix[T real](c *call[T], o graph.AttentionSpec) error {
	p, v, out := &c.in[0], &c.in[1], &c.out[0]
	pg := pages(c, o, 2, v.rows())
	sum := make([]float64, o.HeadDim) //mem:ok ref is the definition: it is clear before it is small
	for r := range out.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			pr := p.row(r*o.Heads + h)
			clear(sum)
			for n, s := range keys {
				for i, a := range head(v.row(s), group(o, h), o.HeadDim) {
					sum[i] += float64(float64(pr[pg.first+n]) * float64(a))
				}
			}
			store64(head(out.row(r), h, o.HeadDim), sum)
		}
	}
	return nil
}

func mixDP[T real](c *call[T], o graph.AttentionSpec) error {
	do, v, dp := &c.in[0], &c.in[1], &c.out[0]
	pg := pages(c, o, 2, v.rows())
	for r := range do.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			row := dp.row(r*o.Heads + h)
			clear(row)
			for n, s := range keys {
				row[pg.first+n] = T(dot(head(do.row(r), h, o.HeadDim), head(v.row(s), group(o, h), o.HeadDim)))
			}
		}
	}
	return nil
}

func mixDV[T real](c *call[T], o graph.AttentionSpec) error {
	do, p, dv := &c.in[0], &c.in[1], &c.out[0]
	return overKeys(c, o, p, do, dv, 1)
}
