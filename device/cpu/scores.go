package cpu

import (
	"math"

	"loadline/graph"
	"loadline/tensor/kernel"
)

// pagedParts is how a thread's workspace divides in the halves of standard attention.
func pagedParts(a graph.AttentionSpec) []int {
	return []int{
		tileRows * a.HeadDim, // scaled queries
		max(kernel.PackedBLen(a.HeadDim, keyBlock), kernel.PackedBLen(keyBlock, a.HeadDim)), // keys or values
		keyBlock * a.HeadDim, // gathered
		tileRows * keyBlock,  // what rows see of a block
		workAttention(a.HeadDim),
	}
}

func pagedNeeds(a graph.AttentionSpec) int64 { return 4 * int64(takes(pagedParts(a)...)) }

// scores is columns at on, n of them, of rows r0 on of tile t, head h, of a value (N,H,Context).
func (p *paging) scores(x []float32, t *tile, r0, h, at, n int) kernel.Mat {
	width := p.Heads * p.Context
	return kernel.RowMajor(x[(int(t.row)+r0)*width+h*p.Context+at:], int(t.n)-r0, n, width)
}

// seen copies columns at on, n of them, of rows r0 on of tile t, head h, of a value (N,H,Context), with 0 for what a row does
// not see.
func (p *paging) seen(buf, x []float32, t *tile, r0, h, at, n int) kernel.Mat {
	m := p.scores(x, t, r0, h, at, n)
	for r := range m.Rows {
		row := buf[r*keyBlock:][:n]
		sees := min(n, int(p.pos[int(t.row)+r0+r])+1-at)
		copy(row[:sees], m.Data[r*m.RowStride:])
		clear(row[sees:])
	}
	return kernel.RowMajor(buf, m.Rows, n, keyBlock)
}

// blank writes v to what the rows of tile t, head h, do not see.
func (p *paging) blank(x []float32, t *tile, h int, v float32) {
	for r := range int(t.n) {
		row := (int(t.row) + r) * p.Heads * p.Context
		rest := x[row+h*p.Context:][:p.Context][p.pos[int(t.row)+r]+1:]
		for i := range rest {
			rest[i] = v
		}
	}
}

// times is out (N,H,Context) = factor · x (N,H·K) · poolᵀ, with v where a row does not see.
func (b *binder) times(p *paging, out, x, pool []float32, factor bool, v float32) step {
	parts := pagedParts(p.AttentionSpec)
	group := p.Heads / p.KVHeads
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		c := carver(s.worker[worker])
		xs, packed, gather, _, ws := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		for at := 0; at <= int(t.last); at += keyBlock {
			n := min(keyBlock, int(t.last)+1-at)
			keys := s.pack(packed, p.keys(pool, int(t.seq), at, n, g, gather).T())
			for h := g * group; h < (g+1)*group; h++ {
				a := p.heads(x, t, 0, h)
				if factor {
					a = p.scaled(s, xs, a)
				}
				s.set.GemmPacked(p.scores(out, t, 0, h, at, n), a, keys, 0, false, ws)
			}
		}
		for h := g * group; h < (g+1)*group; h++ {
			p.blank(out, t, h, v)
		}
	})
}

// mixes is out (N,H·K) = x (N,H,Context) · pool, times Scale where factor; keys ascend.
func (b *binder) mixes(p *paging, out, x, pool []float32, factor bool) step {
	parts := pagedParts(p.AttentionSpec)
	group := p.Heads / p.KVHeads
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		c := carver(s.worker[worker])
		_, packed, gather, buf, ws := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		for at := 0; at <= int(t.last); at += keyBlock {
			n := min(keyBlock, int(t.last)+1-at)
			r0 := p.from(t, at)
			vals := s.pack(packed, p.keys(pool, int(t.seq), at, n, g, gather))
			for h := g * group; h < (g+1)*group; h++ {
				s.set.GemmPacked(p.heads(out, t, r0, h), p.seen(buf, x, t, r0, h, at, n), vals, 0, at > 0, ws)
			}
		}
		if factor {
			for h := g * group; h < (g+1)*group; h++ {
				y := p.heads(out, t, 0, h)
				for r := range y.Rows {
					row := y.Data[r*y.RowStride:][:p.HeadDim]
					s.set.Scale(row, p.Scale(), row)
				}
			}
		}
	})
}

// sums is out (S,G·K) = Σ over rows of x (N,H,Context)ᵀ · y (N,H·K), y times Scale where factor; heads of a group ascend,
// their rows ascend.
func (b *binder) sums(p *paging, out, x, y []float32, factor bool) step {
	parts := pagedParts(p.AttentionSpec)
	group := p.Heads / p.KVHeads
	return p.perRun(func(s *Session, run []tile, g, worker int) {
		c := carver(s.worker[worker])
		ys, _, gather, buf, ws := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		end := int(run[len(run)-1].last) + 1
		seq := int(run[0].seq)
		for at := 0; at < end; at += keyBlock {
			n := min(keyBlock, end-at)
			sum := p.keys(out, seq, at, n, g, gather)
			for h := g * group; h < (g+1)*group; h++ {
				for i := range run {
					t := &run[i]
					if int(t.last) < at {
						continue
					}
					r0 := p.from(t, at)
					nc := min(n, int(t.last)+1-at)
					m := p.heads(y, t, r0, h)
					if factor {
						m = p.scaled(s, ys, m)
					}
					s.set.Gemm(sum.Slice(0, nc, 0, p.HeadDim), p.seen(buf, x, t, r0, h, at, nc).T(), m, true, ws)
				}
			}
			p.scatter(out, seq, at, n, g, gather)
		}
	}, b.outType(0), out)
}

func bindScores(b *binder, o graph.Scores) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.times(p, b.out32(0), b.in32(0), b.in32(1), true, float32(math.Inf(-1)))
}

func bindScoresDQ(b *binder, o graph.ScoresDQ) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.mixes(p, b.out32(0), b.in32(0), b.in32(1), true)
}

func bindScoresDK(b *binder, o graph.ScoresDK) step {
	p := b.paged(o.AttentionSpec, 2, o.Slots)
	return b.sums(p, b.out32(0), b.in32(0), b.in32(1), true)
}
