package ref

import (
	"math"

	"loadline/graph"
)

func attentionProbs[T real](c *call[T], o graph.AttentionSpec) error {
	q, k, sinks, out := &c.in[0], &c.in[1], c.opt(5), &c.out[0]
	pg := pages(c, o, 2, k.rows())
	var scores []float64
	for r := range q.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			scores = scores[:0]
			for _, s := range keys {
				scores = append(scores, float64(o.Scale())*dot(head(q.row(r), h, o.HeadDim), head(k.row(s), group(o, h), o.HeadDim)))
			}
			lse := logSumExp(scores)
			if sinks.on {
				lse = withSink(lse, float64(sinks.f[h]))
			}
			row := out.row(r*o.Heads + h)
			clear(row)
			for n, x := range scores {
				row[pg.first+n] = T(math.Exp(x - lse))
			}
		}
	}
	return nil
}
