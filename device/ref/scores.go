package ref

import (
	"math"

	"loadline/graph"
)

func scores[T real](c *call[T], o graph.AttentionSpec) error {
	q, k, out := &c.in[0], &c.in[1], &c.out[0]
	pg := pages(c, o, 2, k.rows())
	for r := range q.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			row := out.row(r*o.Heads + h)
			for i := range row {
				row[i] = T(math.Inf(-1))
			}
			for n, s := range keys {
				row[pg.first+n] = T(float64(o.Scale()) * dot(head(q.row(r), h, o.HeadDim), head(k.row(s), group(o, h), o.HeadDim)))
			}
		}
	}
	return nil
}

func scoresDQ[T real](c *call[T], o graph.AttentionSpec) error {
	ds, k, dq := &c.in[0], &c.in[1], &c.out[0]
	pg := pages(c, o, 2, k.rows())
	sum := make([]float64, o.HeadDim) //mem:ok ref is the definition: it is clear before it is small
	for r := range dq.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			d := ds.row(r*o.Heads + h)
			clear(sum)
			for n, s := range keys {
				for i, a := range head(k.row(s), group(o, h), o.HeadDim) {
					sum[i] += float64(float64(o.Scale()) * float64(d[pg.first+n]) * float64(a))
				}
			}
			store64(head(dq.row(r), h, o.HeadDim), sum)
		}
	}
	return nil
}

func scoresDK[T real](c *call[T], o graph.AttentionSpec) error {
	ds, q, dk := &c.in[0], &c.in[1], &c.out[0]
	return overKeys(c, o, ds, q, dk, float64(o.Scale()))
}

// overKeys is out[key] = Σ over rows that see it and query heads that read it of scale·weight·x, ascending: weight
// (N,H,Context), x (N,H·K) → out (S,G·K). The paging operands begin at 2.
func overKeys[T real](c *call[T], o graph.AttentionSpec, weight, x, out *view[T], scale float64) error {
	pg := pages(c, o, 2, out.rows())
	w := out.last()
	sum := make([]float64, len(out.f)) //mem:ok a sum in the reference's own precision
	for r := range x.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			d := weight.row(r*o.Heads + h)
			for n, s := range keys {
				to := head(sum[s*w:], group(o, h), o.HeadDim)
				for i, a := range head(x.row(r), h, o.HeadDim) {
					to[i] += float64(scale * float64(d[pg.first+n]) * float64(a))
				}
			}
		}
	}
	store64(out.f, sum)
	return nil
}
