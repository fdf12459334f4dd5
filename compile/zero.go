package compile

import (
	"fmt"
	"strings"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor"
)

// ZeroOptions are the zero pass's options (ZeRO, arXiv 1910.02054).
type ZeroOptions struct {
	Stage int // 0 replicates everything, 1 shards optimiser state, 2 also gradients, 3 also weights
	Ranks int
}

// Validate reports what cannot be.
func (o ZeroOptions) Validate() error {
	if o.Ranks < 1 || o.Stage < 0 || o.Stage > 3 {
		return fmt.Errorf("zero: stage %d on %d ranks: want stage 0..3 and at least 1 rank", o.Stage, o.Ranks)
	}
	if o.Stage > 0 && o.Ranks == 1 {
		return fmt.Errorf("zero: stage %d needs at least 2 ranks", o.Stage)
	}
	return nil
}

// Zero spreads a graph over ranks. All stages are one rewrite, which asks three questions of a tensor: where its gradient
// is summed, what of it the update touches, and whether its weight must be gathered before use.
//
//	stage  gradient                        update                          weight
//	0      all-reduce at the update        whole                           whole
//	1      reduce-scatter at the update    own shard, then all-gather      whole
//	2      reduce-scatter when complete    own shard, then all-gather      whole
//	3      reduce-scatter when complete    own shard                       gathered before each use
//
// Sums are taken in rank order for every element and norms by fixed blocks, so all stages give the same bits. With
// accumulation that asks every stage to sum each micro-batch over ranks before it is accumulated. Tensors of
// one axis stay whole in stage 3, and Adafactor's moments in all. A gathered weight is never kept for the backward half: recompute gathers it again.
func Zero(g *graph.Graph, o ZeroOptions) (*graph.Graph, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Ranks == 1 {
		return g, nil
	}
	z := &zero{rewriter: newZeroRewriter(g, o), o: o, summed: map[graph.Value]graph.Value{}, gathers: map[gatherKey]graph.Value{}, complete: map[graph.Value]bool{}, latest: map[graph.Value]graph.Value{}}
	for i := range g.Ops {
		if w, d := updateOperands(&g.Ops[i]); w != graph.None {
			z.complete[d] = true
		}
	}
	for v := range g.Values {
		if x := &g.Values[v]; x.Kind == graph.State && x.Purpose == mem.Grads {
			z.latest[x.Root] = graph.Value(v)
		}
	}
	for i := range g.Ops {
		z.node(&g.Ops[i])
	}
	ng := z.done()
	for i, v := range ng.Outputs {
		if ng.Values[v].Name != "loss" {
			continue
		}
		z.At(graph.Outside, "loss", graph.Update)
		s := z.Apply(graph.AllReduce{Ranks: o.Ranks}, v)[0]
		ng.Values[s].Name, ng.Values[s].Purpose = "loss", mem.Activations
		ng.Outputs[i], ng.Loss = s, s
	}
	return ng, nil
}

type gatherKey struct {
	weight graph.Value
	layer  int
	part   string
}

// zero is the state of the rewrite.
type zero struct {
	*rewriter
	o        ZeroOptions
	summed   map[graph.Value]graph.Value // by old gradient: its sum over ranks, whole or this rank's shard
	complete map[graph.Value]bool        // old gradients that an update reads
	latest   map[graph.Value]graph.Value // by accumulator: its last version in this graph
	gathers  map[gatherKey]graph.Value
}

// newZeroRewriter declares States with the types that the stage gives them.
func newZeroRewriter(g *graph.Graph, o ZeroOptions) *rewriter {
	r := &rewriter{Builder: graph.NewBuilder(g.Name, g.Bounds), old: g, to: make([]graph.Value, len(g.Values))}
	for v := range r.to {
		r.to[v] = graph.None
		x := &g.Values[v]
		if x.Root != graph.Value(v) || x.Kind == graph.Temp {
			continue
		}
		t := x.Type
		if o.shards(x) {
			t = graph.ShardType(t, o.Ranks)
		}
		r.At(x.Layer, x.Part, graph.Forward)
		r.to[v] = r.declare(x, t)
	}
	return r
}

// shards tells whether each rank holds only its shard of a State.
func (o ZeroOptions) shards(x *graph.Info) bool {
	if o.Ranks == 1 || x.Kind != graph.State {
		return false
	}
	switch x.Purpose {
	case mem.OptimState, mem.MasterWeights:
		return o.Stage >= 1 && !strings.HasPrefix(x.Name, factorPrefix)
	case mem.Grads:
		return o.Stage >= 2
	case mem.Weights:
		return o.Stage >= 3 && x.Train && x.Type.Shape.N >= 2
	}
	return false
}

// Sharded tells whether, at this stage, each rank holds only its shard of the State named name of purpose p and type t.
func (o ZeroOptions) Sharded(name string, p mem.Purpose, t graph.Type) bool {
	return o.shards(&graph.Info{Name: name, Kind: graph.State, Purpose: p, Type: t, Train: true})
}

// updateOperands returns the weight and the gradient of an update operation, or None.
func updateOperands(n *graph.Node) (w, d graph.Value) {
	if _, ok := n.Op.(graph.Updater); ok {
		return n.In[0], n.In[1]
	}
	return graph.None, graph.None
}

func (z *zero) node(n *graph.Node) {
	switch o := n.Op.(type) {
	case graph.Updater:
		z.update(o, n)
		return
	case graph.AdafactorMoments:
		z.moments(n)
		return
	case graph.SumSquares:
		z.at(n)
		d := z.sum(n.In[0])
		part := z.Apply(n.Op, d)[0]
		if z.o.Stage >= 1 {
			t := z.old.Values[n.Out[0]].Type
			part = z.Apply(graph.AllGather{Ranks: z.o.Ranks, Unit: tensor.BlockElems, Elems: z.elems(n.In[0]), To: t}, part, graph.None)[0]
			z.G.Values[part].Purpose = mem.Workspace
		}
		z.to[n.Out[0]] = part
		return
	}
	saved := z.gatherOperands(n)
	var acc []int // outputs that continue an accumulator
	restore := map[graph.Value]graph.Value{}
	for i, v := range n.Out {
		x := &z.old.Values[v]
		if x.Kind == graph.State && x.Purpose == mem.Grads && !isZero(n) {
			acc = append(acc, i)
			for _, in := range n.In { // the first contribution starts afresh, later ones continue a Temp
				if in != graph.None && z.old.Values[in].Root == x.Root && in == x.Root {
					restore[in] = z.to[in]
					z.to[in] = graph.None
				}
			}
		}
	}
	z.copy(n)
	for v, to := range restore {
		z.to[v] = to
	}
	for _, i := range acc {
		v := n.Out[i]
		x := &z.old.Values[v]
		z.G.Values[z.to[v]].Name = strings.TrimPrefix(x.Name, gradPrefix) + ".grad"
		if z.latest[x.Root] != v {
			continue
		}
		var sum graph.Op = graph.AllReduce{Ranks: z.o.Ranks}
		if z.o.Stage >= 2 {
			sum = graph.ReduceScatter{Ranks: z.o.Ranks}
		}
		s := z.Apply(sum, z.to[v])[0]
		z.to[x.Root] = z.Apply(graph.AddOp{}, z.to[x.Root], s)[0]
	}
	for v, to := range saved {
		z.to[v] = to
	}
	if z.o.Stage >= 2 {
		for _, v := range n.Out {
			if z.complete[v] && z.old.Values[v].Kind == graph.Temp {
				z.sum(v)
			}
		}
	}
}

func isZero(n *graph.Node) bool {
	_, ok := n.Op.(graph.Zero)
	return ok
}

func (z *zero) elems(v graph.Value) int {
	return int(z.old.Values[v].Type.Shape.Elems(graph.Bounds{}))
}

// sum returns the sum over ranks of gradient d, making it at the first call.
func (z *zero) sum(d graph.Value) graph.Value {
	if s, ok := z.summed[d]; ok {
		return s
	}
	x := &z.old.Values[d]
	var s graph.Value
	switch {
	case x.Kind == graph.State && z.o.Stage == 1: // summed micro-batch by micro-batch, whole
		s = z.Apply(graph.ShardSlice{Ranks: z.o.Ranks}, z.to[d])[0]
		z.G.Values[s].Purpose = mem.Grads
	case x.Kind == graph.State: // summed micro-batch by micro-batch
		s = z.to[d]
	case z.o.Stage >= 1:
		s = z.Apply(graph.ReduceScatter{Ranks: z.o.Ranks}, z.to[d])[0]
	default:
		s = z.Apply(graph.AllReduce{Ranks: z.o.Ranks}, z.to[d])[0]
	}
	z.summed[d] = s
	return s
}

// moments appends Adafactor's moments, which every rank makes of the whole gradient: sums along rows and down columns do not keep to shards.
// They are small, so they are on all ranks, and a sharded gradient is gathered for no longer than they take.
func (z *zero) moments(n *graph.Node) {
	z.at(n)
	in := z.in(n.In)
	d := n.In[0]
	x := &z.old.Values[d]
	in[0] = z.sum(d)
	switch {
	case x.Kind == graph.State && z.o.Stage == 1:
		in[0] = z.to[d]
	case z.o.Stage >= 1:
		in[0] = z.Apply(graph.AllGather{Ranks: z.o.Ranks, Unit: 1, Elems: z.elems(d), To: x.Type}, in[0], graph.None)[0]
	}
	out := z.Apply(n.Op, in...)
	for i, v := range n.Out {
		z.to[v] = out[i]
	}
}

// update appends an update of the whole weight, or of this rank's shard of it.
func (z *zero) update(o graph.Updater, n *graph.Node) {
	z.at(n)
	w := n.In[0]
	in := z.in(n.In)
	in[1] = z.sum(n.In[1])
	x := &z.old.Values[w]
	slice := z.o.Stage >= 1 && !z.o.shards(x)
	if slice {
		in[0] = z.Apply(graph.ShardSlice{Ranks: z.o.Ranks}, z.to[w])[0]
	}
	op := graph.Op(o)
	if z.o.Stage >= 1 {
		op = o.OnShard(z.o.Ranks, z.elems(w))
	}
	out := z.Apply(op, in...)
	for i, v := range n.Out {
		z.to[v] = out[i]
	}
	if slice {
		z.to[n.Out[0]] = z.Apply(graph.AllGather{Ranks: z.o.Ranks, Unit: 1, Elems: z.elems(w), To: x.Type}, out[0], z.to[w])[0]
	}
}

// gatherOperands puts whole weights in the place of sharded ones that n reads, and returns the mapping to restore.
func (z *zero) gatherOperands(n *graph.Node) map[graph.Value]graph.Value {
	var saved map[graph.Value]graph.Value
	for _, v := range n.In {
		if v == graph.None || !z.o.shards(&z.old.Values[v]) || z.old.Values[v].Purpose != mem.Weights {
			continue
		}
		if _, ok := n.Op.(graph.Restore); ok {
			continue
		}
		if saved == nil {
			saved = map[graph.Value]graph.Value{}
		}
		if _, ok := saved[v]; ok {
			continue
		}
		saved[v] = z.to[v]
		k := gatherKey{v, n.Layer, n.Part}
		full, ok := z.gathers[k]
		if !ok {
			x := &z.old.Values[v]
			z.at(n)
			full = z.Apply(graph.AllGather{Ranks: z.o.Ranks, Unit: 1, Elems: z.elems(v), To: x.Type}, z.to[v], graph.None)[0]
			z.Name(full, x.Name+".full")
			z.gathers[k] = full
		}
		z.to[v] = full
	}
	return saved
}
