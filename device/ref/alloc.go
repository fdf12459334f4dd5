package ref

import (
	"loadline/compile"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// lifetimes says which temporary buffers are used first and last at each instruction. It is found from the operands.
type lifetimes struct {
	base   mem.Usage // persistent buffers that the program names
	births [][]int32 // by instruction
	deaths [][]int32 // by instruction; outputs never die
}

// scan finds the lifetimes of p's buffers.
func scan(p *compile.Program) lifetimes {
	l := lifetimes{births: make([][]int32, len(p.Instrs)), deaths: make([][]int32, len(p.Instrs))}
	last := make([]int, len(p.Buffers))
	seen := make([]bool, len(p.Buffers))
	for i := range p.Buffers {
		if b := &p.Buffers[i]; b.Persistent() {
			l.base.Add(b.Tier, b.Purpose, mem.Bytes(b.Bytes))
		}
	}
	for t := range p.Instrs {
		use := func(b int32) {
			if b < 0 || p.Buffers[b].Persistent() {
				return
			}
			if !seen[b] {
				seen[b] = true
				l.births[t] = append(l.births[t], b)
			}
			last[b] = t
		}
		in := &p.Instrs[t]
		for _, o := range in.In {
			use(o.Buffer)
		}
		for _, o := range in.Out {
			use(o.Buffer)
		}
		use(in.Scratch)
	}
	for _, o := range p.Outputs {
		if o.Buffer >= 0 {
			seen[o.Buffer] = false
		}
	}
	for b, t := range last {
		if seen[b] {
			l.deaths[t] = append(l.deaths[t], int32(b))
		}
	}
	return l
}

// pool is the counting allocator of temporary buffers.
type pool[T real] struct {
	live map[int32]store[T] // by buffer of the program that runs or ran last
	used mem.Usage
	free map[poolKey][]store[T] // freed stores, poisoned, to be taken again
}

type poolKey struct {
	dt dtype.Type
	n  int
}

func newPool[T real]() *pool[T] {
	return &pool[T]{live: map[int32]store[T]{}, free: map[poolKey][]store[T]{}}
}

// capacity is how many elements of its type buffer b holds.
func capacity(b *compile.Buffer) int { return elemsIn(b.Type, b.Bytes) }

func elemsIn(t graph.Type, bytes int64) int {
	if t.DType.Block() { // no symbolic axes
		return int(t.Shape.Elems(graph.Bounds{}))
	}
	return int(bytes * 8 / int64(t.DType.Bits()))
}

// alloc makes buffer id of p. Its contents are poison.
func (a *pool[T]) alloc(p *compile.Program, id int32) {
	b := &p.Buffers[id]
	a.used.Add(b.Tier, b.Purpose, mem.Bytes(b.Bytes))
	k := poolKey{b.Type.DType, capacity(b)}
	if l := a.free[k]; len(l) > 0 {
		a.live[id] = l[len(l)-1]
		a.free[k] = l[:len(l)-1]
		return
	}
	s := newStore[T](k.dt, k.n)
	s.poison()
	a.live[id] = s
}

// release frees buffer id of p.
func (a *pool[T]) release(p *compile.Program, id int32) {
	b := &p.Buffers[id]
	a.used.Add(b.Tier, b.Purpose, -mem.Bytes(b.Bytes))
	s := a.live[id]
	s.poison()
	k := poolKey{b.Type.DType, capacity(b)}
	a.free[k] = append(a.free[k], s)
	delete(a.live, id)
}

// clear frees everything that is left of p.
func (a *pool[T]) clear(p *compile.Program) {
	for id := range int32(len(p.Buffers)) {
		if _, ok := a.live[id]; ok {
			a.release(p, id)
		}
	}
}
