package model

import (
	"loadline/graph"
	"loadline/mem"
)

// Stored is a State that is saved or restored.
type Stored struct {
	Name    string
	Type    graph.Type
	Purpose mem.Purpose
	Tier    mem.Tier
}

// StoredStates lists the States of graphs as they are there (shards, where zero split them), each name once, in order of first
// appearance; KV pools and accumulated gradients, which no checkpoint holds, are left out.
func StoredStates(graphs ...*graph.Graph) []Stored {
	var out []Stored
	seen := map[string]bool{}
	for _, g := range graphs {
		for _, v := range g.States() {
			x := &g.Values[v]
			if seen[x.Name] || x.Purpose == mem.KVBlocks || x.Purpose == mem.Grads {
				continue
			}
			seen[x.Name] = true
			out = append(out, Stored{x.Name, x.Type, x.Purpose, x.Tier})
		}
	}
	return out
}

// SaveGraph streams states to the caller, in order.
func SaveGraph(name string, states ...Stored) *graph.Graph {
	return storeGraph(name, graph.Save{}, states)
}

// RestoreGraph fills states from the caller, in order.
func RestoreGraph(name string, states ...Stored) *graph.Graph {
	return storeGraph(name, graph.Restore{}, states)
}

func storeGraph(name string, op graph.Op, states []Stored) *graph.Graph {
	b := graph.NewBuilder(name, graph.Bounds{})
	b.Part(graph.Outside, op.Kind(), func() {
		for _, s := range states {
			v := b.State(s.Name, s.Type, s.Purpose)
			b.G.Values[v].Tier = s.Tier
			b.Apply(op, v)
		}
	})
	return b.G
}
