package compile

import (
	"fmt"

	"loadline/graph"
)

// Verify checks the invariants of a program that are said in the package comment, and returns the first breach.
func Verify(p *Program) error {
	for i := range p.Buffers {
		a := &p.Buffers[i]
		if a.Persistent() {
			continue
		}
		if a.First < 0 || a.Last < a.First || int(a.Last) >= len(p.Instrs) || a.Offset < 0 || a.Offset%graph.Align != 0 || a.Offset+a.Bytes > p.Arena[a.Tier] {
			return fmt.Errorf("compile: buffer %d %q of %q: instructions %d..%d, offset %d, %d bytes in an arena of %d", i, a.Name, p.Name, a.First, a.Last, a.Offset, a.Bytes, p.Arena[a.Tier])
		}
		for j := range i {
			b := &p.Buffers[j]
			if !b.Persistent() && a.Tier == b.Tier && a.First <= b.Last && b.First <= a.Last && a.Offset < b.Offset+b.Bytes && b.Offset < a.Offset+a.Bytes {
				return fmt.Errorf("compile: buffers %d %q and %d %q of %q overlap", j, b.Name, i, a.Name, p.Name)
			}
		}
	}
	written := make([]bool, len(p.Buffers))
	started := map[int32]bool{}
	for t := range p.Instrs {
		in := &p.Instrs[t]
		for _, o := range in.In {
			if o.Buffer < 0 {
				continue
			}
			b := &p.Buffers[o.Buffer]
			if !b.Persistent() && (!written[o.Buffer] || int32(t) < b.First || int32(t) > b.Last) {
				return fmt.Errorf("compile: instruction %d %s of %q reads %q outside of its life %d..%d", t, in.Op.Kind(), p.Name, b.Name, b.First, b.Last)
			}
		}
		for _, o := range in.Out {
			if o.Buffer >= 0 {
				b := &p.Buffers[o.Buffer]
				if !b.Persistent() && (int32(t) < b.First || int32(t) > b.Last) {
					return fmt.Errorf("compile: instruction %d %s of %q writes %q outside of its life", t, in.Op.Kind(), p.Name, b.Name)
				}
				written[o.Buffer] = true
			}
		}
		switch in.Op.(type) {
		case graph.Offload, graph.Fetch:
			started[in.Ticket] = true
		case graph.Wait:
			if !started[in.Ticket] {
				return fmt.Errorf("compile: instruction %d of %q waits for copy %d, which has not begun", t, p.Name, in.Ticket)
			}
			delete(started, in.Ticket)
		}
	}
	if len(started) > 0 {
		return fmt.Errorf("compile: %d copies of %q are never waited for", len(started), p.Name)
	}
	return nil
}

// checkVersions verifies, before versions are forgotten, that every State is read and written in the order of its versions.
func (s *schedule) checkVersions() error {
	g := s.f.g
	now := make([]graph.Value, len(g.Values))
	for v := range now {
		now[v] = graph.Value(v)
	}
	for t := range s.insts {
		if s.insts[t].kind != instOp {
			continue
		}
		o := &s.f.ops[s.insts[t].op]
		for _, v := range o.in {
			if v != graph.None && g.Values[v].Kind == graph.State && now[g.Values[v].Root] != v {
				return fmt.Errorf("compile: instruction %d %s of %q reads an old version of state %q", t, g.Ops[o.node].Op.Kind(), g.Name, g.Values[v].Name)
			}
		}
		for _, v := range o.out {
			if g.Values[v].Kind == graph.State {
				now[g.Values[v].Root] = v
			}
		}
	}
	return nil
}
