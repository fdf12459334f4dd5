package compile

import (
	"fmt"
	"strings"

	"loadline/graph"
	"loadline/mem"
)

// program turns the last run of a schedule over a whole graph into a Program with offsets.
func (s *schedule) program() *Program {
	g := s.f.g
	p := &Program{Name: g.Name, Bounds: g.Bounds, Again: s.cost, Saved: s.saved()}
	take := s.room(p)
	index := make([]int32, len(g.Values)) // buffer of each persistent value, by root //mem:ok planning runs before arenas are touched
	for v := range g.Values {
		x := &g.Values[v]
		index[v] = -1
		if x.Kind != graph.Temp && x.Root == graph.Value(v) {
			index[v] = int32(len(p.Buffers))
			p.Buffers = append(p.Buffers, Buffer{Name: x.Name, Kind: x.Kind, Tier: x.Tier, Purpose: x.Purpose, Type: x.Type, Bytes: x.Bytes, Last: int32(len(s.insts)) - 1})
		}
	}
	place := make([]int32, len(s.lives)) //mem:ok planning runs before arenas are touched
	for i := range s.lives {
		l := &s.lives[i]
		if l.root != int32(i) {
			continue
		}
		x := &g.Values[l.v]
		place[i] = int32(len(p.Buffers))
		name := x.Name
		if l.lower {
			name += "@" + s.away.tier.String()
		}
		p.Buffers = append(p.Buffers, Buffer{Name: name, Kind: graph.Temp, Tier: s.tier(l), Purpose: x.Purpose, Type: x.Type, Bytes: l.bytes, First: l.first, Last: l.last})
	}
	tickets, copies := map[graph.Value]int32{}, s.tick // of the copies that the graph itself has, by the Temp that they fill or read
	operand := func(v graph.Value, l int32) Operand {
		switch {
		case v == graph.None:
			return NoOperand()
		case l < 0:
			return Operand{index[g.Values[v].Root], g.Values[v].Type}
		}
		return Operand{place[s.lives[l].root], g.Values[v].Type}
	}
	for t := range s.insts {
		in := &s.insts[t]
		refs := s.refs[in.ref : in.ref+in.n]
		if in.kind != instOp {
			p.Instrs = append(p.Instrs, s.copyInstr(in, append(take(2), operand(in.v, refs[0]), operand(in.v, refs[1]))))
			continue
		}
		o := &s.f.ops[in.op]
		n := &g.Ops[o.node]
		r := Instr{Op: n.Op, Scratch: -1, Ticket: -1, Layer: n.Layer, Part: n.Part, Phase: n.Phase, Again: in.again, Seconds: o.seconds}
		switch n.Op.(type) {
		case graph.Fetch:
			r.Ticket = copies
			tickets[o.out[0]] = copies
			copies++
		case graph.Offload:
			r.Ticket = copies
			tickets[o.in[0]] = copies
			copies++
		case graph.Wait:
			r.Ticket = tickets[o.in[1]]
		}
		r.In, r.Out = take(len(o.in)), take(len(o.out))
		for j, v := range o.in {
			r.In = append(r.In, operand(v, refs[j]))
		}
		for j, v := range o.out {
			r.Out = append(r.Out, operand(v, refs[len(o.in)+j]))
		}
		if o.scratch > 0 {
			r.Scratch = int32(len(p.Buffers))
			p.Buffers = append(p.Buffers, Buffer{Name: n.Op.Kind() + ".scratch", Kind: graph.Temp, Purpose: mem.Workspace, Type: scratchType(o.scratch), Bytes: o.scratch, First: int32(t), Last: int32(t)})
		}
		p.Seconds += o.seconds
		p.Instrs = append(p.Instrs, r)
	}
	for _, v := range g.Outputs {
		l := int32(-1)
		if !s.f.fixed[v] {
			l = s.cur[v]
		}
		p.Outputs = append(p.Outputs, Output{g.Values[v].Name, operand(v, l)})
	}
	p.Waits = waits(p, s.f.link)
	p.Seconds += s.stall + p.Waits
	layout(p, s.quick)
	return p
}

// room makes p's lists as long as they become, and returns what hands out room for operands: a program stays on the heap while it runs, and
// lists that had grown would hold up to twice as much.
func (s *schedule) room(p *Program) (take func(n int) []Operand) {
	buffers, operands := 0, 0
	for v := range s.f.g.Values {
		if x := &s.f.g.Values[v]; x.Kind != graph.Temp && x.Root == graph.Value(v) {
			buffers++
		}
	}
	for i := range s.lives {
		if s.lives[i].root == int32(i) {
			buffers++
		}
	}
	for t := range s.insts {
		in := &s.insts[t]
		operands += int(in.n)
		if in.kind == instOp && s.f.ops[in.op].scratch > 0 {
			buffers++
		}
	}
	p.Instrs, p.Buffers = make([]Instr, 0, len(s.insts)), make([]Buffer, 0, buffers) //mem:ok of the Runtime line, as all of a program
	all := make([]Operand, operands)                                                 //mem:ok likewise
	return func(n int) []Operand {
		if n == 0 {
			return nil
		}
		part := all[:0:n]
		all = all[n:]
		return part
	}
}

// copyInstr is an Offload, Fetch or Wait of two operands: what is copied, and where to.
func (s *schedule) copyInstr(in *inst, both []Operand) Instr {
	x := &s.f.g.Values[in.v]
	r := Instr{Scratch: -1, Ticket: in.ticket, Layer: x.Layer, Part: x.Part, Phase: graph.Forward}
	if in.kind >= instIn {
		r.Phase = graph.Backward
	}
	switch in.kind {
	case instOut:
		r.Op, r.In, r.Out = graph.Offload{To: s.away.tier}, both[:1:1], both[1:2:2]
	case instIn:
		r.Op, r.In, r.Out = graph.Fetch{}, both[:1:1], both[1:2:2]
	default:
		r.Op, r.In = graph.Wait{}, both
	}
	return r
}

func scratchType(n int64) graph.Type { return graph.F(graph.D(int(n / 4))) }

// Text is the program for people: one line an instruction, its operands as name@offset, and the bytes of the arena in
// use while it runs.
func (p *Program) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "program %s rows=%d outs=%d", p.Name, p.Bounds.Rows, p.Bounds.Outs)
	for t := range mem.Tier(mem.NumTiers) {
		if p.Arena[t] > 0 {
			fmt.Fprintf(&b, " arena[%v]=%d bound=%d", t, p.Arena[t], p.Bound[t])
		}
	}
	b.WriteString("\n")
	for i := range p.Buffers {
		if x := &p.Buffers[i]; x.Persistent() {
			fmt.Fprintf(&b, "%-7s %-40s %-14v %s %d\n", kindName(x.Kind), x.Name, x.Type, x.Purpose, x.Bytes)
		}
	}
	tl := p.arenaTimeline()
	for t := range p.Instrs {
		in := &p.Instrs[t]
		mark := " "
		if in.Again {
			mark = "*"
		}
		where := "     -"
		if in.Layer >= 0 {
			where = fmt.Sprintf("%6d", in.Layer)
		}
		fmt.Fprintf(&b, "%4d%s%s %-12s %s(%s) -> %s | %d\n", t, mark, where, in.Part, graph.Text(in.Op), p.operands(in.In), p.operands(in.Out), tl[t].All())
	}
	return b.String()
}

func (p *Program) operands(os []Operand) string {
	var parts []string
	for _, o := range os {
		switch {
		case o.Buffer < 0:
			parts = append(parts, "_")
		case p.Buffers[o.Buffer].Persistent():
			parts = append(parts, p.Buffers[o.Buffer].Name)
		default:
			x := &p.Buffers[o.Buffer]
			at := "@"
			if x.Tier != mem.Device {
				at = "@" + x.Tier.String() + ":"
				parts = append(parts, fmt.Sprintf("%d%s%d", o.Buffer, at, x.Offset))
				continue
			}
			parts = append(parts, fmt.Sprintf("%d@%d", o.Buffer, x.Offset))
		}
	}
	return strings.Join(parts, " ")
}
