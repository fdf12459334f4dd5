package local

import (
	"unsafe"

	"loadline/collective"
)

// AllGather implements collective.Group.
func (g *Group) AllGather(dst, src []float32, part collective.Partition) error {
	part.CheckAllGather(g, dst, src)
	if err := g.begin(collective.OpAllGather, len(dst), 0); err != nil {
		return err
	}
	longest := 0
	for q := range g.size {
		lo, hi := part.Shard(q)
		g.lo[q], g.hi[q] = 4*lo, 4*hi
		longest = max(longest, 4*(hi-lo))
	}
	return g.gather(bytesOf(dst), bytesOf(src), longest)
}

// AllGatherBytes implements collective.Group.
func (g *Group) AllGatherBytes(dst, src []byte) error {
	collective.CheckGather(g, dst, src)
	if err := g.begin(collective.OpAllGatherBytes, len(src), 0); err != nil {
		return err
	}
	g.equalShares(len(src))
	return g.gather(dst, src, len(src))
}

// GatherBytes implements collective.Group.
func (g *Group) GatherBytes(dst, src []byte, root int) error {
	collective.CheckRoot(g, root)
	if g.rank == root {
		collective.CheckGather(g, dst, src)
	} else {
		dst = nil
	}
	if err := g.begin(collective.OpGatherBytes, len(src), root); err != nil {
		return err
	}
	g.equalShares(len(src))
	return g.gather(dst, src, len(src))
}

func (g *Group) equalShares(n int) {
	for q := range g.size {
		g.lo[q], g.hi[q] = q*n, (q+1)*n
	}
}

// gather puts rank q's src at dst[lo[q]:hi[q]]. A nil dst takes nothing. longest is the longest share.
func (g *Group) gather(dst, src []byte, longest int) error {
	if dst != nil {
		copy(dst[g.lo[g.rank]:g.hi[g.rank]], src)
	}
	if g.size == 1 {
		return nil
	}
	chunk := g.seg.bufferBytes
	return g.pipeline(max(1, (longest+chunk-1)/chunk), func(k int, step uint64) {
		copy(g.seg.buffer(g.rank, step), src[min(k*chunk, len(src)):])
	}, func(k int, step uint64) {
		if dst == nil {
			return
		}
		for q := range g.size {
			if q != g.rank {
				copy(dst[min(g.lo[q]+k*chunk, g.hi[q]):g.hi[q]], g.seg.buffer(q, step))
			}
		}
	})
}

// Broadcast implements collective.Group.
func (g *Group) Broadcast(p []byte, root int) error {
	collective.CheckRoot(g, root)
	if err := g.begin(collective.OpBroadcast, len(p), root); err != nil {
		return err
	}
	if g.size == 1 {
		return nil
	}
	chunk := g.seg.bufferBytes
	return g.pipeline(max(1, (len(p)+chunk-1)/chunk), func(k int, step uint64) {
		if g.rank == root {
			copy(g.seg.buffer(root, step), p[min(k*chunk, len(p)):])
		}
	}, func(k int, step uint64) {
		if g.rank != root {
			copy(p[min(k*chunk, len(p)):], g.seg.buffer(root, step))
		}
	})
}

// Barrier implements collective.Group.
func (g *Group) Barrier() error {
	if err := g.begin(collective.OpBarrier, 0, 0); err != nil {
		return err
	}
	if g.size == 1 {
		return nil
	}
	return g.pipeline(1, nil, nil)
}

// bytesOf returns the memory of x.
func bytesOf(x []float32) []byte {
	if len(x) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}
