package cpu

import (
	"math"

	"loadline/graph"
	"loadline/tensor/kernel"
)

const (
	probRows   = 48              // rows whose scores are held at once
	keptBlocks = 4096 / keyBlock // blocks of keys that stay packed for all rows of a tile
	scorePad   = 144             // between rows' scores, which would meet in a few sets of a cache
)

// probsParts is how a thread's workspace divides for rows of attention.
func probsParts(a graph.AttentionSpec, rows int) []int {
	blocks := min(keptBlocks, (a.Context+keyBlock-1)/keyBlock)
	return []int{
		tileRows * a.HeadDim,                            // scaled queries
		blocks * kernel.PackedBLen(a.HeadDim, keyBlock), // keys
		keyBlock * a.HeadDim,                            // gathered
		min(probRows, rows) * (a.Context + scorePad),    // scores
		workAttention(a.HeadDim),
	}
}

func probsNeeds(a graph.AttentionSpec, rows int) int64 {
	return 4 * int64(takes(probsParts(a, rows)...))
}

// keyPanels is packed blocks of keys of one sequence and head, of positions from begin to end: all of them, or one at a time.
type keyPanels struct {
	p          *paging
	pool       floats
	seq, g     int
	begin, end int
	data       []float32
	gather     []float32
	all        bool
}

// at is the block that begins at position at.
func (k *keyPanels) at(s *Session, at int) kernel.PackedB {
	n := min(keyBlock, k.end-at)
	size := kernel.PackedBLen(k.p.HeadDim, keyBlock)
	if k.all {
		return kernel.PackedB{Data: k.data[(at-k.begin)/keyBlock*size:][:size], K: k.p.HeadDim, N: n}
	}
	return k.pack(s, k.data[:size], at)
}

func (k *keyPanels) pack(s *Session, to []float32, at int) kernel.PackedB {
	return s.pack(to, k.p.keys(s, k.pool, k.seq, at, min(keyBlock, k.end-at), k.g, k.gather).T())
}

// fill packs all blocks, if there is room.
func (k *keyPanels) fill(s *Session) {
	size := kernel.PackedBLen(k.p.HeadDim, keyBlock)
	if k.all = (k.end-k.begin+keyBlock-1)/keyBlock*size <= len(k.data); !k.all {
		return
	}
	for at := k.begin; at < k.end; at += keyBlock {
		k.pack(s, k.data[(at-k.begin)/keyBlock*size:][:size], at)
	}
}

// bindAttentionProbs makes a few rows' scores in a thread's workspace and writes their probabilities once: the values (N,H,Context) are all that
// memory sees, and their zeros.
func bindAttentionProbs(b *binder, o graph.AttentionProbs) step {
	p := b.paged(o.AttentionSpec, 2, b.inType(1).Shape.Dims[0])
	q, k, sinks, out := b.inF(0), b.inF(1), b.in32(5), b.outF(0)
	parts := probsParts(p.AttentionSpec, b.in.In[0].Type.Shape.Lead(b.x.Bounds))
	group, ld := p.Heads/p.KVHeads, p.Context+scorePad
	return p.perTile(func(s *Session, t *tile, g, worker int) {
		c := s.carver(worker)
		xs, packed, gather, buf, ws := c.take(parts[0]), c.take(parts[1]), c.take(parts[2]), c.take(parts[3]), c.take(parts[4])
		keys := keyPanels{p: p, pool: k, seq: int(t.seq), g: g, begin: p.start(t), end: int(t.last) + 1, data: packed, gather: gather}
		keys.fill(s)
		for h := g * group; h < (g+1)*group; h++ {
			a := p.scaled(s, xs, q, t, 0, h)
			for r0 := 0; r0 < a.Rows; r0 += probRows {
				r1 := min(r0+probRows, a.Rows)
				pos := p.pos[int(t.row)+r0 : int(t.row)+r1]
				begin := p.First(int(pos[0])) / keyBlock * keyBlock
				for at, end := begin, int(pos[len(pos)-1])+1; at < end; at += keyBlock {
					y := kernel.RowMajor(buf[at-begin:], r1-r0, min(keyBlock, end-at), ld)
					s.set.GemmPacked(y, a.Slice(r0, r1, 0, p.HeadDim), keys.at(s, at), 0, false, ws)
				}
				for r, x := range pos {
					lo, hi := p.First(int(x)), int(x)+1
					row := buf[r*ld+lo-begin : r*ld+hi-begin]
					top, sum := s.set.Softmax(row)
					if sinks != nil { // one more element, which is left out
						s.set.Scale(row, besideSink(sinks[h], top, sum), row)
					}
					i := p.scoresAt(t, r0+r, h, 0)
					out.clear(i, i+lo)
					out.put(s, i+lo, row)
					out.clear(i+hi, i+p.Context)
				}
			}
		}
	})
}

// besideSink is what probabilities are multiplied by where there is a sink too: they have the largest score top and the logarithm of the sum logSum.
func besideSink(sink, top, logSum float32) float32 {
	return float32(1 / (1 + math.Exp(float64(sink)-float64(top)-float64(logSum))))
}
