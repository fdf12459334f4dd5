package compile

import "math"

// skyline looks for a layout within a capacity. Buffers are placed in order of offset, each on top of the highest that
// it meets in time; some order of that kind is as good as any layout. Whatever is placed must leave, at every instruction,
// room for what is still to come there, which fails early: at the fullest instructions no hole is allowed (compare Moffitt,
// MiniMalloc, ASPLOS 2023, which also backs up; here a failed try starts anew with other preferences).
type skyline struct {
	p        *Program
	capacity int64
	height   []int64   // by instruction: the top of what is placed
	rest     []int64   // by instruction: bytes still to be placed
	offset   []int64   // by buffer
	weight   []float64 // by buffer: of those at the lowest offset, the heaviest goes first
	branch   int       // of so many, one that wastes less may go before
	open     []piece   // what is still to be placed
}

// piece is a buffer that is still to be placed: all that a step looks at lies side by side.
type piece struct {
	id          int32
	first, last int32
	bytes       int64
	offset      int64
	weight      float64
}

// before tells whether a goes before b.
func (a *piece) before(b *piece) bool {
	return a.offset < b.offset || a.offset == b.offset && a.weight > b.weight
}

// search places ids and reports whether they fit.
func (s *skyline) search(ids []int32) bool {
	n := len(s.p.Instrs)
	s.height = make([]int64, n) //mem:ok planning runs before arenas are touched
	s.rest = use(s.p, ids)[:n]
	s.open = make([]piece, len(ids)) //mem:ok planning runs before arenas are touched
	// What would lie at or above the lowest top that any open buffer reaches can be put off. The first in order lies below it.
	lowest, begin := int64(math.MaxInt64), 0
	for k, i := range ids {
		b := &s.p.Buffers[i]
		s.open[k] = piece{i, b.First, b.Last, b.Bytes, 0, s.weight[i]}
		lowest = min(lowest, b.Bytes)
		if s.open[k].before(&s.open[begin]) {
			begin = k
		}
	}
	var fits []int
	for len(s.open) > 0 {
		fits = s.favourites(fits[:0], begin, lowest)
		if len(fits) == 0 {
			return false
		}
		best := fits[0]
		if len(fits) > 1 {
			least := s.waste(best)
			for _, k := range fits[1:] {
				if w := s.waste(k); w < least {
					best, least = k, w
				}
			}
		}
		b := s.open[best]
		s.offset[b.id] = b.offset
		top := b.offset + b.bytes
		for t := b.first; t <= b.last; t++ {
			s.height[t] = top
			s.rest[t] -= b.bytes
		}
		// All of what best covers is now as high as its top, so whoever meets it in time starts there or higher.
		open := s.open[:0]
		lowest, begin = math.MaxInt64, 0
		for k := range s.open {
			if k == best {
				continue
			}
			x := s.open[k]
			if x.first <= b.last && b.first <= x.last {
				x.offset = max(x.offset, top)
			}
			lowest = min(lowest, x.offset+x.bytes)
			open = append(open, x)
			if x.before(&open[begin]) {
				begin = len(open) - 1
			}
		}
		s.open = open
	}
	return true
}

// favourites appends to fits the first branch places in open, in order and from begin on, that start below lowest and leave room.
func (s *skyline) favourites(fits []int, begin int, lowest int64) []int {
	for last := begin; ; {
		if s.roomy(&s.open[last]) {
			if fits = append(fits, last); len(fits) == s.branch {
				return fits
			}
		}
		best := -1 // the next one; ties go by place in open
		for k := range s.open {
			if x := &s.open[k]; x.offset < lowest && s.open[last].before(x) && (best < 0 || x.before(&s.open[best])) {
				best = k
			}
		}
		if best < 0 {
			return fits
		}
		last = best
	}
}

// roomy tells whether what is still to come fits after x is placed.
func (s *skyline) roomy(x *piece) bool {
	for _, n := range s.rest[x.first : x.last+1] {
		if x.offset+n > s.capacity {
			return false
		}
	}
	return true
}

// waste is the area under the open buffer k that nothing can use any more.
func (s *skyline) waste(k int) (n int64) {
	x := &s.open[k]
	for _, h := range s.height[x.first : x.last+1] {
		n += x.offset - h
	}
	return n
}
