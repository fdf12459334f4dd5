package compile

import (
	"fmt"

	"loadline/graph"
)

// policy is the decisions of a fixed recompute policy.
//
// Full keeps what enters a layer and recomputes the rest of the layer; Tags recomputes what the named parts make, but for
// a part's result that is small beside its insides: of standard attention's core the probabilities are computed again and what
// the core hands on is kept, which saves the last product. Row statistics are always kept, and so is what stands outside
// of the layers. In a gathered weight (ZeRO-3) there is nothing to choose: it is gathered again.
func (f *flow) policy(r Recompute) []decision {
	d := f.keepAll()
	small := func(graph.Value) bool { return false }
	if r.Policy == Tags {
		small = f.smallResults()
	}
	for _, v := range f.cand {
		o := &f.ops[f.def[v]]
		switch {
		case f.gathered(v):
			d[v] = again
		case r.Policy == Full && o.layer >= 0 && !f.crossesLayers(v):
			d[v] = again
		case r.Policy == Tags:
			for _, t := range r.Tags {
				if matches(f.g.Ops[o.node].Part, t) && !small(v) {
					d[v] = again
				}
			}
		}
	}
	return d
}

// smallPart is how many times larger a part's insides are than a result that is kept.
const smallPart = 4

// smallResults tells of a candidate whether it leaves its part, for a forward operation of another, and the part has candidates that do not,
// of at least smallPart times its bytes.
func (f *flow) smallResults() func(v graph.Value) bool {
	type place struct {
		layer int
		part  string
	}
	of := func(o *flowOp) place {
		n := &f.g.Ops[o.node]
		return place{n.Layer, n.Part}
	}
	leaves := make([]bool, len(f.bytes))
	for i := range f.ops {
		x := &f.ops[i]
		if x.phase != graph.Forward {
			break
		}
		for _, v := range x.in {
			if v != graph.None && f.def[v] >= 0 && of(&f.ops[f.def[v]]) != of(x) {
				leaves[v] = true
			}
		}
	}
	inside := map[place]int64{}
	for _, v := range f.cand {
		if !leaves[v] {
			inside[of(&f.ops[f.def[v]])] += f.bytes[v]
		}
	}
	return func(v graph.Value) bool { return leaves[v] && inside[of(&f.ops[f.def[v]])] >= smallPart*f.bytes[v] }
}

// gathered tells whether v is a weight gathered from shards.
func (f *flow) gathered(v graph.Value) bool {
	_, ok := f.g.Ops[f.ops[f.def[v]].node].Op.(graph.AllGather)
	return ok
}

// describe says in words what a program recomputes, by part, with the bytes that are not kept and the modelled cost.
func (p *Program) describe() string {
	type line struct {
		part    string
		n       int
		seconds float64
	}
	var lines []line
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if !in.Again {
			continue
		}
		k := 0
		for k < len(lines) && lines[k].part != in.Part {
			k++
		}
		if k == len(lines) {
			lines = append(lines, line{part: in.Part})
		}
		lines[k].n++
		lines[k].seconds += in.Seconds
	}
	if len(lines) == 0 {
		return "nothing is computed again"
	}
	s := "computed again: "
	for i, l := range lines {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s ×%d", l.part, l.n)
	}
	return s + fmt.Sprintf("; %.1f%% of the step's modelled time", 100*p.Again/p.Seconds)
}
