package compile

import (
	"cmp"
	"fmt"
	"slices"

	"loadline/cost"
	"loadline/graph"
)

// option is one way to run a unit, or a run of units: which candidates are recomputed, and what that needs.
type option struct {
	units    int
	nest     bool     // the run's inner layers replay twice
	drop     []string // roles of the candidates that are recomputed
	saved    int64    // bytes it leaves alive for its backward half
	fwd, bwd int64    // most bytes in use in each half, besides what lower units saved
	cost     float64  // seconds of recomputation
}

// maxChoices bounds the candidates that are decided apart: 2^maxChoices subsets are tried for a unit.
const maxChoices = 12

// maxRun is the longest run of units that one option spans.
const maxRun = 8

// profiler finds the Pareto set of options of units and of runs of them. Units of equal structure share a profile.
type profiler struct {
	u     *units
	m     cost.Machine
	base  []decision // what is decided beforehand: gathers, offloads
	cache map[string][]option
	away  away
}

// role names a candidate within its layer, so that a choice can be carried to other layers of the same kind.
func (f *flow) roles() map[graph.Value]string {
	roles := map[graph.Value]string{}
	count := map[string]int{}
	for _, v := range f.cand {
		o := &f.g.Ops[f.ops[f.def[v]].node]
		k := fmt.Sprintf("%d/%s/%s", o.Layer, o.Part, o.Op.Kind())
		count[k]++
		roles[v] = fmt.Sprintf("%s/%s/%d", o.Part, o.Op.Kind(), count[k])
	}
	return roles
}

// choices groups the open candidates of f into at most maxChoices decisions: tiny ones are kept, and where there are too
// many, those of one part are decided together, smallest parts first.
func (p *profiler) choices(f *flow) [][]graph.Value {
	var largest int64
	for _, v := range f.cand {
		largest = max(largest, f.bytes[v])
	}
	var out [][]graph.Value
	for _, v := range f.cand {
		if p.base[v] == keep && 64*f.bytes[v] >= largest {
			out = append(out, []graph.Value{v})
		}
	}
	part := func(c []graph.Value) string { return f.g.Values[c[0]].Part }
	for i := 0; i < len(out) && len(out) > maxChoices; i++ {
		for j := len(out) - 1; j > i && len(out) > maxChoices; j-- {
			if part(out[i]) == part(out[j]) && f.g.Values[out[i][0]].Layer == f.g.Values[out[j][0]].Layer {
				out[i] = append(out[i], out[j]...)
				out = slices.Delete(out, j, j+1)
			}
		}
	}
	if len(out) > maxChoices { // still too many: the smallest are kept
		slices.SortStableFunc(out, func(a, b []graph.Value) int { return cmp.Compare(f.bytes[b[0]], f.bytes[a[0]]) })
		out = out[:maxChoices]
	}
	return out
}

// single profiles unit k alone.
func (p *profiler) single(k int) []option {
	key := fmt.Sprint(p.u.sig[k], k == 0, k == len(p.u.nodes)-1)
	if os, ok := p.cache[key]; ok {
		return os
	}
	f := newFlow(p.u.f.g, p.u.nodes[k], p.m)
	s := newSchedule(f)
	s.away = p.away
	roles := f.roles()
	choices := p.choices(f)
	d := p.start(f)
	var os []option
	for mask := range uint32(1) << len(choices) {
		o := option{units: 1}
		for i, c := range choices {
			for _, v := range c {
				d[v] = keep
				if mask>>i&1 == 1 {
					d[v] = again
					o.drop = append(o.drop, roles[v])
				}
			}
		}
		s.measure(d, nil, &o)
		os = append(os, o)
	}
	os = pareto(os)
	p.cache[key] = os
	return os
}

// start is the decisions of f before any choice.
func (p *profiler) start(f *flow) []decision {
	d := f.keepAll()
	for _, v := range f.cand {
		d[v] = p.base[v]
	}
	return d
}

// runs profiles units lo..hi−1 as one run, whose inner layer inputs are recomputed: below what full recompute of each layer
// reaches. Within the run every layer drops the same roles.
func (p *profiler) runs(lo, hi int) []option {
	key := fmt.Sprint("run", lo == 0, hi == len(p.u.nodes), p.u.sig[lo:hi])
	if os, ok := p.cache[key]; ok {
		return os
	}
	f := newFlow(p.u.f.g, p.u.run(lo, hi), p.m)
	s := newSchedule(f)
	s.away = p.away
	roles := f.roles()
	byUnit := map[string]bool{}
	var inner []graph.Value
	for _, v := range f.cand {
		if f.crossesLayers(v) && p.base[v] == keep && p.u.of[f.ops[f.def[v]].node] < int32(hi-1) {
			inner = append(inner, v)
		}
	}
	nest := make([]bool, p.u.f.g.Layers)
	var os []option
	for _, single := range p.single(min(lo+1, hi-1)) {
		clear(byUnit)
		for _, r := range single.drop {
			byUnit[r] = true
		}
		d := p.start(f)
		for _, v := range f.cand {
			if d[v] == keep && byUnit[roles[v]] {
				d[v] = again
			}
		}
		for _, v := range inner {
			d[v] = again
		}
		for _, twice := range []bool{false, true} {
			o := option{units: hi - lo, nest: twice, drop: single.drop}
			for l := lo; l < hi; l++ {
				nest[l] = twice
			}
			s.measure(d, nest, &o)
			os = append(os, o)
		}
	}
	os = pareto(os)
	p.cache[key] = os
	return os
}

// measure fills what o needs from a run of s under d.
func (s *schedule) measure(d []decision, nest []bool, o *option) {
	s.run(d, nest)
	o.cost, o.saved, o.fwd, o.bwd = s.cost+s.stall, s.saved(), 0, 0
	for t, n := range s.timeline() {
		if int32(t) < s.turn {
			o.fwd = max(o.fwd, n)
		} else {
			o.bwd = max(o.bwd, n)
		}
	}
}

// pareto keeps the options that no other betters in every respect, cheapest first.
func pareto(os []option) []option {
	slices.SortStableFunc(os, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.saved, b.saved), cmp.Compare(max(a.fwd, a.bwd), max(b.fwd, b.bwd)))
	})
	var out []option
next:
	for _, o := range os {
		for i := range out {
			if q := &out[i]; q.saved <= o.saved && q.fwd <= o.fwd && q.bwd <= o.bwd {
				continue next
			}
		}
		out = append(out, o)
	}
	return out
}
