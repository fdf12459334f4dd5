package compile

import (
	"fmt"
	"slices"

	"loadline/graph"
)

// policy is the decisions of a fixed recompute policy.
//
// Full keeps what enters a layer and recomputes the rest of the layer; Tags recomputes what the named parts make, but for
// a part's result that is small beside its insides: of standard attention's core the scores are computed again and what
// the core hands on is kept, which saves the last product. Row statistics are always kept, and so is what stands outside
// of the layers. In a gathered weight (ZeRO-3) there is nothing to choose: it is gathered again.
func (f *flow) policy(r Recompute) []decision {
	d := f.keepAll()
	for _, v := range f.cand {
		o := &f.ops[f.def[v]]
		switch {
		case f.gathered(v):
			d[v] = again
		case r.Policy == Full && o.layer >= 0 && !f.crossesLayers(v):
			d[v] = again
		case r.Policy == Tags:
			for _, t := range r.Tags {
				if matches(f.g.Ops[o.node].Part, t) && !f.smallResult(v) {
					d[v] = again
				}
			}
		}
	}
	return d
}

// smallResult tells whether v leaves its part, and the part has candidates that do not, of at least smallPart times v's bytes.
func (f *flow) smallResult(v graph.Value) bool {
	var inside int64
	o := &f.g.Ops[f.ops[f.def[v]].node]
	for _, x := range f.cand {
		if n := &f.g.Ops[f.ops[f.def[x]].node]; n.Layer == o.Layer && n.Part == o.Part && !f.leavesPart(x) {
			inside += f.bytes[x]
		}
	}
	return inside >= smallPart*f.bytes[v] && f.leavesPart(v)
}

// smallPart is how many times larger a part's insides are than a result that is kept.
const smallPart = 4

// leavesPart tells whether a forward operation of another part reads v.
func (f *flow) leavesPart(v graph.Value) bool {
	o := &f.g.Ops[f.ops[f.def[v]].node]
	for i := range f.ops {
		x := &f.ops[i]
		if x.phase != graph.Forward {
			break
		}
		if n := &f.g.Ops[x.node]; (n.Part != o.Part || n.Layer != o.Layer) && slices.Contains(x.in, v) {
			return true
		}
	}
	return false
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
