package compile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loadline/graph"
	"loadline/mem"
)

// The sets of a skyline give the places that a look at every buffer at every step gives.
func TestSkyline(t *testing.T) {
	tried := map[bool]int{}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := randomProgram(rng, 1+rng.IntN(300), 1+rng.IntN(200))
		if seed%3 == 0 { // many alike, one after another, as pieces of States are
			for i := range p.Buffers {
				b := &p.Buffers[i]
				b.First, b.Bytes = int32(i*len(p.Instrs)/len(p.Buffers)), 4096*int64(1+i%2)
				b.Last = min(b.First+int32(rng.IntN(8)), int32(len(p.Instrs)-1))
			}
		}
		if seed%7 == 0 { // some are empty
			for range 1 + len(p.Buffers)/8 {
				p.Buffers[rng.IntN(len(p.Buffers))].Bytes = 0
			}
		}
		ids := p.arenaBuffers(mem.Device)
		most := bound(p, ids)
		weight := make([]float64, len(p.Buffers))
		want, got := make([]int64, len(p.Buffers)), make([]int64, len(p.Buffers))
		s := newSkyline(p, ids, got)
		for try := range 12 { // each begins with what the one before has left
			for i := range weight {
				switch weight[i] = rng.Float64(); {
				case try%4 == 1:
					weight[i] = float64(p.Buffers[i].Last - p.Buffers[i].First)
				case try%4 == 2:
					weight[i] = float64(p.Buffers[i].Bytes) * (1 + 1e-9*float64(i))
				}
			}
			capacity, branch := graph.RoundUp(most+most*int64(rng.IntN(30)*(try%3))/100), 1+rng.IntN(2)*rng.IntN(9)
			clear(want)
			clear(got)
			plain := &plainSkyline{p: p, capacity: capacity, offset: want, weight: weight, branch: branch}
			a, b := plain.search(ids), s.search(capacity, weight, branch)
			if a != b || !slices.Equal(want, got) {
				t.Fatalf("seed %d, try %d: fits %v, want %v; offsets\n%v, want\n%v", seed, try, b, a, got, want)
			}
			tried[a]++
		}
	}
	if tried[true] < 200 || tried[false] < 200 {
		t.Errorf("of the searches %d end well and %d do not", tried[true], tried[false])
	}
}

// plainSkyline is skyline without sets.
type plainSkyline struct {
	p        *Program
	capacity int64
	height   []int64      // by instruction: the top of what is placed
	rest     []int64      // by instruction: bytes still to be placed
	offset   []int64      // by buffer
	weight   []float64    // by buffer: of those at the lowest offset, the heaviest goes first
	branch   int          // of so many, one that wastes less may go before
	open     []plainPiece // what is still to be placed
}

// plainPiece is a buffer that is still to be placed: all that a step looks at lies side by side.
type plainPiece struct {
	id          int32
	first, last int32
	bytes       int64
	offset      int64
	weight      float64
}

// before tells whether a goes before b.
func (a *plainPiece) before(b *plainPiece) bool {
	return a.offset < b.offset || a.offset == b.offset && a.weight > b.weight
}

// search places ids and reports whether they fit.
func (s *plainSkyline) search(ids []int32) bool {
	n := len(s.p.Instrs)
	s.height = make([]int64, n)
	s.rest = use(s.p, ids)[:n]
	s.open = make([]plainPiece, len(ids))
	// What would lie at or above the lowest top that any open buffer reaches can be put off. The first in order lies below it.
	lowest, begin := int64(math.MaxInt64), 0
	for k, i := range ids {
		b := &s.p.Buffers[i]
		s.open[k] = plainPiece{i, b.First, b.Last, b.Bytes, 0, s.weight[i]}
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
func (s *plainSkyline) favourites(fits []int, begin int, lowest int64) []int {
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
func (s *plainSkyline) roomy(x *plainPiece) bool {
	for _, n := range s.rest[x.first : x.last+1] {
		if x.offset+n > s.capacity {
			return false
		}
	}
	return true
}

// waste is the area under the open buffer k that nothing can use any more.
func (s *plainSkyline) waste(k int) (n int64) {
	x := &s.open[k]
	for _, h := range s.height[x.first : x.last+1] {
		n += x.offset - h
	}
	return n
}
