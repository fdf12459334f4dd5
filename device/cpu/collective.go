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
// the gathered tensor. Groups carry f32: narrow shards go around as bytes, one rank's after the other.
func bindAllGather(b *binder, o graph.AllGather) step {
	b.wantRanks(o.Ranks)
	if isNarrow(b.outType(0).DType) {
		return bindGatherNarrow(b)
	}
	x, out := b.in32(0), b.out32(0)
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

func bindGatherNarrow(b *binder) step {
	x, out, raw := b.inF(0), b.outF(0), b.bytes(b.in.Out[0])
	if b.err == nil && x.t != out.t {
		b.err = fmt.Errorf("want a shard of %v, got %v", b.outType(0), b.inType(0))
	}
	return stepFunc(func(s *Session) error {
		rank, n := s.ranks()
		lo, hi := tensor.Shard(out.len(), n, rank)
		out.copy(s, lo, x, 0, hi-lo, nil)
		for r := 0; r < n && n > 1; r++ {
			if lo, hi := tensor.Shard(out.len(), n, r); hi > lo {
				if err := s.group.Broadcast(raw[2*lo:2*hi], r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func bindShardSlice(b *binder, o graph.ShardSlice) step {
	x, out := b.inF(0), b.outF(0)
	b.wantRanks(o.Ranks)
	return stepFunc(func(s *Session) error {
		rank, n := s.ranks()
		lo, hi := tensor.Shard(x.len(), n, rank)
		out.copy(s, 0, x, lo, hi-lo, nil)
		out.clear(hi-lo, out.len())
		return nil
	})
}
