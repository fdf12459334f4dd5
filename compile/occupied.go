package compile

import (
	"math"
	"slices"
)

// manyBuffers is from how many buffers on placing goes by sets of offsets. With fewer, a look at each buffer is quicker; both give the
// same places.
const manyBuffers = 1500

// stretch is the offsets from lo to hi−1.
type stretch struct{ lo, hi int64 }

// stretches is a set of offsets: ascending, none meets or touches the next. Buffers that lie side by side are one stretch, so a stack of any
// height is.
type stretches []stretch

// add adds s.
func (a stretches) add(s stretch) stretches {
	from, _ := slices.BinarySearchFunc(a, s.lo, func(x stretch, lo int64) int { // the first that ends at lo or above
		if x.hi < lo {
			return -1
		}
		return 1
	})
	to := from
	for to < len(a) && a[to].lo <= s.hi {
		to++
	}
	if from == to {
		return slices.Insert(a, from, s)
	}
	a[from] = stretch{min(a[from].lo, s.lo), max(a[to-1].hi, s.hi)}
	return slices.Delete(a, from+1, to)
}

// occupied is which offsets are taken when: a tree over instructions, whose node k has the nodes 2k and 2k+1 below it. whole is what buffers take
// in all of a node's instructions that do not do so in all of the node's above it; any is what some buffer takes in some of them. So a question about a
// few instructions looks at the two sets of a few nodes.
type occupied struct {
	leaves     int // a power of two
	whole, any []stretches
	sets       []stretches // of the question in progress
}

func newOccupied(instrs int) *occupied {
	n := 1
	for n < instrs {
		n *= 2
	}
	return &occupied{leaves: n, whole: make([]stretches, 2*n), any: make([]stretches, 2*n)} //mem:ok planning runs before arenas are touched
}

// clear empties o.
func (o *occupied) clear() {
	for k := range o.whole {
		o.whole[k], o.any[k] = o.whole[k][:0], o.any[k][:0]
	}
}

// add takes the offsets of s from instruction first to last.
func (o *occupied) add(first, last int32, s stretch) {
	o.addTo(1, 0, o.leaves, int(first), int(last)+1, s)
}

// addTo does so in node k, of instructions lo to hi−1.
func (o *occupied) addTo(k, lo, hi, first, end int, s stretch) {
	o.any[k] = o.any[k].add(s)
	if first <= lo && hi <= end {
		o.whole[k] = o.whole[k].add(s)
		return
	}
	mid := (lo + hi) / 2
	if first < mid {
		o.addTo(2*k, lo, mid, first, end, s)
	}
	if end > mid {
		o.addTo(2*k+1, mid, hi, first, end, s)
	}
}

// collect puts into sets what is taken in some instruction from first to last.
func (o *occupied) collect(first, last int32) {
	o.sets = o.sets[:0]
	o.collectFrom(1, 0, o.leaves, int(first), int(last)+1)
}

func (o *occupied) collectFrom(k, lo, hi, first, end int) {
	set := o.whole[k]
	inside := first <= lo && hi <= end
	if inside {
		set = o.any[k]
	}
	if len(set) > 0 {
		o.sets = append(o.sets, set)
	}
	if inside || len(o.any[k]) == 0 {
		return
	}
	mid := (lo + hi) / 2
	if first < mid {
		o.collectFrom(2*k, lo, mid, first, end)
	}
	if end > mid {
		o.collectFrom(2*k+1, mid, hi, first, end)
	}
}

// lowest is the lowest offset with n free bytes from instruction first to last.
func (o *occupied) lowest(first, last int32, n int64) int64 {
	o.collect(first, last)
	at := int64(0)
	for moved := true; moved; {
		moved = false
		for k, s := range o.sets {
			i := 0
			for i < len(s) && s[i].lo < at+n {
				if s[i].hi > at {
					at, moved = s[i].hi, true
				}
				i++
			}
			o.sets[k] = s[i:]
		}
	}
	return at
}

// gaps calls yield with the ends of each stretch of free offsets from instruction first to last, in ascending order, until it returns false. The last
// has no end: math.MaxInt64.
func (o *occupied) gaps(first, last int32, yield func(lo, hi int64) bool) {
	o.collect(first, last)
	for at := int64(0); ; {
		next := stretch{math.MaxInt64, math.MaxInt64}
		for k, s := range o.sets {
			i := 0
			for i < len(s) && s[i].lo <= at {
				at = max(at, s[i].hi)
				i++
			}
			if o.sets[k] = s[i:]; i < len(s) && s[i].lo < next.lo {
				next = s[i]
			}
		}
		if next.lo > at {
			if !yield(at, next.lo) || next.lo == math.MaxInt64 {
				return
			}
			at = next.hi
		}
	}
}
