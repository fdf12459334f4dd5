// Package tensor holds what every layer above agrees on about a flat array of elements: how it is cut into the
// fixed blocks that sums respect, and into the shards that ranks own. It does no arithmetic on elements.
package tensor

// BlockElems is the number of elements in a block of a flat tensor. Sums of squares are taken block by block and
// shards begin at block boundaries, so that a norm has the same bits whoever owns which block.
const BlockElems = 4096

// BlockRows is the number of rows in a block of a reduction over rows. Such a reduction runs over blocks in
// ascending order and continues the stored accumulator, so splitting at a multiple of BlockRows changes no bit.
const BlockRows = 128

// Blocks is the number of blocks in a flat tensor of n elements.
func Blocks(n int) int { return (n + BlockElems - 1) / BlockElems }

// Shard returns the half-open element range of a flat tensor of n elements that rank owns of ranks. Ranges are
// whole blocks, as even as possible with the larger ones first; the last block may be short and a range empty.
func Shard(n, ranks, rank int) (lo, hi int) {
	blocks := Blocks(n)
	q, r := blocks/ranks, blocks%ranks
	b := q*rank + min(rank, r)
	e := b + q
	if rank < r {
		e++
	}
	return min(b*BlockElems, n), min(e*BlockElems, n)
}

// ShardMax is the largest number of elements that Shard gives to any rank: what a buffer for a shard must hold.
func ShardMax(n, ranks int) int {
	lo, hi := Shard(n, ranks, 0)
	return hi - lo
}
