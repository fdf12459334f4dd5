// Package graph holds one step of work (a training step, a serving pass, a save) as data: values and the
// operations that make them. Nothing runs here.
//
// Values are Input (filled by the caller before a run), State (kept between runs: weights, moments, KV pools) or
// Temp (made once and used; static single assignment). An operation that changes a State yields the State's next
// version; whoever takes the old version runs before it, whoever takes the new one after. Two dimensions may be
// symbolic, Rows and Outs; they are bounded when a graph is made. Everything ragged (positions, block tables,
// expert offsets) is an int32 Input, never a shape.
//
// There is one file per operation: shapes, cost, gradient and text. The file of the same name in each device runs it.
//
// Shapes are written with B batch, T time, N rows (tokens), D model width, F feed-forward width, H heads,
// G key/value heads, K head width, V vocabulary, E experts, S key/value slots.
//
// Invariant: Ops are in an order that can run; every Temp is defined once, before its uses. Building is
// deterministic: no map is ever ranged over. Pure: no clock, files, goroutines or randomness.
package graph

import (
	"loadline/mem"
)

// Value names a value of one graph: an index in Graph.Values.
type Value int32

// None stands for an absent operand or gradient.
const None Value = -1

// Kind says how a value comes to be and how long it lives.
type Kind uint8

// The kinds of value.
const (
	Input Kind = iota
	State
	Temp
)

// Phase is the part of a step that an operation belongs to.
type Phase uint8

// The phases, in the order in which they run. Update operations may also run inside the backward phase.
const (
	Forward Phase = iota
	Backward
	Update
)

var phaseNames = [...]string{"forward", "backward", "update"}

// String is the phase's lower-case name.
func (p Phase) String() string { return phaseNames[p] }

// Outside is the layer of what belongs to no layer: embedding, final norm, loss head, the clip norm.
const Outside = -1

// Info describes a value.
type Info struct {
	Name    string
	Kind    Kind
	Type    Type
	Purpose mem.Purpose
	Tier    mem.Tier // Device unless a pass moved it
	Layer   int
	Part    string // what built it, e.g. "attn.core"
	Def     int32  // the defining operation; -1 for an Input and for a State's first version
	Root    Value  // a State's first version; the value itself otherwise
	Train   bool   // a State that gradients are taken for
	Bytes   int64  // at the bounds, rounded up to Align
}

// Node is an operation in its place: what it takes and makes.
type Node struct {
	Op      Op
	In, Out []Value // In may hold None where an operand is optional
	Layer   int
	Part    string
	Phase   Phase
	Mem     int64   // scratch bytes while it runs, rounded up to Align
	FLOPs   float64 // arithmetic at the bounds
	Moved   float64 // bytes read and written at the bounds
}

// Graph is one step of work.
type Graph struct {
	Name    string
	Bounds  Bounds
	Values  []Info
	Ops     []Node
	Outputs []Value // Temps that the caller reads after a run: alive to the end
	Loss    Value   // the scalar to differentiate, or None
	Layers  int     // number of layers seen by Part
}

// Align is the alignment and granularity of every buffer, in bytes: one cache line, and one AVX-512 register.
const Align = 64

// RoundUp rounds n up to Align.
func RoundUp(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }

// Info returns v's description.
func (g *Graph) Info(v Value) *Info { return &g.Values[v] }

// Types returns the types of vs; the zero Type for None.
func (g *Graph) Types(vs []Value) []Type {
	ts := make([]Type, len(vs))
	for i, v := range vs {
		if v != None {
			ts[i] = g.Values[v].Type
		}
	}
	return ts
}

// Find returns the Input or the first version of the State named name, or None.
func (g *Graph) Find(name string) Value {
	for i := range g.Values {
		if x := &g.Values[i]; x.Kind != Temp && x.Name == name && x.Root == Value(i) {
			return Value(i)
		}
	}
	return None
}

// States returns the first versions of all States, in the order of their creation.
func (g *Graph) States() []Value {
	var out []Value
	for i := range g.Values {
		if g.Values[i].Kind == State && g.Values[i].Root == Value(i) {
			out = append(out, Value(i))
		}
	}
	return out
}

// Latest returns, for every value, the newest version of its State (or the value itself).
func (g *Graph) Latest(v Value) Value {
	if g.Values[v].Kind != State {
		return v
	}
	last := v
	for i := int(v) + 1; i < len(g.Values); i++ {
		if g.Values[i].Kind == State && g.Values[i].Root == g.Values[v].Root {
			last = Value(i)
		}
	}
	return last
}
