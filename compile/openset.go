package compile

import (
	"cmp"
	"math"
	"slices"
)

// openSet is the buffers that a skyline has still to place, each with the offset that it would get. In order, lower offsets come first, then heavier buffers.
// What was seen to leave no room is hindered, and walks leave it out, until something is placed that it meets in time: nothing else can change that.
// It lies below the top of whatever is placed later, since walks end at the lowest of tops, and those only rise: so it is raised then.
//
// It is a tree: node k has the nodes 2k and 2k+1 below it, and leaves are buffers in order of their first instructions, so what a placed buffer
// meets in time is mostly whole nodes. A node all of whose buffers are raised to one offset says so and leaves the nodes below as they are until
// somebody goes there.
type openSet struct {
	leaf   []openBuffer
	base   int32 // node of leaf 0: a power of two
	node   []openNode
	queued []int32 // of the walk in progress: nodes that hold all that was not visited, a heap by their first leaves
	order  []int32 // scratch of fill
	plain  bool    // none is ever hindered: walks stop at some empty buffers and skip some of equal weight, and may have to see the others for that
}

// openBuffer is what a leaf is.
type openBuffer struct {
	id, rank    int32 // of buffers of equal weight, the lower rank comes first
	first, last int32
	bytes       int64
	weight      float64
	order       int32 // by weight, the heaviest first
}

// openNode is what is known of the open leaves of a node.
type openNode struct {
	begin, heaviest    int32 // leaves: the first in order that is not hindered, and of all; −1 if there is none
	firstMin, firstMax int32 // of first instructions
	lastMin, lastMax   int32 // of last ones
	raised             bool  // all offsets are high and none is hindered, which the nodes below do not know yet
	at                 int64 // offset of begin
	low, high          int64 // offsets
	topMin, bytesMin   int64
}

func newOpenSet(p *Program, ids []int32) *openSet {
	o := &openSet{leaf: make([]openBuffer, len(ids)), base: 1} //mem:ok planning runs before arenas are touched
	for k, i := range ids {
		b := &p.Buffers[i]
		o.leaf[k] = openBuffer{id: i, rank: int32(k), first: b.First, last: b.Last, bytes: b.Bytes}
	}
	slices.SortFunc(o.leaf, func(a, b openBuffer) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last), cmp.Compare(a.rank, b.rank))
	})
	for o.base < int32(len(ids)) {
		o.base *= 2
	}
	o.node = make([]openNode, 2*o.base) //mem:ok planning runs before arenas are touched
	return o
}

// none is a node without open leaves.
func none() openNode {
	return openNode{
		begin: -1, heaviest: -1, firstMin: math.MaxInt32, firstMax: -1, lastMin: math.MaxInt32, lastMax: -1,
		at: math.MaxInt64, low: math.MaxInt64, high: -1, topMin: math.MaxInt64, bytesMin: math.MaxInt64,
	}
}

// fill opens all buffers, at offset 0. Weights are by buffer.
func (o *openSet) fill(weight []float64) {
	o.plain = false
	o.order = o.order[:0]
	for k := range o.leaf {
		b := &o.leaf[k]
		b.weight = weight[b.id]
		o.plain = o.plain || b.bytes == 0
		o.order = append(o.order, int32(k))
	}
	slices.SortFunc(o.order, func(a, b int32) int {
		x, y := &o.leaf[a], &o.leaf[b]
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.rank, y.rank))
	})
	for i, k := range o.order {
		o.leaf[k].order = int32(i)
		o.plain = o.plain || i > 0 && o.leaf[k].weight == o.leaf[o.order[i-1]].weight
	}
	for k := range o.base {
		x := none()
		if int(k) < len(o.leaf) {
			b := &o.leaf[k]
			x = openNode{begin: k, heaviest: k, firstMin: b.first, firstMax: b.first, lastMin: b.last, lastMax: b.last, topMin: b.bytes, bytesMin: b.bytes}
		}
		o.node[o.base+k] = x
	}
	for k := o.base - 1; k > 0; k-- {
		o.pull(k)
	}
}

// before tells whether the first leaf of node a comes before that of node b. Both have one.
func (o *openSet) before(a, b int32) bool {
	x, y := &o.node[a], &o.node[b]
	return x.at < y.at || x.at == y.at && o.leaf[x.begin].order < o.leaf[y.begin].order
}

// pull sets what is known of node k to what the two below it say.
func (o *openSet) pull(k int32) {
	x, y := &o.node[2*k], &o.node[2*k+1]
	if x.heaviest < 0 {
		x, y = y, x
	}
	z := &o.node[k]
	if y.heaviest < 0 {
		*z = *x
		z.raised = false
		return
	}
	z.begin, z.at, z.heaviest = x.begin, x.at, x.heaviest
	if y.begin >= 0 && (x.begin < 0 || y.at < x.at || y.at == x.at && o.leaf[y.begin].order < o.leaf[x.begin].order) {
		z.begin, z.at = y.begin, y.at
	}
	if o.leaf[y.heaviest].order < o.leaf[x.heaviest].order {
		z.heaviest = y.heaviest
	}
	z.firstMin, z.firstMax = min(x.firstMin, y.firstMin), max(x.firstMax, y.firstMax)
	z.lastMin, z.lastMax = min(x.lastMin, y.lastMin), max(x.lastMax, y.lastMax)
	z.low, z.high = min(x.low, y.low), max(x.high, y.high)
	z.topMin, z.bytesMin = min(x.topMin, y.topMin), min(x.bytesMin, y.bytesMin)
	z.raised = false
}

// lift raises all of node k to offset at, which is as high as any of them or higher, and none is hindered any more.
func (o *openSet) lift(k int32, at int64) {
	if x := &o.node[k]; x.heaviest >= 0 {
		x.begin, x.at = x.heaviest, at
		x.low, x.high, x.topMin, x.raised = at, at, at+x.bytesMin, true
	}
}

// push tells the nodes below k what k knows.
func (o *openSet) push(k int32) {
	if x := &o.node[k]; x.raised {
		o.lift(2*k, x.high)
		o.lift(2*k+1, x.high)
		x.raised = false
	}
}

// raise raises what lives in some instruction from first to last, where something was placed, to offset at, if it is lower.
func (o *openSet) raise(first, last int32, at int64) { o.raiseIn(1, first, last, at) }

func (o *openSet) raiseIn(k, first, last int32, at int64) {
	x := &o.node[k]
	if x.firstMin > last || x.lastMax < first || x.low >= at {
		return
	}
	if x.firstMax <= last && x.lastMin >= first && x.high <= at {
		o.lift(k, at)
		return
	}
	o.push(k)
	o.raiseIn(2*k, first, last, at)
	o.raiseIn(2*k+1, first, last, at)
	o.pull(k)
}

// hinder says that leaf k, which the walk in progress has visited, leaves no room.
func (o *openSet) hinder(k int32) {
	if o.plain {
		return
	}
	n := o.base + k
	x := &o.node[n]
	x.begin, x.at = -1, math.MaxInt64
	for n /= 2; n > 0; n /= 2 {
		o.pull(n)
	}
}

// remove closes leaf k.
func (o *openSet) remove(k int32) {
	o.reach(k)
	n := o.base + k
	o.node[n] = none()
	for n /= 2; n > 0; n /= 2 {
		o.pull(n)
	}
}

// reach pushes what is known down to leaf k.
func (o *openSet) reach(k int32) {
	n := o.base + k
	for d := 31; d > 0; d-- {
		if at := n >> d; at > 0 {
			o.push(at)
		}
	}
}

// offset is that of leaf k, which the walk in progress has visited.
func (o *openSet) offset(k int32) int64 { return o.node[o.base+k].high }

// lowest is the lowest top that an open buffer would have.
func (o *openSet) lowest() int64 { return o.node[1].topMin }

// begin starts a walk in order and returns the first leaf; −1 if none is open.
func (o *openSet) begin() int32 {
	o.queued = append(o.queued[:0], 1)
	if o.node[1].begin < 0 {
		return -1
	}
	return o.next()
}

// next is the next leaf of the walk, or −1 after the last.
func (o *openSet) next() int32 {
	if len(o.queued) == 0 {
		return -1
	}
	k := o.pop()
	leaf := o.node[k].begin
	for k < o.base { // what is beside the way to the leaf was not visited
		o.push(k)
		k *= 2
		other := k + 1
		if o.node[k].begin != leaf {
			k, other = other, k
		}
		if o.node[other].begin >= 0 {
			o.queue(other)
		}
	}
	return leaf
}

// queue and pop are the heap's.
func (o *openSet) queue(k int32) {
	o.queued = append(o.queued, k)
	h := o.queued
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !o.before(h[i], h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (o *openSet) pop() int32 {
	h := o.queued
	top, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	o.queued = h
	for i := 0; ; {
		least := i
		for j := 2*i + 1; j <= 2*i+2 && j < n; j++ {
			if o.before(h[j], h[least]) {
				least = j
			}
		}
		if least == i {
			return top
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
