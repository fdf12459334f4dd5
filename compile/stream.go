package compile

import (
	"loadline/graph"
	"loadline/mem"
)

// StreamOptions are the stream pass's options.
type StreamOptions struct {
	Keep map[string]bool // States that stay in memory
}

// Stream rewrites the graph of a pass for weights that memory does not hold. Those that are not kept become States of the disk
// tier, read anew by every run: each operation takes a Temp that a Fetch fills, and the Fetch of the next one is started before
// the Wait for this one, so that the disk reads while the processor computes. Where weights are small, more of them are started:
// as many as lie in the room that the largest neighbours need anyway, so that a run of small ones does not keep the disk waiting.
//
//	fetch 0 │ fetch 1, wait 0, op 0 │ fetch 2, wait 1, op 1 │ …
//
// Their bytes are in the program's arena like any other's. The order of a pass is known and cyclic, for which a fixed set that stays is
// within one fetch a pass of the best there is (tier.Keep), and unlike Belady's choice it gives every buffer one place.
func Stream(g *graph.Graph, o StreamOptions) *graph.Graph {
	s := &stream{rewriter: newRewriter(g), keep: o.Keep}
	for i := range g.Ops {
		s.uses = append(s.uses, s.operands(&g.Ops[i])...)
	}
	for _, v := range s.uses {
		s.G.Values[s.to[v]].Tier = mem.Disk
	}
	room := s.room()
	s.fetch(0, 1, room)
	done := 0
	for i := range g.Ops {
		n := &g.Ops[i]
		here := s.operands(n)
		if len(here) == 0 {
			s.copy(n)
			continue
		}
		s.fetch(done, done+len(here)+1, room)
		saved := map[graph.Value]graph.Value{}
		for k, v := range here {
			s.at(n)
			s.Apply(graph.Wait{}, s.to[v], s.here[done+k])
			saved[v], s.to[v] = s.to[v], s.here[done+k]
		}
		s.copy(n)
		for v, to := range saved {
			s.to[v] = to
		}
		done += len(here)
	}
	return s.done()
}

// Streamed is the bytes that one run of p reads from States of the disk tier.
func (p *Program) Streamed() (n mem.Bytes) {
	for i := range p.Instrs {
		in := &p.Instrs[i]
		if _, ok := in.Op.(graph.Fetch); ok && p.Buffers[in.In[0].Buffer].Persistent() {
			t := in.Out[0].Type
			n += mem.Bytes(t.DType.Bytes(t.Shape.Elems(p.Bounds))) // as a file has it
		}
	}
	return n
}

// stream is the state of the rewrite.
type stream struct {
	*rewriter
	keep map[string]bool
	uses []graph.Value // the streamed States, in the order of their uses
	here []graph.Value // by use: the Temp that holds it; as many as have been started
}

// operands is the States that n reads and that do not stay.
func (s *stream) operands(n *graph.Node) (out []graph.Value) {
	for _, v := range n.In {
		if v == graph.None {
			continue
		}
		if x := &s.old.Values[v]; x.Kind == graph.State && x.Purpose == mem.Weights && !s.keep[x.Name] {
			out = append(out, v)
		}
	}
	return out
}

// bytes is what a use takes.
func (s *stream) bytes(use int) int64 { return s.old.Values[s.uses[use]].Bytes }

// room is the bytes of the largest operation's weights and the one after them.
func (s *stream) room() (most int64) {
	done := 0
	for i := range s.old.Ops {
		n := len(s.operands(&s.old.Ops[i]))
		sum := int64(0)
		for k := done; k < min(done+n+1, len(s.uses)); k++ {
			sum += s.bytes(k)
		}
		most = max(most, sum)
		done += n
	}
	return most
}

// fetch starts the fetches of the first n uses that are not started yet, and of as many after them as fit into room beside the uses from
// first on.
func (s *stream) fetch(first, n int, room int64) {
	alive := int64(0)
	for k := first; k < len(s.here); k++ {
		alive += s.bytes(k)
	}
	for len(s.here) < len(s.uses) {
		if alive += s.bytes(len(s.here)); len(s.here) >= n && alive > room {
			return
		}
		v := s.uses[len(s.here)]
		x := &s.old.Values[v]
		s.At(x.Layer, x.Part, graph.Forward)
		t := s.Apply(graph.Fetch{}, s.to[v])[0]
		s.G.Values[t].Purpose = mem.Weights
		s.here = append(s.here, s.Name(t, x.Name+".here"))
	}
}
