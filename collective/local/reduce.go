package local

import (
	"loadline/collective"
)

// smallReduceElems is the longest AllReduce that every rank sums on its own: one step in place of two, worth it while the sum costs
// less than a wait.
const smallReduceElems = 2048

// AllReduce implements collective.Group. Each rank sums one part of every chunk and then reads the other parts from the ranks that
// summed them, so each element is summed once.
func (g *Group) AllReduce(x []float32) error {
	if err := g.begin(collective.OpAllReduce, len(x), 0); err != nil {
		return err
	}
	if g.size == 1 {
		return nil
	}
	chunk := g.seg.bufferBytes / 4
	if len(x) <= min(chunk, smallReduceElems) {
		return g.pipeline(1, func(_ int, step uint64) {
			copy(g.seg.floats(g.rank, step), x)
		}, func(_ int, step uint64) {
			for q := range g.size {
				g.srcs[q] = g.seg.floats(q, step)
			}
			sumInto(x, g.srcs)
		})
	}
	return g.reduceChunks(x, chunk)
}

// reduceChunks is AllReduce for tensors of any length. One publication per chunk, and one more, serve both phases:
//
//	in 1 · publish · [ wait for k · sum k · in k+1 · publish · wait for k+1 · out k ] for every k
//
// in k+1 overwrites step k-3 when all ranks are past out k-2, since they published k after it.
func (g *Group) reduceChunks(x []float32, chunk int) error {
	n := len(x)
	steps := (n + chunk - 1) / chunk
	first := g.step + 1
	g.putParts(x[:min(chunk, n)], first)
	g.publish()
	for k := range steps {
		step := first + uint64(k)
		if err := g.wait(step); err != nil {
			return err
		}
		if k == 0 {
			if err := g.agree(); err != nil {
				return err
			}
		}
		c := x[k*chunk : min((k+1)*chunk, n)]
		g.sumPart(c, step)
		if k+1 < steps {
			g.putParts(x[(k+1)*chunk:min((k+2)*chunk, n)], step+1)
		}
		g.publish()
		if err := g.wait(step + 1); err != nil {
			return err
		}
		g.takeParts(c, step)
	}
	return nil
}

// part returns the range of a chunk of n elements that rank sums: even shares of whole cache lines.
func (g *Group) part(n, rank int) (lo, hi int) {
	const line = cacheLine / 4
	share := (n + g.size - 1) / g.size
	share = (share + line - 1) / line * line
	return min(rank*share, n), min((rank+1)*share, n)
}

// putParts copies what the other ranks sum of the chunk into this rank's buffer.
func (g *Group) putParts(c []float32, step uint64) {
	lo, hi := g.part(len(c), g.rank)
	buf := g.seg.floats(g.rank, step)
	copy(buf, c[:lo])
	copy(buf[hi:], c[hi:])
}

// sumPart sums this rank's part of the chunk into the chunk and into this rank's buffer.
func (g *Group) sumPart(c []float32, step uint64) {
	lo, hi := g.part(len(c), g.rank)
	for q := range g.size {
		g.srcs[q] = g.seg.floats(q, step)[lo:hi]
	}
	g.srcs[g.rank] = c[lo:hi]
	sumInto(c[lo:hi], g.srcs)
	copy(g.seg.floats(g.rank, step)[lo:], c[lo:hi])
}

// takeParts copies the parts that the other ranks summed.
func (g *Group) takeParts(c []float32, step uint64) {
	for q := range g.size {
		if q != g.rank {
			lo, hi := g.part(len(c), q)
			copy(c[lo:hi], g.seg.floats(q, step)[lo:hi])
		}
	}
}

// ReduceScatter implements collective.Group. A buffer is cut into one part per owner, so that all ranks sum at every step.
func (g *Group) ReduceScatter(dst, src []float32, part collective.Partition) error {
	part.CheckReduceScatter(g, dst, src)
	if err := g.begin(collective.OpReduceScatter, len(src), 0); err != nil {
		return err
	}
	if g.size == 1 {
		copy(dst, src)
		return nil
	}
	const line = cacheLine / 4
	chunk := g.seg.bufferBytes / 4 / g.size / line * line // elements of each owner's shard in one step
	mine, _ := part.Shard(g.rank)
	return g.pipeline(max(1, (part.Max()+chunk-1)/chunk), func(k int, step uint64) {
		buf := g.seg.floats(g.rank, step)
		for q := range g.size {
			if q != g.rank {
				lo, hi := part.Shard(q)
				copy(buf[q*chunk:(q+1)*chunk], src[min(lo+k*chunk, hi):hi])
			}
		}
	}, func(k int, step uint64) {
		at, end := min(k*chunk, len(dst)), min((k+1)*chunk, len(dst))
		for q := range g.size {
			g.srcs[q] = g.seg.floats(q, step)[g.rank*chunk:]
		}
		g.srcs[g.rank] = src[mine+at : mine+end]
		sumInto(dst[at:end], g.srcs)
	})
}
