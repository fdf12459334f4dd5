package compile

import (
	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
)

// decision says what happens to a forward value that the backward half reads.
type decision uint8

const (
	keep    decision = iota // it stays on the device until its last use
	again                   // it is dropped and computed again just before it is needed
	offload                 // it is copied to a lower tier and fetched back
)

// flow is a list of operations with what scheduling needs of them, in flat slices: a whole graph, or a run of layers of
// it. Values keep their ids; those defined outside of a run are external.
type flow struct {
	g       *graph.Graph
	ops     []flowOp
	bytes   []int64       // by value
	fixed   []bool        // by value: persistent, never in the arena
	def     []int32       // by value: index in ops, or -1
	forward []bool        // by value: made by a forward operation of this flow
	lead    []graph.Value // by value: whose decision it follows; None for statistics, which are always kept
	cand    []graph.Value // leaders that a backward operation reads, in order of definition
	isCand  []bool        // by value
	late    []bool        // by value: read by a backward operation
	crosses []bool        // by value: made in one layer and read by the forward half of another
	byLayer map[int][]graph.Value
	enter   []graph.Value         // external forward values: alive from the start
	enterB  []graph.Value         // external backward values: alive from the turn
	leaveF  []graph.Value         // forward values that others read: alive until the turn
	leaveB  []graph.Value         // values that others read later: alive to the end
	turn    int                   // index in ops of the first backward operation
	link    [mem.NumTiers]float64 // bytes/s to each lower tier
}

// flowOp is an operation of a flow.
type flowOp struct {
	in, out []graph.Value
	alias   []graph.Alias
	scratch int64
	seconds float64
	node    int32 // index in Graph.Ops
	layer   int32
	phase   graph.Phase
}

// newFlow makes the flow of g's operations nodes (ascending indices in g.Ops).
func newFlow(g *graph.Graph, nodes []int32, m cost.Machine) *flow {
	n := len(g.Values)
	f := &flow{g: g, bytes: make([]int64, n), fixed: make([]bool, n), def: make([]int32, n), forward: make([]bool, n), //mem:ok planning runs before arenas are touched
		lead: make([]graph.Value, n), isCand: make([]bool, n), late: make([]bool, n), crosses: make([]bool, n), byLayer: map[int][]graph.Value{}, turn: len(nodes), link: m.Link}
	for v := range g.Values {
		x := &g.Values[v]
		f.bytes[v], f.fixed[v], f.def[v], f.lead[v] = x.Bytes, x.Kind != graph.Temp, -1, graph.None
	}
	for i, k := range nodes {
		o := &g.Ops[k]
		fo := flowOp{in: o.In, out: o.Out, scratch: o.Mem, seconds: m.Op(g, o), node: k, layer: int32(o.Layer), phase: o.Phase}
		if p, ok := o.Op.(graph.InPlace); ok {
			fo.alias = p.InPlace()
		}
		if o.Phase != graph.Forward && f.turn == len(nodes) {
			f.turn = i
		}
		f.ops = append(f.ops, fo)
		for j, v := range o.Out {
			if f.fixed[v] {
				continue
			}
			f.def[v] = int32(i)
			if f.forward[v] = o.Phase == graph.Forward; f.forward[v] {
				f.lead[v] = o.Out[0]
				if j > 0 && 4*f.bytes[v] <= f.bytes[o.Out[0]] {
					f.lead[v] = graph.None // a row statistic: always kept
				}
				f.byLayer[o.Layer] = append(f.byLayer[o.Layer], v)
			}
		}
	}
	f.findCandidates()
	f.findCrossing()
	f.findExternals(nodes)
	return f
}

// wholeFlow makes the flow of all of g.
func wholeFlow(g *graph.Graph, m cost.Machine) *flow {
	nodes := make([]int32, len(g.Ops)) //mem:ok planning runs before arenas are touched
	for i := range nodes {
		nodes[i] = int32(i)
	}
	return newFlow(g, nodes, m)
}

func (f *flow) findCandidates() {
	for i := range f.ops {
		if f.ops[i].phase == graph.Forward {
			continue
		}
		for _, v := range f.ops[i].in {
			if v != graph.None && !f.fixed[v] && f.forward[v] {
				f.late[v] = true
				if l := f.lead[v]; l != graph.None {
					f.isCand[l] = true
				}
			}
		}
	}
	for i := range f.ops {
		if o := f.ops[i].out; f.ops[i].phase == graph.Forward && len(o) > 0 && f.isCand[o[0]] && !f.fixed[o[0]] {
			f.cand = append(f.cand, o[0])
		}
	}
}

// findExternals fills enter, enterB, leaveF and leaveB.
func (f *flow) findExternals(nodes []int32) {
	inside := make([]bool, len(f.g.Ops))
	for _, k := range nodes {
		inside[k] = true
	}
	seen := make([]bool, len(f.bytes))
	for i := range f.ops {
		for _, v := range f.ops[i].in {
			if v == graph.None || f.fixed[v] || f.def[v] >= 0 || seen[v] {
				continue
			}
			seen[v] = true
			if f.g.Ops[f.g.Values[v].Def].Phase == graph.Forward {
				f.enter = append(f.enter, v)
			} else {
				f.enterB = append(f.enterB, v)
			}
		}
	}
	left := make([]bool, len(f.bytes))
	for k := range f.g.Ops {
		if inside[k] {
			continue
		}
		for _, v := range f.g.Ops[k].In {
			if v == graph.None || f.fixed[v] || f.def[v] < 0 {
				continue
			}
			if f.forward[v] && f.g.Ops[k].Phase == graph.Forward {
				if !left[v] {
					f.leaveF = append(f.leaveF, v)
				}
				left[v] = true
			} else if !f.forward[v] && !left[v] {
				left[v] = true
				f.leaveB = append(f.leaveB, v)
			}
		}
	}
	for _, v := range f.g.Outputs {
		if f.def[v] >= 0 && !left[v] {
			left[v] = true
			f.leaveB = append(f.leaveB, v)
		}
	}
}

// keepAll is the decisions that keep every candidate. What no backward operation reads is never kept.
func (f *flow) keepAll() []decision {
	d := make([]decision, len(f.bytes))
	for v := range d {
		if f.forward[v] && !f.isCand[v] {
			d[v] = again
		}
	}
	return d
}

// findCrossing fills crosses.
func (f *flow) findCrossing() {
	for i := range f.ops {
		o := &f.ops[i]
		if o.phase != graph.Forward {
			break
		}
		for _, v := range o.in {
			if v != graph.None && f.def[v] >= 0 && f.ops[f.def[v]].layer != o.layer {
				f.crosses[v] = true
			}
		}
	}
}

// crossesLayers tells whether v, made in one layer, is read by the forward half of another: a layer's input.
func (f *flow) crossesLayers(v graph.Value) bool { return f.crosses[v] }

// away is where offloaded values go, and how fast.
type away struct {
	tier mem.Tier
	rate float64 // bytes/s
}
