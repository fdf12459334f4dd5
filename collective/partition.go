package collective

import (
	"fmt"

	"loadline/tensor"
)

// BlockElems is the unit of sharding: a shard of a flat tensor starts and ends at a multiple of it (or at the tensor's end).
const BlockElems = tensor.BlockElems

// Shard is tensor.Shard, for arguments that may come from outside: it panics with the numbers where they make no sense.
func Shard(n, ranks, rank int) (lo, hi int) {
	if n < 0 || ranks < 1 || rank < 0 || rank >= ranks {
		panic(fmt.Sprintf("collective: shard of %d elements for rank %d of %d", n, rank, ranks))
	}
	return tensor.Shard(n, ranks, rank)
}

// ShardMax returns the length of the longest shard of a flat tensor of n elements over ranks: rank 0's. A buffer of that length
// holds any rank's shard.
func ShardMax(n, ranks int) int { return tensor.ShardMax(n, ranks) }

// Partition is a flat tensor cut into one shard per rank.
type Partition struct {
	Elems int // length of the flat tensor
	Ranks int // number of shards
}

// Shard returns the range [lo, hi) that rank owns.
func (p Partition) Shard(rank int) (lo, hi int) { return Shard(p.Elems, p.Ranks, rank) }

// Max returns the length of the longest shard.
func (p Partition) Max() int { return ShardMax(p.Elems, p.Ranks) }

// CheckReduceScatter panics unless the lengths are those that Group.ReduceScatter asks of this rank. Implementations call it.
func (p Partition) CheckReduceScatter(g Group, dst, src []float32) {
	p.check(g, "reduce-scatter", len(src), len(dst))
}

// CheckAllGather panics unless the lengths are those that Group.AllGather asks of this rank. Implementations call it.
func (p Partition) CheckAllGather(g Group, dst, src []float32) {
	p.check(g, "all-gather", len(dst), len(src))
}

func (p Partition) check(g Group, op string, whole, shard int) {
	if p.Ranks != g.Size() {
		panic(fmt.Sprintf("collective: %s: want a partition over %d ranks, got %d", op, g.Size(), p.Ranks))
	}
	lo, hi := p.Shard(g.Rank())
	if whole != p.Elems || shard != hi-lo {
		panic(fmt.Sprintf("collective: %s: want a tensor of %d and a shard of %d elements, got %d and %d", op, p.Elems, hi-lo, whole, shard))
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
