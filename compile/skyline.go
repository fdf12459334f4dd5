package compile

// skyline looks for a layout within a capacity. Buffers are placed in order of offset, each on top of the highest that
// it meets in time; some order of that kind is as good as any layout. Whatever is placed must leave, at every instruction,
// room for what is still to come there, which fails early: at the fullest instructions no hole is allowed (compare Moffitt,
// MiniMalloc, ASPLOS 2023, which also backs up; here a failed try starts anew with other preferences).
//
// A step asks for the first few open buffers in order, for the largest and the sum of what stands at the instructions of each, and raises all that it meets. Looking at each
// buffer for that is quadratic, and took minutes for the thousands of pieces of an optimizer's State; the sets here answer by parts.
type skyline struct {
	offset []int64 // by buffer
	open   *openSet
	need   []int64 // by instruction: bytes to be placed
	rest   rising  // bytes still to be placed
	height level   // the top of what is placed
	fits   []int32
}

// newSkyline is for searches of ids, which write to offset.
func newSkyline(p *Program, ids []int32, offset []int64) *skyline {
	n := len(p.Instrs)
	return &skyline{offset: offset, open: newOpenSet(p, ids), need: use(p, ids)[:n], rest: newRising(n), height: newLevel(n)}
}

// search places the buffers within capacity and reports whether they fit. Of those at the lowest offset the heaviest goes first, but of so many as branch
// says one that wastes less may go before.
func (s *skyline) search(capacity int64, weight []float64, branch int) bool {
	o := s.open
	o.fill(weight)
	s.rest.fill(s.need)
	s.height.clear()
	for range o.leaf {
		s.favourites(capacity, branch)
		if len(s.fits) == 0 {
			return false
		}
		best := s.fits[0]
		if len(s.fits) > 1 {
			least := s.waste(best)
			for _, k := range s.fits[1:] {
				if w := s.waste(k); w < least {
					best, least = k, w
				}
			}
		}
		b, at := &o.leaf[best], o.offset(best)
		s.offset[b.id] = at
		top := at + b.bytes
		s.height.set(b.first, b.last, top)
		s.rest.add(b.first, b.last, -b.bytes)
		o.remove(best)
		// All of what b covers is now as high as its top, so whoever meets it in time starts there or higher.
		o.raise(b.first, b.last, top)
	}
	return true
}

// favourites sets fits to the first branch open buffers, in order, that leave room. What would lie at or above the lowest top that any open buffer reaches
// can be put off. The first in order lies below it.
func (s *skyline) favourites(capacity int64, branch int) {
	o := s.open
	s.fits = s.fits[:0]
	lowest := o.lowest()
	last := int32(-1)
	for k := o.begin(); k >= 0; k = o.next() {
		switch {
		case last < 0 && o.plain:
		case o.offset(k) >= lowest:
			return
		case last >= 0 && o.offset(k) == o.offset(last) && o.leaf[k].weight == o.leaf[last].weight:
			continue
		}
		last = k
		b := &o.leaf[k]
		if o.offset(k)+s.rest.over(b.first, b.last) > capacity { // what is still to come would not fit
			o.hinder(k)
			continue
		}
		if s.fits = append(s.fits, k); len(s.fits) == branch {
			return
		}
	}
}

// waste is the area under open buffer k that nothing can use any more.
func (s *skyline) waste(k int32) int64 {
	b := &s.open.leaf[k]
	return s.open.offset(k)*int64(b.last-b.first+1) - s.height.sum(b.first, b.last)
}
