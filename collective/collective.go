// Package collective defines what a group of ranks can do together: sum, scatter, gather and broadcast.
//
// A rank is a process that trains a replica or a shard of a model. Every rank of a group makes the same calls in the same order with
// the same lengths; an implementation detects a mismatch instead of hanging, and reports a lost rank to all the others.
//
// Invariants:
//   - A sum is taken in ascending rank order, ((r0+r1)+r2)+…, in float32, for every element on its own. So an element's bits depend
//     neither on the chunking nor on the collective that made it: AllReduce and ReduceScatter agree, and so do all ZeRO stages.
//     Only which NaN comes out of a sum of NaNs is unspecified.
//   - A flat tensor is cut into shards at multiples of BlockElems, whatever the number of ranks, so that a reduction over fixed
//     blocks of BlockElems (a gradient norm) never straddles two ranks. A vector that holds one number per block, with zeros for the
//     blocks of others, is completed by AllReduce: adding zero is exact.
//
// It does not start processes (local does, for one machine), average (a mean is the caller's multiplication) or convert types.
//
// Source: the collectives of MPI (Message Passing Interface Forum, MPI 4.1, chapter 6), reduced to what training needs; sharding
// after ZeRO (Rajbhandari et al., arXiv 1910.02054).
package collective

// Group is one rank's membership in a set of ranks. Its methods are not safe for concurrent use: one collective at a time, as every
// rank has to make the same calls in the same order.
//
// Wrong lengths in one rank's own call panic. An error that a collective returns ends the group: later calls return it again, and
// the contents of the destination are undefined.
type Group interface {
	// Rank returns this rank's number, 0 <= Rank() < Size().
	Rank() int
	// Size returns the number of ranks.
	Size() int
	// AllReduce replaces x with the sum of all ranks' x, on every rank.
	AllReduce(x []float32) error
	// ReduceScatter sums all ranks' src and leaves this rank's shard of the sum in dst. len(src) is part.Elems, len(dst) the length
	// of the shard. dst may be the shard's own place in src; it may not overlap src otherwise. src is not changed outside dst.
	ReduceScatter(dst, src []float32, part Partition) error
	// AllGather puts every rank's shard in its place in dst, on every rank. len(dst) is part.Elems, len(src) the length of this
	// rank's shard. src may be the shard's own place in dst; it may not overlap dst otherwise.
	AllGather(dst, src []float32, part Partition) error
	// Broadcast replaces p with root's p.
	Broadcast(p []byte, root int) error
	// GatherBytes puts every rank's src, all of one length, into root's dst in rank order. Only root's dst is used; its length is
	// Size()·len(src). It is meant for small control data.
	GatherBytes(dst, src []byte, root int) error
	// AllGatherBytes is GatherBytes for every rank.
	AllGatherBytes(dst, src []byte) error
	// Barrier returns once every rank has entered it.
	Barrier() error
	// Close leaves the group. Ranks that still need this one get a *RankLostError with Left set.
	Close() error
}
