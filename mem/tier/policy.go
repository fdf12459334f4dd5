package tier

import (
	"math"
	"slices"
)

// Policy says which item can best be spared. A pool calls it under its lock, so a policy serves one pool and needs no lock itself.
type Policy interface {
	// Touch notes that id is asked for now.
	Touch(id int)
	// Hint notes that the caller announces a use of id.
	Hint(id int)
	// Distance says how far away the next use of id is, or is guessed to be. The farthest goes first.
	Distance(id int) int64
}

// LRU guesses that what was not used for the longest time will not be used for the longest time.
type LRU struct {
	now  int64
	last []int64 // by id; the value of now at the last use
}

// NewLRU returns a policy for the ids below items.
func NewLRU(items int) *LRU { return &LRU{last: make([]int64, items)} } //mem:ok bookkeeping, 8 bytes an item

// Touch notes a use.
func (p *LRU) Touch(id int) {
	p.now++
	p.last[id] = p.now
}

// Hint counts as a use: the item is wanted more than any that is there.
func (p *LRU) Hint(id int) { p.Touch(id) }

// Distance returns the number of uses since the last of id.
func (p *LRU) Distance(id int) int64 { return p.now - p.last[id] }

// KnownOrder knows all uses beforehand, which makes evicting the farthest one optimal (Belady, "A study of replacement algorithms for
// a virtual-storage computer", IBM Systems Journal 5(2), 1966). On a cyclic sweep that does not fit LRU never hits; this keeps as
// much as fits.
//
// An item used out of order costs hits, never correctness: the order is taken up again after the item's next use in it.
type KnownOrder struct {
	length int64
	cyclic bool
	now    int64   // uses so far. Invariant: now <= length unless cyclic
	uses   []int64 // positions in the order, by id, ascending within each
	first  []int   // id's positions are uses[first[id]:first[id+1]]
}

// NewKnownOrder returns a policy for the ids below items, which will be used in this order: once, or over and over if cyclic. It
// keeps no reference to order.
func NewKnownOrder(items int, order []int, cyclic bool) *KnownOrder {
	p := &KnownOrder{length: int64(len(order)), cyclic: cyclic, uses: make([]int64, len(order)), first: make([]int, items+1)} //mem:ok bookkeeping, 8 bytes a use
	for _, id := range order {
		p.first[id+1]++
	}
	for id := range items {
		p.first[id+1] += p.first[id]
	}
	next := slices.Clone(p.first)
	for at, id := range order {
		p.uses[next[id]] = int64(at)
		next[id]++
	}
	return p
}

// Touch moves past the next use of id.
func (p *KnownOrder) Touch(id int) {
	if d := p.Distance(id); d != math.MaxInt64 {
		p.now += d + 1
	}
}

// Hint does nothing: the order is known.
func (p *KnownOrder) Hint(int) {}

// Distance returns the number of uses of other items before the next of id, or the greatest int64 if there is none.
func (p *KnownOrder) Distance(id int) int64 {
	uses := p.uses[p.first[id]:p.first[id+1]]
	if len(uses) == 0 {
		return math.MaxInt64
	}
	at := p.now
	if p.cyclic {
		at %= p.length
	}
	if i, _ := slices.BinarySearch(uses, at); i < len(uses) {
		return uses[i] - at
	}
	if p.cyclic {
		return uses[0] + p.length - at
	}
	return math.MaxInt64
}
