package compile

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"loadline/graph"
	"loadline/mem"
)

// The automatic choice of what to recompute (compare Chen et al., arXiv 1604.06174; Jain et al., Checkmate, arXiv
// 1910.02653).
//
// Every unit (layer) has a Pareto set of options. Let T(u) be the most bytes in use from unit u upwards, not counting
// what units below u have saved. An option o of unit u gives
//
//	T(u) = max(o.fwd, o.bwd + passing, o.saved + T(u+o.units))
//
// which grows with T above, so keeping the Pareto set of (T, cost) at each unit keeps an optimum for every limit at once.
// Where it is not memory but the saved bytes alone that are limited (Options.Saved), T(u) = o.saved + T(u+o.units).
//
// The list of plans that results does not depend on the limit: the answer to a limit is the dearest-in-memory plan of
// that list whose arena fits, so peak and modelled time are monotonic in the limit by construction.

// point is a plan of the units from some unit upwards.
type point struct {
	peak int64
	cost float64
	opt  *option
	next int32 // index in the points of the unit after opt's
}

// Models of up to exactUnits units are solved exactly. Above, peaks are cut into maxPoints buckets of equal width and the
// cheapest plan of each is kept: a plan is missed only for another that needs less than 1/maxPoints of the range more.
const (
	exactUnits = 6
	maxPoints  = 2048
)

// frontier is the list of plans of a graph: ascending peak, descending cost.
type frontier struct {
	s      *schedule
	saved  bool // peaks are saved bytes
	u      *units
	points [][]point
	base   []decision
}

// Search is recompute auto on one graph, for any number of limits.
type Search struct {
	s      *schedule
	shares []*frontier // by share of what may be offloaded: all, half, none; without offloading one
}

// NewSearch profiles g's layers. Of the options' limits only the kind is used.
func NewSearch(g *graph.Graph, o Options) (*Search, error) {
	o.Recompute, o.Limit = Recompute{Policy: Auto}, 0
	if o.Saved <= 0 {
		o.Limit = 1
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return newSearch(newSchedule(wholeFlow(g, o.Machine)), o)
}

func newSearch(s *schedule, o Options) (*Search, error) {
	base := s.f.policy(Recompute{})
	x := &Search{s: s}
	shares := [][]graph.Value{nil}
	if o.Offload.Activations {
		s.away = away{o.Offload.Tier, o.Machine.Link[o.Offload.Tier]}
		movable := s.offloadable(base) // lowest layers first; none is the last resort of a slow link
		shares = [][]graph.Value{movable, movable[:len(movable)/2], nil}
	}
	for _, share := range shares {
		d := slices.Clone(base)
		for _, v := range share {
			d[v] = offload
		}
		fr := newFrontier(s, o, d)
		if fr == nil {
			return nil, fmt.Errorf("compile: graph %q has no layers in order; recompute auto needs them: name tags instead", s.f.g.Name)
		}
		x.shares = append(x.shares, fr)
	}
	return x, nil
}

// Under returns the fastest program whose device arena is within limit, or with an *OverLimitError the smallest. With
// Options.Saved the limit is of its Saved, and the smallest is the one that saves least.
func (x *Search) Under(limit int64) (*Program, error) {
	var best *Program
	for _, fr := range x.shares {
		p, err := fr.choose(limit)
		if err != nil {
			return nil, err
		}
		if p != nil && (best == nil || p.Seconds < best.Seconds) {
			best = p
		}
	}
	if best == nil {
		least, err := x.Least()
		if err != nil {
			return nil, err
		}
		if best = least; x.shares[0].limited(least) > limit {
			return least, &OverLimitError{x.s.f.g.Name, x.shares[0].limited(least), limit}
		}
	}
	best.Notes = append(best.Notes, "recompute auto: "+best.describe())
	return best, nil
}

// Least returns the program with the smallest device arena.
func (x *Search) Least() (*Program, error) {
	var best *Program
	for _, fr := range x.shares {
		p, err := fr.least()
		if err != nil {
			return nil, err
		}
		if best == nil || fr.limited(p) < fr.limited(best) {
			best = p
		}
	}
	return best, nil
}

// limited is the bytes of a program that a limit is about.
func (fr *frontier) limited(p *Program) int64 {
	if fr.saved {
		return p.Saved
	}
	return p.Arena[mem.Device]
}

// choose compiles the dearest-in-memory plan whose arena is within limit, or returns nil. A plan whose buffers do not pack
// well in a short try is passed over: another of nearly its cost does.
func (fr *frontier) choose(limit int64) (*Program, error) {
	list := fr.points[0]
	i, _ := slices.BinarySearchFunc(list, limit+1, func(p point, x int64) int { return cmp.Compare(p.peak, x) })
	fr.s.quick = true
	defer func() { fr.s.quick = false }()
	for i--; i >= 0; i-- {
		p, err := fr.compile(i)
		if err != nil {
			return nil, err
		}
		if fr.limited(p) <= limit && (fr.saved || packsWell(p)) {
			return p, nil
		}
	}
	return nil, nil
}

// packsWell tells whether the arena is within 2% of the liveness bound.
func packsWell(p *Program) bool { return p.Arena[mem.Device]*100 <= p.Bound[mem.Device]*102 }

// lowestPlans is how many plans least looks at.
const lowestPlans = 6

// least is the program with the smallest arena among the plans with the lowest peaks.
func (fr *frontier) least() (*Program, error) {
	best, arena := -1, int64(0)
	fr.s.quick = true
	for i := range min(lowestPlans, len(fr.points[0])) {
		p, err := fr.compile(i)
		if err != nil {
			fr.s.quick = false
			return nil, err
		}
		if best < 0 || fr.limited(p) < arena {
			best, arena = i, fr.limited(p)
		}
	}
	fr.s.quick = false
	return fr.compile(best) // the long search packs no worse
}

// newFrontier profiles the units and combines them from the top down. It returns nil for a graph that has none.
func newFrontier(s *schedule, o Options, base []decision) *frontier {
	u := newUnits(s.f)
	if u == nil {
		return nil
	}
	fr := &frontier{s: s, u: u, base: base, saved: o.Saved > 0}
	pr := &profiler{u: u, m: o.Machine, base: base, cache: map[string][]option{}, away: s.away}
	n := len(u.nodes)
	fr.points = make([][]point, n+1)
	fr.points[n] = []point{{}}
	update := fr.updatePeak()
	limit := fr.keepPeak()
	for k := n - 1; k >= 0; k-- {
		c := collector{limit: limit, saved: fr.saved}
		if n > exactUnits {
			c.width = limit/maxPoints + 1
		}
		if k == 0 {
			c.least = update
		}
		for hi := k + 1; hi <= min(n, k+maxRun); hi++ {
			os := pr.single(k)
			if hi > k+1 {
				os = pr.runs(k, hi)
			}
			for i := range os {
				c.add(&os[i], u.over(k, hi), fr.points[hi])
			}
		}
		fr.points[k] = c.pareto()
	}
	return fr
}

// collector gathers the plans of one unit.
type collector struct {
	saved bool  // only what is saved counts
	width int64 // of a bucket; 0 keeps every plan
	least int64 // what the update needs anyway
	limit int64 // plans above it are of no use
	ps    []point
}

// add combines an option with every plan of the units above it; above is sorted by peak.
func (c *collector) add(o *option, over int64, above []point) {
	own := max(o.fwd, o.bwd+over, c.least)
	if c.saved {
		own = 0
	}
	from := 0 // of the plans whose peak is hidden by the option's own, only the cheapest matters
	for from+1 < len(above) && o.saved+above[from+1].peak <= own {
		from++
	}
	if c.width > 0 && c.ps == nil {
		c.ps = make([]point, maxPoints+1)
		for i := range c.ps {
			c.ps[i].cost = math.Inf(1)
		}
	}
	for j := from; j < len(above); j++ {
		p := point{max(own, o.saved+above[j].peak), above[j].cost + o.cost, o, int32(j)}
		if p.peak > c.limit {
			break
		}
		if c.width == 0 {
			c.ps = append(c.ps, p)
			continue
		}
		if q := &c.ps[p.peak/c.width]; p.cost < q.cost || p.cost == q.cost && p.peak < q.peak {
			*q = p
		}
	}
}

// pareto returns the plans that no other betters, by ascending peak.
func (c *collector) pareto() []point {
	if c.width == 0 {
		slices.SortFunc(c.ps, func(a, b point) int {
			return cmp.Or(cmp.Compare(a.peak, b.peak), cmp.Compare(a.cost, b.cost), cmp.Compare(a.next, b.next))
		})
	}
	var out []point
	for _, p := range c.ps {
		if p.opt != nil && (len(out) == 0 || p.cost < out[len(out)-1].cost-1e-15) {
			out = append(out, p)
		}
	}
	return out
}

// keepPeak is the peak of keeping everything: no plan needs more.
func (fr *frontier) keepPeak() int64 {
	fr.s.run(fr.base, nil)
	return fr.s.peak()
}

// updatePeak is the most bytes in use in the update phase, which no decision changes.
func (fr *frontier) updatePeak() int64 {
	s := fr.s
	s.run(fr.base, nil)
	var peak int64
	for t, n := range s.timeline() {
		if in := &s.insts[t]; in.kind == instOp && s.f.ops[in.op].phase == graph.Update {
			peak = max(peak, n)
		}
	}
	return peak
}

// compile builds the program of plan i.
func (fr *frontier) compile(i int) (*Program, error) {
	d, nest := fr.decisions(i)
	return fr.s.compile(d, nest)
}

// decisions are those of plan i.
func (fr *frontier) decisions(i int) ([]decision, []bool) {
	f := fr.s.f
	d := slices.Clone(fr.base)
	nest := make([]bool, f.g.Layers)
	roles := f.roles()
	unit := func(v graph.Value) int { return int(fr.u.of[f.ops[f.def[v]].node]) }
	drop := make([]map[string]bool, len(fr.u.nodes))
	inner := make([]bool, len(fr.u.nodes)) // the unit's result is recomputed
	for k := 0; k < len(fr.u.nodes); {
		p := fr.points[k][i]
		m := map[string]bool{}
		for _, r := range p.opt.drop {
			m[r] = true
		}
		for j := range p.opt.units {
			drop[k+j] = m
			inner[k+j] = j < p.opt.units-1
			if k+j < len(nest) {
				nest[k+j] = p.opt.nest
			}
		}
		k += p.opt.units
		i = int(p.next)
	}
	for _, v := range f.cand {
		k := unit(v)
		if d[v] == keep && (drop[k][roles[v]] || inner[k] && f.crossesLayers(v)) {
			d[v] = again
		}
	}
	return d, nest
}
