package cpu

import (
	"fmt"

	"loadline/collective"
	"loadline/graph"
	"loadline/tensor"
)

// ranks is this rank and the number of ranks.
func (s *Session) ranks() (rank, n int) {
	if s.group == nil {
		return 0, 1
	}
	return s.group.Rank(), s.group.Size()
}

// wantRanks refuses a program for another number of ranks than there are.
func (b *binder) wantRanks(n int) {
	if _, have := b.s.ranks(); have != n && b.err == nil {
		b.err = fmt.Errorf("the program is for %d ranks, the group has %d", n, have)
	}
}

func bindAllReduce(b *binder) step {
	x, out := b.in32(0), b.out32(0)
	b.wantRanks(b.in.Op.(graph.AllReduce).Ranks)
	var c copyTask
	return stepFunc(func(s *Session) error {
		s.carry(&c, out, x)
		if s.group == nil {
			return nil
		}
		return s.group.AllReduce(out)
	})
}

func bindReduceScatter(b *binder, o graph.ReduceScatter) step {
	x, out := b.in32(0), b.out32(0)
	b.wantRanks(o.Ranks)
	part := collective.Partition{Elems: len(x), Ranks: o.Ranks}
	return stepFunc(func(s *Session) error {
		rank, n := s.ranks()
		lo, hi := tensor.Shard(len(x), n, rank)
		clear(out[hi-lo:])
		if n == 1 {
			copy(out, x)
			return nil
		}
		return s.group.ReduceScatter(out[:hi-lo], x, part)
	})
}

// bindAllGather hands whole shards to the group. Where an element stands for more than one, shards are no partition that a
// group knows: each rank fills its own elements among zeros, and the sum over ranks, in which adding zero is exact, is
// the gathered tensor.
func bindAllGather(b *binder, o graph.AllGather) step {
	x, out := b.in32(0), b.out32(0)
	b.wantRanks(o.Ranks)
	unit := max(o.Unit, 1)
	part := collective.Partition{Elems: len(out), Ranks: o.Ranks}
	return stepFunc(func(s *Session) error {
		rank, n := s.ranks()
		if n == 1 {
			copy(out, x)
			return nil
		}
		lo, hi := tensor.Shard(len(out)*unit, n, rank)
		if unit == 1 {
			return s.group.AllGather(out, x[:hi-lo], part)
		}
		lo, hi = (lo+unit-1)/unit, (hi+unit-1)/unit
		clear(out[:lo])
		copy(out[lo:hi], x)
		clear(out[hi:])
		return s.group.AllReduce(out)
	})
}

func bindShardSlice(b *binder, o graph.ShardSlice) step {
	x, out := b.in32(0), b.out32(0)
	b.wantRanks(o.Ranks)
	return stepFunc(func(s *Session) error {
		rank, n := s.ranks()
		lo, hi := tensor.Shard(len(x), n, rank)
		copy(out, x[lo:hi])
		clear(out[hi-lo:])
		return nil
	})
}
