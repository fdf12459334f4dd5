// Package compile turns a graph into a program whose peak memory is known before it runs. Each memory technique is one
// pass in one file with its own options: gradient, recompute, zero, offload, offloadstates, fuse, schedule, layout, auto.
//
// A Program is instructions over buffers. Every buffer has a tier, a size, an offset in that tier's arena and the first
// and last instruction that use it, so the bytes in use at every instruction are a sum that nobody has to measure.
//
// Invariants: a buffer of the arena overlaps no other whose interval meets its own; an instruction reads only what an
// earlier one (or the caller, for Inputs and States) wrote; no instruction reads a State's old version after a later one
// was written. Verify checks all three. Pure: no clock, files, goroutines or randomness, and no map order.
package compile

import (
	"loadline/graph"
	"loadline/mem"
)

// Operand is a buffer seen as a type. Buffer is -1 where an optional operand is absent.
type Operand struct {
	Buffer int32
	Type   graph.Type
}

// NoOperand is an absent operand.
func NoOperand() Operand { return Operand{Buffer: -1} }

// Instr is one operation in its place.
type Instr struct {
	Op      graph.Op
	In, Out []Operand
	Scratch int32 // buffer of the operation's scratch bytes, or -1
	Ticket  int32 // pairs an Offload or Fetch with its Wait; -1 elsewhere
	Layer   int
	Part    string
	Phase   graph.Phase
	Again   bool    // a recomputation
	Seconds float64 // modelled time on the compute stream
}

// Buffer is a piece of memory: a persistent one (Input, State) or a place in the arena of its tier.
type Buffer struct {
	Name    string
	Kind    graph.Kind
	Tier    mem.Tier
	Purpose mem.Purpose
	Type    graph.Type // of the first value that lies in it
	Bytes   int64      // a multiple of graph.Align
	Offset  int64      // in the tier's arena; for Inputs and States in the job's persistent memory, set by NewJob
	First   int32      // first and last instruction that use it; 0 and len−1 when persistent
	Last    int32
}

// Output is a result that the caller may read after a run.
type Output struct {
	Name string
	Operand
}

// Program is a compiled graph.
type Program struct {
	Name    string
	Bounds  graph.Bounds
	Instrs  []Instr
	Buffers []Buffer
	Outputs []Output
	Arena   [mem.NumTiers]int64 // bytes of each tier's arena: what is promised
	Bound   [mem.NumTiers]int64 // the liveness bound: no layout needs less
	Seconds float64             // modelled time of one run, stalls included
	Again   float64             // modelled time of what is computed again
	Waits   float64             // modelled time of waiting for States of lower tiers, of Seconds
	Saved   int64               // bytes of forward values alive when the backward half begins
	Notes   []string            // what was chosen and what it gave up, for people
}

// Persistent tells whether buffer b lives between runs.
func (b *Buffer) Persistent() bool { return b.Kind != graph.Temp }

// Timeline is the bytes in use at every instruction: persistent buffers and the arena buffers alive there.
func (p *Program) Timeline() []mem.Usage {
	n := len(p.Instrs)
	out := make([]mem.Usage, n)
	var base mem.Usage
	start, end := make([][]int32, n), make([][]int32, n)
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if b.Persistent() {
			base.Add(b.Tier, b.Purpose, mem.Bytes(b.Bytes))
			continue
		}
		start[b.First] = append(start[b.First], int32(i))
		end[b.Last] = append(end[b.Last], int32(i))
	}
	for t := range out {
		for _, i := range start[t] {
			base.Add(p.Buffers[i].Tier, p.Buffers[i].Purpose, mem.Bytes(p.Buffers[i].Bytes))
		}
		out[t] = base
		for _, i := range end[t] {
			base.Add(p.Buffers[i].Tier, p.Buffers[i].Purpose, -mem.Bytes(p.Buffers[i].Bytes))
		}
	}
	return out
}

// Peak is the most that the program needs on tier t: its persistent buffers and its arena.
func (p *Program) Peak(t mem.Tier) mem.Bytes {
	n := mem.Bytes(p.Arena[t])
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Persistent() && b.Tier == t {
			n += mem.Bytes(b.Bytes)
		}
	}
	return n
}

// PeakAt is the first instruction at which the arenas of the memory tiers hold the most.
func (p *Program) PeakAt() int {
	best, at := mem.Bytes(-1), 0
	for t, u := range p.Timeline() {
		if m := u.Memory(); m > best {
			best, at = m, t
		}
	}
	return at
}
