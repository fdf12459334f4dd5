package compile

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"loadline/graph"
)

// placer is the scratch of fit.
type placer struct {
	p      *Program
	offset []int64
	active []int32   // placed buffers, by offset
	taken  *occupied // in their place where there are many
	down   func(i int32) bool
	tight  bool // the smallest gap, not the lowest
}

// fit places buffers in order, each at the lowest offset where it overlaps none that lives at the same time; those for
// which down holds at the highest such offset that ends within limit, where there is one. It returns the size, or one above most as soon as
// it is known to be.
func (w *placer) fit(order []int32, limit, most int64) (size int64) {
	if w.taken != nil {
		w.taken.clear()
	}
	w.active = w.active[:0]
	for _, i := range order {
		b := &w.p.Buffers[i]
		var at int64
		if w.down != nil && w.down(i) {
			at = w.highest(b, limit)
		} else {
			at = w.lowest(b)
		}
		w.offset[i] = at
		if size = max(size, at+b.Bytes); size > most {
			break
		}
		w.put(i)
	}
	return graph.RoundUp(size)
}

// put notes that buffer i has its place.
func (w *placer) put(i int32) {
	b, at := &w.p.Buffers[i], w.offset[i]
	if w.taken != nil {
		if b.Bytes > 0 {
			w.taken.add(b.First, b.Last, stretch{at, at + b.Bytes})
		}
		return
	}
	pos, _ := slices.BinarySearchFunc(w.active, at, func(j int32, x int64) int {
		return cmp.Or(cmp.Compare(w.offset[j], x), -1)
	})
	w.active = slices.Insert(w.active, pos, i)
}

// gaps calls yield with the ends of each stretch of offsets that is free during b's life, in ascending order, until it returns false. The
// last has no end: math.MaxInt64.
func (w *placer) gaps(b *Buffer, yield func(lo, hi int64) bool) {
	if w.taken != nil {
		w.taken.gaps(b.First, b.Last, yield)
		return
	}
	at := int64(0)
	for _, j := range w.active {
		o := &w.p.Buffers[j]
		if o.First > b.Last || b.First > o.Last {
			continue
		}
		if w.offset[j] > at && !yield(at, w.offset[j]) {
			return
		}
		at = max(at, w.offset[j]+o.Bytes)
	}
	yield(at, math.MaxInt64)
}

// lowest is the lowest offset for b, or that in the smallest gap.
func (w *placer) lowest(b *Buffer) (at int64) {
	if w.taken != nil && !w.tight {
		return w.taken.lowest(b.First, b.Last, b.Bytes)
	}
	least := int64(-1)
	w.gaps(b, func(lo, hi int64) bool {
		if n := hi - lo; n >= b.Bytes && (least < 0 || n < least) {
			least, at = n, lo
		}
		return least < 0 || w.tight && least != b.Bytes
	})
	return at
}

// highest is the highest offset for b that ends within limit, or else the lowest.
func (w *placer) highest(b *Buffer, limit int64) int64 {
	best := int64(-1)
	w.gaps(b, func(lo, hi int64) bool {
		if end := min(hi, limit); end-lo >= b.Bytes {
			best = end - b.Bytes
		}
		return lo < limit
	})
	if best < 0 {
		return w.lowest(b)
	}
	return best &^ (graph.Align - 1)
}

// maxima answers what the largest of some neighbouring numbers is: row k holds the largest of every 2^k of them.
type maxima [][]int64

func newMaxima(x []int64) maxima {
	m := maxima{x}
	for n := 2; n <= len(x); n *= 2 {
		last := m[len(m)-1]
		row := make([]int64, len(x)-n+1) //mem:ok planning runs before arenas are touched
		for i := range row {
			row[i] = max(last[i], last[i+n/2])
		}
		m = append(m, row)
	}
	return m
}

// over is the largest of numbers first to last.
func (m maxima) over(first, last int32) int64 {
	k := bits.Len32(uint32(last-first+1)) - 1
	return max(m[k][first], m[k][last+1-1<<k])
}
