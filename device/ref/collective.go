package ref

import (
	"loadline/collective"
	"loadline/graph"
	"loadline/tensor"
)

// toF32 copies x as the float32s that a group carries.
func toF32[T real](x []T) []float32 {
	out := make([]float32, len(x)) //mem:ok the reference copies for simplicity
	for i, a := range x {
		out[i] = float32(a)
	}
	return out
}

func fromF32[T real](out []T, x []float32) {
	for i, a := range x {
		out[i] = T(a)
	}
}

func allReduce[T real](c *call[T]) error {
	x, out := c.in[0].f, c.out[0].f
	if c.s.group.Size() == 1 {
		copy(out, x)
		return nil
	}
	sum := toF32(x)
	err := c.s.group.AllReduce(sum)
	fromF32(out, sum)
	return err
}

func reduceScatter[T real](c *call[T]) error {
	x, out, g := c.in[0].f, c.out[0].f, c.s.group
	if g.Size() == 1 {
		copy(out, x)
		return nil
	}
	lo, hi := tensor.Shard(len(x), g.Size(), g.Rank())
	shard := make([]float32, hi-lo) //mem:ok the reference copies for simplicity
	err := g.ReduceScatter(shard, toF32(x), collective.Partition{Elems: len(x), Ranks: g.Size()})
	clear(out)
	fromF32(out, shard)
	return err
}

func allGather[T real](c *call[T], o graph.AllGather) error {
	shard, out, g := c.in[0].f, c.out[0].f, c.s.group
	if g.Size() == 1 {
		copy(out, shard)
		return nil
	}
	lo, hi := tensor.Shard(o.Elems, g.Size(), g.Rank())
	whole := make([]float32, len(out)) //mem:ok the reference copies for simplicity
	if o.Unit == 1 {
		err := g.AllGather(whole, toF32(shard[:hi-lo]), collective.Partition{Elems: o.Elems, Ranks: g.Size()})
		fromF32(out, whole)
		return err
	}
	// Sums of blocks are not negative, so adding the zeros of the other ranks is exact.
	lo, hi = (lo+o.Unit-1)/o.Unit, (hi+o.Unit-1)/o.Unit
	copy(whole[lo:hi], toF32(shard[:hi-lo]))
	err := g.AllReduce(whole)
	fromF32(out, whole)
	return err
}

func shardSlice[T real](c *call[T]) error {
	x, out, g := c.in[0].f, c.out[0].f, c.s.group
	lo, hi := tensor.Shard(len(x), g.Size(), g.Rank())
	clear(out)
	copy(out, x[lo:hi])
	return nil
}
