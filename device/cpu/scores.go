package cpu

import (
	"math"

	"loadline/compile"
	"loadline/graph"
	"loadline/tensor/kernel"
)

// pagedParts is how a thread's workspace divides in the halves of standard attention.
func pagedParts(a graph.AttentionSpec, narrow bool) []int {
	sums := 0
	if narrow {
		sums = a.Heads / a.KVHeads * tileRows * a.HeadDim
	}
	return []int{
		tileRows * a.HeadDim, // scaled queries
		max(kernel.PackedBLen(a.HeadDim, keyBlock), kernel.PackedBLen(keyBlock, a.HeadDim)), // keys or values
		keyBlock * a.HeadDim, // gathered
		tileRows * keyBlock,  // what rows see of a block
		workAttention(a.HeadDim),
		sums, // of a result (N,H·K)
	}
}

func pagedNeeds(in *compile.Instr, a graph.AttentionSpec) int64 {
	return 4 * int64(takes(pagedParts(a, anyNarrow(in))...))
}

// scoresAt is where column at of row r of tile t, head h, of a value (N,H,Context) lies.
func (p *paging) scoresAt(t *tile, r, h, at int) int {
	return ((int(t.row)+r)*p.Heads+h)*p.Context + at
}

// seen copies columns at on, n of them, of rows r0 on of tile t, head h, of a value (N,H,Context), with 0 for what a row does
// not see.
func (p *paging) seen(s *Session, buf []float32, x floats, t *tile, r0, h, at, n int) kernel.Mat {
	rows := int(t.n) - r0
	for r := range rows {
		row, pos := buf[r*keyBlock:][:n], int(p.pos[int(t.row)+r0+r])
		from, to := min(max(p.First(pos)-at, 0), n), min(n, pos+1-at)
		clear(row[:from])
		if from < to {
			x.get(s, p.scoresAt(t, r0+r, h, at+from), row[from:to])
		}
		clear(row[max(from, to):])
	}
	return kernel.RowMajor(buf, rows, n, keyBlock)
}

// blank writes v to what the rows of tile t, head h, do not see.
func (p *paging) blank(x floats, t *tile, h int, v float32) {
	for r := range int(t.n) {
		pos := int(p.pos[int(t.row)+r])
		x.fill(p.scoresAt(t, r, h, 0), p.scoresAt(t, r, h, p.First(pos)), v)
		x.fill(p.scoresAt(t, r, h, pos+1), p.scoresAt(t, r, h, p.Context), v)
	}
}

// times is out (N,H,Context) = factor · x (N,H·K) · poolᵀ, with v where a row does not see.
func (b *binder) times(p *paging, out, x, pool floats, factor bool, v float32) step {
	parts := pagedParts(p.AttentionSpec, anyNarrow(b.in))
	group := p.Heads / p.KVHeads
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		c := s.carver(worker)
		xs, packed, gather, buf, ws := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		for at := p.start(t); at <= int(t.last); at += keyBlock {
			n := min(keyBlock, int(t.last)+1-at)
			keys := s.pack(packed, p.keys(s, pool, int(t.seq), at, n, g, gather).T())
			for h := g * group; h < (g+1)*group; h++ {
				a := p.heads(s, x, t, 0, h, xs)
				if factor {
					a = p.scaled(s, xs, x, t, 0, h)
				}
				if !out.narrow() {
					y := kernel.RowMajor(out.f[p.scoresAt(t, 0, h, at):], a.Rows, n, p.Heads*p.Context)
					s.set.GemmPacked(y, a, keys, 0, false, ws)
					continue
				}
				s.set.GemmPacked(kernel.RowMajor(buf, a.Rows, n, keyBlock), a, keys, 0, false, ws)
				for r := range a.Rows {
					out.put(s, p.scoresAt(t, r, h, at), buf[r*keyBlock:][:n])
				}
			}
		}
		for h := g * group; h < (g+1)*group; h++ {
			p.blank(out, t, h, v)
		}
	})
}

// mixes is out (N,H·K) = x (N,H,Context) · pool, times Scale where factor; keys ascend.
func (b *binder) mixes(p *paging, out, x, pool floats, factor bool) step {
	parts := pagedParts(p.AttentionSpec, anyNarrow(b.in))
	group := p.Heads / p.KVHeads
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		c := s.carver(worker)
		_, packed, gather, buf, ws := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		sums := c.take(parts[5])
		start := p.start(t) // every row is at it or beyond
		for at := start; at <= int(t.last); at += keyBlock {
			n := min(keyBlock, int(t.last)+1-at)
			r0 := p.from(t, at)
			vals := s.pack(packed, p.keys(s, pool, int(t.seq), at, n, g, gather))
			for h := g * group; h < (g+1)*group; h++ {
				s.set.GemmPacked(p.sumsAt(out, t, r0, h, tail(sums, (h-g*group)*tileRows*p.HeadDim)), p.seen(s, buf, x, t, r0, h, at, n), vals, 0, at > start, ws)
			}
		}
		for h := g * group; h < (g+1)*group; h++ {
			y := p.sumsAt(out, t, 0, h, tail(sums, (h-g*group)*tileRows*p.HeadDim))
			for r := 0; factor && r < y.Rows; r++ {
				row := y.Data[r*y.RowStride:][:p.HeadDim]
				s.set.Scale(row, p.Scale(), row)
			}
			p.summed(s, out, t, h, y)
		}
	})
}

// sums is out (S,G·K) = Σ over rows of x (N,H,Context)ᵀ · y (N,H·K), y times Scale where factor; heads of a group ascend,
// their rows ascend.
func (b *binder) sums(p *paging, out, x, y floats, factor bool) step {
	parts := pagedParts(p.AttentionSpec, anyNarrow(b.in))
	group := p.Heads / p.KVHeads
	return p.perRun(func(s *Session, run []tile, g, worker int) {
		c := s.carver(worker)
		ys, _, gather, buf, ws := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		end := int(run[len(run)-1].last) + 1
		seq := int(run[0].seq)
		for at := p.start(&run[0]); at < end; at += keyBlock {
			n := min(keyBlock, end-at)
			sum := p.keys(s, out, seq, at, n, g, gather)
			for h := g * group; h < (g+1)*group; h++ {
				for i := range run {
					t := &run[i]
					r0, r1 := p.see(t, at, n)
					if r0 == r1 {
						continue
					}
					nc := min(n, int(t.last)+1-at)
					m := p.heads(s, y, t, r0, h, ys)
					if factor {
						m = p.scaled(s, ys, y, t, r0, h)
					}
					w := p.seen(s, buf, x, t, r0, h, at, nc)
					s.set.Gemm(sum.Slice(0, nc, 0, p.HeadDim), w.Slice(0, r1-r0, 0, nc).T(), m.Slice(0, r1-r0, 0, p.HeadDim), true, ws)
				}
			}
			p.scatter(s, out, seq, at, n, g, gather, p.HeadDim)
		}
	}, b.outType(0), out)
}

func bindScores(b *binder, o graph.Scores) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.times(p, b.outF(0), b.inF(0), b.inF(1), true, float32(math.Inf(-1)))
}

func bindScoresDQ(b *binder, o graph.ScoresDQ) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	return b.mixes(p, b.outF(0), b.inF(0), b.inF(1), true)
}

func bindScoresDK(b *binder, o graph.ScoresDK) step {
	p := b.paged(o.AttentionSpec, 2, o.Slots)
	return b.sums(p, b.outF(0), b.inF(0), b.inF(1), true)
}
