package compile

import (
	"fmt"
	"hash/fnv"

	"loadline/graph"
)

// units cuts a training graph into its layers, each with its forward and its backward operations. What stands before the
// first layer joins it and what stands after the last joins that, so that the embedding and the loss head need no rules of
// their own. The peak of a program is then the largest, over units, of what lower units have saved plus what the unit
// itself needs, so units can be profiled apart.
type units struct {
	f     *flow
	nodes [][]int32 // by unit: operations, ascending
	sig   []uint64  // by unit: equal for units of the same structure
	of    []int32   // by operation: its unit, or −1 for the update phase
	// Values made by the backward half of one unit and last read below the next: gradients kept for the update, of which above[k] is the
	// bytes made in unit k or higher, and others, such as a tied head's gradient.
	above  []int64
	others []passing
}

type passing struct {
	from, to int32 // made in unit from, last read in unit to
	bytes    int64
}

// newUnits returns nil when the graph has no layers in order.
func newUnits(f *flow) *units {
	g := f.g
	n := max(g.Layers, 1)
	u := &units{f: f, nodes: make([][]int32, n), sig: make([]uint64, n), above: make([]int64, n+1), of: make([]int32, len(g.Ops))} //mem:ok planning runs before arenas are touched
	last, seen := 0, false
	for i := range g.Ops {
		o := &g.Ops[i]
		if o.Phase == graph.Update {
			u.of[i] = -1
			continue
		}
		unit := o.Layer
		switch {
		case o.Layer >= 0:
			if o.Phase == graph.Forward && o.Layer < last {
				return nil
			}
			last, seen = o.Layer, true
		case o.Phase == graph.Forward:
			if unit = 0; seen {
				unit = n - 1
			}
		default: // backward, outside: the head until a layer's backward half has begun
			if unit = n - 1; last < n-1 || n > 1 && last == 0 {
				unit = 0
			}
			if n > 1 && last == n-1 {
				unit = n - 1
			}
		}
		u.of[i] = int32(unit)
		u.nodes[unit] = append(u.nodes[unit], int32(i))
	}
	for k := range u.nodes {
		if len(u.nodes[k]) == 0 {
			return nil
		}
		u.sig[k] = signature(g, u.nodes[k])
	}
	u.findPassing()
	return u
}

// signature hashes the structure of a run of operations: kinds, attributes, types and wiring, with values numbered in
// order of appearance.
func signature(g *graph.Graph, nodes []int32) uint64 {
	h := fnv.New64a()
	number := map[graph.Value]int{}
	for _, k := range nodes {
		o := &g.Ops[k]
		op := o.Op
		if s, ok := op.(graph.Seeded); ok {
			op = s.Unseeded()
		}
		fmt.Fprintf(h, "%T%v %v %s;", op, op, o.Phase, o.Part)
		for _, v := range append(append([]graph.Value{}, o.In...), o.Out...) {
			if v == graph.None {
				fmt.Fprint(h, "_")
				continue
			}
			id, ok := number[v]
			if !ok {
				id = len(number)
				number[v] = id
			}
			x := &g.Values[v]
			fmt.Fprintf(h, "%d:%v%v;", id, x.Kind, x.Type)
		}
	}
	return h.Sum64()
}

func (u *units) findPassing() {
	g := u.f.g
	lowest := make([]int32, len(g.Values)) //mem:ok planning runs before arenas are touched
	for v := range lowest {
		lowest[v] = -2
	}
	for i := range g.Ops {
		for _, v := range g.Ops[i].In {
			if v == graph.None || u.f.fixed[v] || u.f.forward[v] {
				continue
			}
			if lowest[v] == -2 || u.of[i] < lowest[v] {
				lowest[v] = u.of[i]
			}
		}
	}
	for _, v := range g.Outputs {
		lowest[v] = -1
	}
	for v := range lowest {
		if lowest[v] == -2 || u.f.fixed[v] || u.f.forward[v] || g.Values[v].Def < 0 {
			continue
		}
		if from := u.of[g.Values[v].Def]; from >= 0 && lowest[v] < from-1 {
			if lowest[v] < 0 {
				u.above[from] += u.f.bytes[v]
			} else {
				u.others = append(u.others, passing{from, lowest[v], u.f.bytes[v]})
			}
		}
	}
	for k := len(u.above) - 2; k >= 0; k-- {
		u.above[k] += u.above[k+1]
	}
}

// over is the bytes that pass over units lo..hi−1 while their backward half runs.
func (u *units) over(lo, hi int) int64 {
	n := u.above[hi]
	for _, p := range u.others {
		if int(p.from) >= hi && int(p.to) < lo {
			n += p.bytes
		}
	}
	return n
}

// run is the operations of units lo..hi−1.
func (u *units) run(lo, hi int) []int32 {
	if hi == lo+1 {
		return u.nodes[lo]
	}
	var out []int32
	for i := range u.of {
		if k := int(u.of[i]); k >= lo && k < hi {
			out = append(out, int32(i))
		}
	}
	return out
}
