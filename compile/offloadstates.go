package compile

import (
	"strings"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor"
)

// StatesOptions are the options of OffloadStates.
type StatesOptions struct {
	Tier  mem.Tier        // Host or Disk
	Piece int64           // bytes of the States that an update takes at a time, in whole blocks; 0 is what is usual
	Keep  map[string]bool // weights whose States stay on the device
}

// OffloadStates rewrites a graph of a training job for a device that does not hold what updates keep: masters and the optimizer's States lie
// on a lower tier, and each operation on them takes Temps that a Fetch fills and an Offload writes back. Updates go by pieces: while
// one is computed, the next is read and the one before is written, as far as roomPieces go.
//
//	fetch 0, fetch 1 │ wait 0, update 0, offload 0 │ fetch 2, wait 1, update 1, offload 1 │ …
//
// The first are fetched as soon as the update phase begins, where the norm for clipping is taken first. An update is element by element, so
// pieces change no bit. Programs that fill or save States go through the same pieces, in order. It runs after Train and Zero, on every graph of a job.
func OffloadStates(g *graph.Graph, opts StatesOptions) *graph.Graph {
	o := &offloaded{rewriter: newRewriter(g), StatesOptions: opts}
	all := int64(0)
	for v := range g.Values {
		if x := &g.Values[v]; o.lies(x) && x.Root == graph.Value(v) {
			all += x.Bytes
			o.G.Values[o.to[v]].Tier = o.Tier
		}
	}
	if o.Piece <= 0 {
		o.Piece = min(max(all/(16*roomPieces), leastPiece), max(mostPiece, all/mostPieces))
	}
	first := make([]int, len(g.Ops)+1) // by operation: its first piece
	for i := range g.Ops {
		o.cut(&g.Ops[i])
		first[i+1] = len(o.pieces)
	}
	for i := range g.Ops {
		n := &g.Ops[i]
		o.at(n)
		if first[i] < first[i+1] {
			for k := first[i]; k < first[i+1]; k++ {
				o.piece(k)
			}
			continue
		}
		if n.Phase == graph.Update {
			o.ahead(first[i] - 1)
		}
		o.copy(n)
	}
	for len(o.writing) > 0 {
		o.settle()
	}
	return o.done()
}

// roomPieces is how many pieces are on their way or computed with at a time. Unless told otherwise that is a sixteenth of all States, in pieces within
// these bounds; larger ones where there would be more than mostPieces, since programs hold some KiB for each, which no plan counts but the Go runtime's.
const (
	leastPiece = 64 << 10
	mostPiece  = 4 << 20
	mostPieces = 512
	roomPieces = 4
)

// lies tells whether a State is moved.
func (o *offloaded) lies(x *graph.Info) bool {
	return x.Kind == graph.State && (x.Purpose == mem.OptimState || x.Purpose == mem.MasterWeights) && !o.Keep[WeightOf(x.Name)]
}

// here is what follows a State's name in that of the Temp that holds it, or a piece of it, on the device.
const here = ".here"

// StateOf is the name of the State whose bytes a program streams from or to a buffer: that of the State itself, or of where a lower tier's is held.
func StateOf(buffer string) string {
	name, _, _ := strings.Cut(buffer, here)
	return name
}

// WeightOf is the name of the weight that a master or a State of an optimizer is of.
func WeightOf(state string) string {
	for _, prefix := range [...]string{mPrefix, vPrefix, bufPrefix, lionPrefix, rowPrefix, colPrefix, masterPrefix} {
		if name, ok := strings.CutPrefix(state, prefix); ok {
			return name
		}
	}
	return state
}

// statePiece is an operation on a piece of States that lie below.
type statePiece struct {
	n *graph.Node
	graph.Piece
	states []graph.Value // operands: those States, as n names them
	temps  []graph.Value // of these, once they are fetched
	bytes  int64
}

// offloaded is the state of the rewrite.
type offloaded struct {
	*rewriter
	StatesOptions
	pieces  []statePiece
	fetched int           // pieces whose fetches are started
	writing []graph.Value // Temps that are being written back, oldest first
	alive   int64         // bytes that are on their way or computed with
	ready   int64         // of these, of pieces that no operation has taken yet
}

// cut lists the pieces of n.
func (o *offloaded) cut(n *graph.Node) {
	var states []graph.Value
	elems, elemBytes := 0, 0
	for _, v := range n.In {
		if v != graph.None && o.lies(&o.old.Values[v]) {
			t := o.old.Values[v].Type
			states = append(states, v)
			elems = int(t.Shape.Elems(graph.Bounds{}))
			elemBytes += int(t.DType.Bytes(1))
		}
	}
	if len(states) == 0 {
		return
	}
	if _, ok := n.Op.(graph.AdafactorMoments); ok { // sums along rows and down columns want them whole; they are small
		o.add(n, graph.Piece{}, states)
		return
	}
	step := max(int(o.Piece)/elemBytes/tensor.BlockElems, 1) * tensor.BlockElems
	for at := 0; at < elems; at += step {
		o.add(n, graph.Piece{At: at, N: min(step, elems-at)}, states)
	}
}

func (o *offloaded) add(n *graph.Node, p graph.Piece, states []graph.Value) {
	x := statePiece{n: n, Piece: p, states: states}
	for _, v := range states {
		t := o.old.Values[v].Type
		elems := t.Shape.Elems(graph.Bounds{})
		if p.N > 0 {
			elems = int64(p.N)
		}
		x.bytes += graph.RoundUp(t.DType.Bytes(elems))
	}
	o.pieces = append(o.pieces, x)
}

// ahead starts the fetches of the pieces up to the one after k, and of as many after them as fit into half of the room.
func (o *offloaded) ahead(k int) {
	for o.fetched < len(o.pieces) {
		p := &o.pieces[o.fetched]
		if o.fetched > k+1 && o.ready+p.bytes > roomPieces/2*o.Piece {
			return
		}
		for len(o.writing) > 0 && o.alive+p.bytes > roomPieces*o.Piece {
			o.settle()
		}
		for _, v := range p.states {
			x := &o.old.Values[v]
			t := o.Apply(graph.Fetch{Piece: p.Piece}, o.to[x.Root])[0]
			o.G.Values[t].Purpose = x.Purpose
			p.temps = append(p.temps, o.Name(t, x.Name+here))
		}
		o.alive, o.ready = o.alive+p.bytes, o.ready+p.bytes
		o.fetched++
	}
}

// settle waits for the oldest write.
func (o *offloaded) settle() {
	v := o.writing[0]
	o.writing = o.writing[1:]
	o.Apply(graph.Wait{}, graph.None, v)
	o.alive -= o.G.Values[v].Bytes
}

// piece appends piece k: its wait, its operation, and the writing of what that changes.
func (o *offloaded) piece(k int) {
	o.ahead(k)
	p := &o.pieces[k]
	n := p.n
	for _, t := range p.temps {
		o.Apply(graph.Wait{}, graph.None, t)
	}
	in := o.in(n.In)
	for j, v := range n.In {
		for i, s := range p.states {
			if v == s {
				in[j] = p.temps[i]
			}
		}
	}
	op := n.Op
	if u, ok := op.(graph.Updater); ok {
		if op = u.OnPiece(p.Piece); p.At > 0 {
			in[0] = o.to[n.Out[0]] // what the piece before has made of the weight
		}
	}
	out := o.Apply(op, in...)
	o.ready -= p.bytes
	written := int64(0)
	for i, v := range n.Out {
		x, y := &o.old.Values[v], &o.G.Values[out[i]]
		if y.Purpose = x.Purpose; !o.lies(x) {
			y.Name, o.to[v] = x.Name, out[i]
			continue
		}
		o.Name(out[i], x.Name+here)
		next := o.Apply(graph.Offload{To: o.Tier, Piece: p.Piece}, out[i], o.to[x.Root])[0]
		o.to[x.Root], o.to[v] = next, next
		o.writing = append(o.writing, out[i])
		written += o.G.Values[out[i]].Bytes
	}
	o.alive += written - p.bytes
}

// waits is the modelled time that p waits for copies of States of lower tiers, which no link carries faster than rate.
func waits(p *Program, rate [mem.NumTiers]float64) (sum float64) {
	var now, free float64
	done := map[int32]float64{} // by ticket
	for i := range p.Instrs {
		in := &p.Instrs[i]
		now += in.Seconds
		switch in.Op.(type) {
		case graph.Fetch:
			free = carried(p, in.In[0], in.Out[0], rate, max(now, free))
			done[in.Ticket] = free
		case graph.Offload:
			free = carried(p, in.Out[0], in.In[0], rate, max(now, free))
			done[in.Ticket] = free
		case graph.Wait:
			if d := done[in.Ticket] - now; d > 0 {
				sum, now = sum+d, now+d
			}
		}
	}
	return sum
}

// carried is when a copy is done that begins at from, between a State and a Temp. Other copies have their time elsewhere.
func carried(p *Program, state, temp Operand, rate [mem.NumTiers]float64, from float64) float64 {
	b := &p.Buffers[state.Buffer]
	if !b.Persistent() || b.Purpose == mem.Weights || rate[b.Tier] <= 0 {
		return from
	}
	return from + float64(temp.Type.Bytes(p.Bounds))/rate[b.Tier]
}
