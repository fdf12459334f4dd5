package compile

import "slices"

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
}

// search places ids and reports whether they fit.
func (s *skyline) search(ids []int32) bool {
	n := len(s.p.Instrs)
	s.height = make([]int64, n) //mem:ok planning runs before arenas are touched
	s.rest = use(s.p, ids)[:n]
	open := slices.Clone(ids)
	for _, i := range open {
		s.offset[i] = 0
	}
	var fits []int32
	for len(open) > 0 {
		// What would lie at or above the lowest top that any open buffer reaches can be put off.
		lowest := int64(-1)
		for _, i := range open {
			if end := s.offset[i] + s.p.Buffers[i].Bytes; lowest < 0 || end < lowest {
				lowest = end
			}
		}
		fits = s.favourites(fits[:0], open, lowest)
		if len(fits) == 0 {
			return false
		}
		best := fits[0]
		for _, i := range fits[1:] {
			if s.waste(i) < s.waste(best) {
				best = i
			}
		}
		b := &s.p.Buffers[best]
		top := s.offset[best] + b.Bytes
		for t := b.First; t <= b.Last; t++ {
			s.height[t] = top
			s.rest[t] -= b.Bytes
		}
		// All of what best covers is now as high as its top, so whoever meets it in time starts there or higher.
		k := 0
		for _, i := range open {
			if i == best {
				continue
			}
			if o := &s.p.Buffers[i]; o.First <= b.Last && b.First <= o.Last {
				s.offset[i] = max(s.offset[i], top)
			}
			open[k] = i
			k++
		}
		open = open[:k]
	}
	return true
}

// favourites appends to fits the first branch buffers of open by offset and weight that start below lowest and leave room.
func (s *skyline) favourites(fits, open []int32, lowest int64) []int32 {
	before := func(a, b int32) bool {
		if s.offset[a] != s.offset[b] {
			return s.offset[a] < s.offset[b]
		}
		return s.weight[a] > s.weight[b]
	}
	last := int32(-1) // the last one considered; ties go by place in open
	for len(fits) < s.branch {
		best := int32(-1)
		for _, i := range open {
			if s.offset[i] < lowest && (last < 0 || before(last, i)) && (best < 0 || before(i, best)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		if last = best; s.roomy(best) {
			fits = append(fits, best)
		}
	}
	return fits
}

// roomy tells whether what is still to come fits after buffer i is placed.
func (s *skyline) roomy(i int32) bool {
	b := &s.p.Buffers[i]
	for t := b.First; t <= b.Last; t++ {
		if s.offset[i]+s.rest[t] > s.capacity {
			return false
		}
	}
	return true
}

// waste is the area under buffer i that nothing can use any more.
func (s *skyline) waste(i int32) int64 {
	b := &s.p.Buffers[i]
	var n int64
	for t := b.First; t <= b.Last; t++ {
		n += s.offset[i] - s.height[t]
	}
	return n
}
