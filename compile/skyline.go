package compile

import (
	"cmp"
	"slices"
)

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
	var fits []int32
	for len(open) > 0 {
		// What would lie at or above the lowest top that any open buffer reaches can be put off.
		lowest := int64(-1)
		for _, i := range open {
			b := &s.p.Buffers[i]
			s.offset[i] = slices.Max(s.height[b.First : b.Last+1])
			if end := s.offset[i] + b.Bytes; lowest < 0 || end < lowest {
				lowest = end
			}
		}
		fits = fits[:0]
		for _, i := range open {
			if s.offset[i] < lowest && s.roomy(i) {
				fits = append(fits, i)
			}
		}
		if len(fits) == 0 {
			return false
		}
		slices.SortStableFunc(fits, func(a, b int32) int {
			return cmp.Or(cmp.Compare(s.offset[a], s.offset[b]), cmp.Compare(s.weight[b], s.weight[a]))
		})
		best := fits[0]
		for _, i := range fits[1:max(1, min(len(fits), s.branch))] {
			if s.waste(i) < s.waste(best) {
				best = i
			}
		}
		b := &s.p.Buffers[best]
		for t := b.First; t <= b.Last; t++ {
			s.height[t] = s.offset[best] + b.Bytes
			s.rest[t] -= b.Bytes
		}
		open = slices.DeleteFunc(open, func(i int32) bool { return i == best })
	}
	return true
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
