package compile

import (
	"cmp"
	"math"
	"slices"

	"loadline/mem"
)

// layout gives every buffer of the arena an offset in its tier and sets the arenas' sizes and the liveness bounds.
//
// Offsets come from first-fit over buffers in a fixed order (Pisarchyk & Lee, arXiv 2001.03288): largest first reaches
// the bound in regular programs. Where it does not, other orders are tried: what is alive at the peak by lifetime and then the
// rest by size (which settles steps with standard attention), all by lifetime, by area. Then the order is improved by moving the buffer that made the peak forward, a bounded number of times. The best wins; ties keep the first.
func layout(p *Program, quick bool) {
	for t := range mem.Tier(mem.NumTiers) {
		ids := p.arenaBuffers(t)
		if len(ids) == 0 {
			continue
		}
		p.Bound[t] = bound(p, ids)
		p.Arena[t] = place(p, ids, p.Bound[t], quick)
	}
}

// bound is the largest sum of bytes alive at one instruction.
func bound(p *Program, ids []int32) int64 {
	n, _ := alive(p, ids)
	return n
}

// fullest is the first instruction at which the most bytes are alive.
func fullest(p *Program, ids []int32) int32 {
	_, at := alive(p, ids)
	return at
}

func alive(p *Program, ids []int32) (best int64, at int32) {
	for t, n := range use(p, ids) {
		if n > best {
			best, at = n, int32(t)
		}
	}
	return best, at
}

// use is the bytes alive at every instruction.
func use(p *Program, ids []int32) []int64 {
	d := make([]int64, len(p.Instrs)+1)
	for _, i := range ids {
		b := &p.Buffers[i]
		d[b.First] += b.Bytes
		d[b.Last+1] -= b.Bytes
	}
	for t := 1; t < len(d); t++ {
		d[t] += d[t-1]
	}
	return d
}

// Each climb ends after improveMoves moves, or sooner in large programs.
const (
	improveMoves = 100
	improveWork  = 50_000 // buffers placed
	patience     = 40     // moves without a better order before going back
	climbs       = 2      // orders that are improved
)

// Of hugePrograms buffers or more, which long searches take minutes for, an order that comes as near to the bound as this part of it does,
// and in a short try the best of the plain orders.
const (
	hugePrograms = 6000
	nearEnough   = 200
	plainKeys    = 2 // of the orders, those that take least time to try
)

// place chooses offsets for ids and returns the arena's size.
func place(p *Program, ids []int32, bound int64, quick bool) int64 {
	w := &placer{p: p, offset: make([]int64, len(p.Buffers))}
	if len(ids) >= manyBuffers {
		w.taken = newOccupied(len(p.Instrs))
	}
	enough := bound
	huge := len(ids) >= hugePrograms
	if huge {
		enough += bound / nearEnough
	}
	span := func(i int32) int64 { return int64(p.Buffers[i].Last - p.Buffers[i].First + 1) }
	at := fullest(p, ids)
	most := newMaxima(use(p, ids))
	pressure := func(b *Buffer) float64 { // of the bound, in steps of 1/32; 0 below one half
		q := 32 * float64(most.over(b.First, b.Last)) / float64(bound)
		if q < 16 {
			return 0
		}
		return math.Floor(q)
	}
	keys := []func(i int32) int64{
		func(i int32) int64 { return p.Buffers[i].Bytes },
		func(i int32) int64 { // what is alive at the peak first, longest life first; then the rest by size
			if b := &p.Buffers[i]; b.First <= at && at <= b.Last {
				return 1<<60 + span(i)
			}
			return p.Buffers[i].Bytes
		},
		func(i int32) int64 { // what is alive when the arena is nearly full, fullest first
			return int64(pressure(&p.Buffers[i])*1e6)<<24 + span(i)
		},
		span,
		func(i int32) int64 { return p.Buffers[i].Bytes * span(i) },
	}
	var tries []attempt
	kept := climbs
	if quick {
		kept = 1
	}
	try := func(order []int32, down func(int32) bool) int64 {
		for _, w.tight = range []bool{false, true} {
			if w.tight && huge && quick {
				break
			}
			x := attempt{order, down, w.tight, 0}
			if k := slices.IndexFunc(tries, x.same); k >= 0 {
				x.size = tries[k].size // more than enough
			} else {
				w.down = down
				x.size = w.fit(order, bound, worth(tries, kept))
			}
			if tries = append(tries, x); x.size <= enough {
				return x.size
			}
		}
		return enough + 1
	}
	rank := make([]int64, len(p.Buffers)) //mem:ok planning runs before arenas are touched
	for k, key := range keys {
		if k == plainKeys && huge && !quick { // what is left takes as long as these, and ends seldom
			if n := w.skylines(ids, bound, quick, 0, bound/nearEnough); n > 0 {
				return w.settle(ids, n)
			}
		}
		o := slices.Clone(ids)
		for _, i := range ids {
			rank[i] = key(i)
		}
		slices.SortStableFunc(o, func(a, b int32) int {
			return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(p.Buffers[b].Bytes, p.Buffers[a].Bytes))
		})
		if n := try(o, nil); n <= enough {
			return w.settle(ids, n)
		}
	}
	if huge && quick {
		return w.best(ids, tries, bound)
	}
	least := int64(0)
	if huge {
		least = enough - bound + 1 // less was tried above
	}
	if n := w.skylines(ids, bound, quick, least, math.MaxInt64); n > 0 {
		return w.settle(ids, n)
	}
	if quick {
		return w.best(ids, tries, bound)
	}
	// Two ends: what lives long from the bottom up, as on a stack in order of birth or by another key; what lives for at
	// most cut instructions from the top down, by size or by lifetime.
	birth := func(i int32) int64 { return -int64(p.Buffers[i].First) }
	for cut := int64(2); cut <= 64; cut *= 2 {
		short := func(i int32) bool { return span(i) <= cut }
		for _, long := range []func(int32) int64{birth, keys[0], keys[1]} {
			for _, brief := range []func(int32) int64{span, keys[0]} {
				o := slices.Clone(ids)
				slices.SortStableFunc(o, func(a, b int32) int {
					switch sa, sb := short(a), short(b); {
					case sa != sb && sb:
						return -1
					case sa != sb:
						return 1
					case sa:
						return cmp.Or(cmp.Compare(brief(b), brief(a)), cmp.Compare(p.Buffers[b].Bytes, p.Buffers[a].Bytes))
					}
					return cmp.Or(cmp.Compare(long(b), long(a)), cmp.Compare(p.Buffers[b].Bytes, p.Buffers[a].Bytes))
				})
				if n := try(o, short); n <= enough {
					return w.settle(ids, n)
				}
			}
		}
	}
	slices.SortStableFunc(tries, func(a, b attempt) int { return cmp.Compare(a.size, b.size) })
	tries = tries[:min(climbs, len(tries))]
	tries = slices.CompactFunc(tries, func(a, b attempt) bool { return a.same(b) }) // what is improved twice comes out the same
	for k := range tries {
		w.climb(&tries[k], bound)
	}
	return w.best(ids, tries, bound)
}

// worth is the size above which another attempt is of no use, where the smallest few are looked at again.
func worth(tries []attempt, few int) int64 {
	if len(tries) < few {
		return math.MaxInt64
	}
	var sizes []int64
	for _, a := range tries {
		sizes = append(sizes, a.size)
	}
	slices.Sort(sizes)
	return sizes[few-1]
}

// best settles the smallest attempt; of equals the first.
func (w *placer) best(ids []int32, tries []attempt, bound int64) int64 {
	a := slices.MinFunc(tries, func(a, b attempt) int { return cmp.Compare(a.size, b.size) })
	w.down, w.tight = a.down, a.tight
	n := w.fit(a.order, bound, math.MaxInt64)
	return w.settle(ids, n)
}

// restarts bounds the searches of skylines at each capacity.
const restarts = 20

// skylines searches at the bound and a little above it, from least to most bytes, by lifetime, by size and by area, and then with each buffer's
// preference disturbed at random. It returns the size found, or 0.
func (w *placer) skylines(ids []int32, bound int64, quick bool, least, most int64) int64 {
	bs := w.p.Buffers
	span := func(i int32) float64 { return float64(bs[i].Last - bs[i].First + 1) }
	keys := []func(i int32) float64{span, func(i int32) float64 { return float64(bs[i].Bytes) }, func(i int32) float64 { return float64(bs[i].Bytes) * span(i) }}
	weight := make([]float64, len(bs)) //mem:ok planning runs before arenas are touched
	s := newSkyline(w.p, ids, w.offset)
	rng := uint64(len(ids))
	tries := restarts
	slacks := []int64{0, 4, 10, 18} // thousandths
	if len(ids) > 1000 {
		tries = 6
	}
	if quick {
		tries, slacks = 3, []int64{0, 18}
	}
	for _, slack := range slacks {
		if above := bound * slack / 1000; above < least || above > most {
			continue
		}
		for k := range max(3, tries>>min(slack, 1)) {
			for _, i := range ids {
				weight[i] = keys[k%3](i) * (1 + 1e-9*float64(i)) // no two alike
				if k >= 6 {
					rng = rng*6364136223846793005 + 1442695040888963407
					weight[i] *= 0.3 + float64(rng>>40)/(1<<24)
				}
			}
			if s.search(bound+bound*slack/1000, weight, 1+7*(k/3%2)) {
				var size int64
				for _, i := range ids {
					size = max(size, w.offset[i]+bs[i].Bytes)
				}
				return size
			}
		}
	}
	return 0
}

// attempt is an order of placing and the size that it reaches.
type attempt struct {
	order []int32
	down  func(int32) bool
	tight bool
	size  int64
}

// same tells whether a places as b does.
func (a *attempt) same(b attempt) bool {
	if a.tight != b.tight || !slices.Equal(a.order, b.order) {
		return false
	}
	down := func(a *attempt, i int32) bool { return a.down != nil && a.down(i) }
	return !slices.ContainsFunc(a.order, func(i int32) bool { return down(a, i) != down(&b, i) })
}

// settle writes the offsets of the last fit into the program.
func (w *placer) settle(ids []int32, size int64) int64 {
	for _, i := range ids {
		w.p.Buffers[i].Offset = w.offset[i]
	}
	return size
}

// climb improves an attempt by squeaky-wheel optimisation (Joslin & Clements, JAIR 10, 1999): buffers that end above the
// bound are placed earlier the next time. It keeps the best order and returns to it when it has long seen no better.
func (w *placer) climb(a *attempt, bound int64) {
	w.down, w.tight = a.down, a.tight
	n := len(a.order)
	order := slices.Clone(a.order)
	rank := make([]float64, len(w.p.Buffers)) //mem:ok planning runs before arenas are touched
	rng, since := uint64(n)+1, 0
	for k := 0; k < improveWork/n && k < improveMoves && a.size > bound; k++ {
		size := w.fit(order, bound, math.MaxInt64)
		if since++; size < a.size {
			a.size, since = size, 0
			a.order = slices.Clone(order)
		}
		if since > patience {
			copy(order, a.order)
			since = 0
			w.fit(order, bound, math.MaxInt64)
		}
		for i, j := range order {
			rank[j] = float64(i)
			if w.offset[j]+w.p.Buffers[j].Bytes > bound {
				rng = rng*6364136223846793005 + 1442695040888963407
				rank[j] *= float64(rng>>40) / (1 << 24)
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(rank[a], rank[b]) })
	}
}
