package ref

import (
	"fmt"
	"math"

	"loadline/graph"
)

// paging resolves the keys that rows see.
type paging struct {
	spec        graph.AttentionSpec
	table       []int32 // (seqs, width)
	seqs, width int
	seq, pos    []int32
	slots       int // of the keys' and values' pool
	keys        []int
	first       int // position of keys[0]
}

// pages reads the paging operands from in[at] on; pool has so many slots.
func pages[T real](c *call[T], spec graph.AttentionSpec, at, slots int) *paging {
	t := &c.in[at]
	return &paging{spec: spec, table: t.i, seqs: t.dims[0], width: t.dims[1], seq: c.in[at+1].i, pos: c.in[at+2].i, slots: slots}
}

// row returns the slots of the positions that row r sees of its sequence, valid until the next call. The first is p.first.
func (p *paging) row(r int) ([]int, error) {
	s, err := index("sequence", p.seq[r], p.seqs)
	if err != nil {
		return nil, err
	}
	last, err := index("position", p.pos[r], p.spec.Context)
	if err != nil {
		return nil, err
	}
	if last/p.spec.Block >= p.width {
		return nil, fmt.Errorf("position %d is beyond the %d blocks of %d of sequence %d", last, p.width, p.spec.Block, s)
	}
	p.keys, p.first = p.keys[:0], p.spec.First(last)
	for at := range last + 1 {
		b := p.table[s*p.width+at/p.spec.Block]
		slot := int(b)*p.spec.Block + at%p.spec.Block
		if b < 0 || slot >= p.slots {
			return nil, fmt.Errorf("block %d of sequence %d at position %d is not among %d slots", b, s, at, p.slots)
		}
		if at >= p.first {
			p.keys = append(p.keys, slot)
		}
	}
	return p.keys, nil
}

// head is head h of a row of heads of width k.
func head[T any](row []T, h, k int) []T { return row[h*k : (h+1)*k] }

// group is the key/value head that query head h reads.
func group(s graph.AttentionSpec, h int) int { return h / (s.Heads / s.KVHeads) }

// capped is a scaled score under the softcap, and its slope there.
func capped(o graph.AttentionSpec, x float64) (y, slope float64) {
	if o.Softcap == 0 {
		return x, 1
	}
	t := math.Tanh(x / o.Softcap)
	return o.Softcap * t, 1 - float64(t*t)
}

func attention[T real](c *call[T], o graph.AttentionSpec) error {
	q, k, v, sinks, out, lse := &c.in[0], &c.in[1], &c.in[2], c.opt(6), &c.out[0], &c.out[1]
	pg := pages(c, o, 3, k.rows())
	var p []float64
	sum := make([]float64, o.HeadDim) //mem:ok ref is the definition: it is clear before it is small
	for r := range q.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			qh, g := head(q.row(r), h, o.HeadDim), group(o, h)
			p = p[:0]
			top := math.Inf(-1)
			for _, s := range keys {
				x, _ := capped(o, float64(o.Scale())*dot(qh, head(k.row(s), g, o.HeadDim)))
				p = append(p, x)
				top = max(top, x)
			}
			var z float64
			clear(sum)
			for n, s := range keys {
				e := math.Exp(p[n] - top)
				z += e
				for i, a := range head(v.row(s), g, o.HeadDim) {
					sum[i] += float64(e * float64(a))
				}
			}
			if sinks.on {
				z += math.Exp(float64(sinks.f[h]) - top)
			}
			oh := head(out.row(r), h, o.HeadDim)
			for i := range oh {
				oh[i] = T(sum[i] / z)
			}
			lse.f[r*o.Heads+h] = T(top + math.Log(z))
		}
	}
	return nil
}

// With p = exp(scale·q·k − lse), dp = do·v and ds = scale·p·(dp − Σ do·o), times the slope of a softcap: dq = Σ ds·k, dk = Σ ds·q, dv = Σ p·do.
func attentionGrad[T real](c *call[T], o graph.AttentionSpec) error {
	do, q, k, v, out, lse := &c.in[0], &c.in[1], &c.in[2], &c.in[3], &c.in[4], &c.in[5]
	pg := pages(c, o, 6, k.rows())
	scale, w := float64(o.Scale()), k.last()
	dq := &c.out[0]
	dk := make([]float64, len(k.f))   //mem:ok a sum in the reference's own precision
	dv := make([]float64, len(v.f))   //mem:ok a sum in the reference's own precision
	sum := make([]float64, o.HeadDim) //mem:ok ref is the definition: it is clear before it is small
	for r := range q.rows() {
		keys, err := pg.row(r)
		if err != nil {
			return err
		}
		for h := range o.Heads {
			g := group(o, h)
			qh, dh := head(q.row(r), h, o.HeadDim), head(do.row(r), h, o.HeadDim)
			delta := dot(dh, head(out.row(r), h, o.HeadDim))
			clear(sum)
			for _, s := range keys {
				kh, vh := head(k.row(s), g, o.HeadDim), head(v.row(s), g, o.HeadDim)
				x, slope := capped(o, float64(scale*dot(qh, kh)))
				p := math.Exp(x - float64(lse.f[r*o.Heads+h]))
				ds := scale * p * (dot(dh, vh) - delta) * slope
				dks, dvs := head(dk[s*w:], g, o.HeadDim), head(dv[s*w:], g, o.HeadDim)
				for i := range o.HeadDim {
					sum[i] += float64(ds * float64(kh[i]))
					dks[i] += float64(ds * float64(qh[i]))
					dvs[i] += float64(p * float64(dh[i]))
				}
			}
			oh := head(dq.row(r), h, o.HeadDim)
			for i := range oh {
				oh[i] = T(sum[i])
			}
		}
	}
	store64(c.out[1].f, dk)
	store64(c.out[2].f, dv)
	return nil
}

// store64 rounds sum into out.
func store64[T real](out []T, sum []float64) {
	for i, x := range sum {
		out[i] = T(x)
	}
}
