package compile

import (
	"loadline/graph"
)

// FuseOptions are the fuse pass's options.
type FuseOptions struct {
	Chunk int // rows of logits held at once by the loss head; a multiple of 128. 0 leaves logits whole
}

// Fuse rewrites pairs that need not hold what lies between them: a matrix product whose only reader is a cross-entropy, or a
// softcap whose only reader is one, becomes a HeadLoss, which holds logits for Chunk rows at a time. It must run before Train.
func Fuse(g *graph.Graph, opts FuseOptions) *graph.Graph {
	if opts.Chunk <= 0 {
		return g
	}
	readers := make([]int, len(g.Values))
	for i := range g.Ops {
		for _, v := range g.Ops[i].In {
			if v != graph.None {
				readers[v]++
			}
		}
	}
	for _, v := range g.Outputs {
		readers[v]++
	}
	fused := map[int]bool{} // matrix products that go, and softcaps
	for i := range g.Ops {
		if _, ok := g.Ops[i].Op.(graph.CrossEntropy); !ok || readers[g.Ops[i].Out[1]] > 0 {
			continue
		}
		l := g.Ops[i].In[0]
		d := g.Values[l].Def
		if d < 0 || readers[l] != 1 {
			continue
		}
		capped := d
		if _, ok := g.Ops[d].Op.(graph.SoftCap); ok {
			if l = g.Ops[d].In[0]; g.Values[l].Def < 0 || readers[l] != 1 {
				continue
			}
			d = g.Values[l].Def
		}
		if _, ok := g.Ops[d].Op.(graph.MatMul); ok && len(g.Ops[d].In) == 2 {
			fused[int(d)], fused[int(capped)] = true, true
		}
	}
	r := newRewriter(g)
	for i := range g.Ops {
		n := &g.Ops[i]
		if fused[i] {
			continue
		}
		if o, ok := n.Op.(graph.CrossEntropy); ok && g.Values[n.In[0]].Def >= 0 && fused[int(g.Values[n.In[0]].Def)] {
			mm := &g.Ops[g.Values[n.In[0]].Def]
			r.at(n)
			head := graph.HeadLoss{Chunk: opts.Chunk, LossTerms: o.LossTerms}
			if c, ok := mm.Op.(graph.SoftCap); ok {
				head.Softcap = c.Cap
				mm = &g.Ops[g.Values[mm.In[0]].Def]
			}
			r.to[n.Out[0]] = r.Apply(head, r.to[mm.In[0]], r.to[mm.In[1]], r.to[n.In[1]], r.to[n.In[2]])[0]
			continue
		}
		r.copy(n)
	}
	return r.done()
}

// rewriter copies a graph operation by operation into a new one, so that a pass changes only what it means to.
type rewriter struct {
	*graph.Builder
	old *graph.Graph
	to  []graph.Value // by old value: the new one
}

// newRewriter declares all Inputs and States of g in a new graph of the same name.
func newRewriter(g *graph.Graph) *rewriter {
	r := &rewriter{Builder: graph.NewBuilder(g.Name, g.Bounds), old: g, to: make([]graph.Value, len(g.Values))}
	for v := range r.to {
		r.to[v] = graph.None
		x := &g.Values[v]
		if x.Root != graph.Value(v) || x.Kind == graph.Temp {
			continue
		}
		r.At(x.Layer, x.Part, graph.Forward)
		r.to[v] = r.declare(x, x.Type)
	}
	r.At(graph.Outside, "", graph.Forward)
	return r
}

// declare declares an Input or State like x, of type t.
func (r *rewriter) declare(x *graph.Info, t graph.Type) graph.Value {
	if x.Kind == graph.Input {
		return r.Input(x.Name, t)
	}
	v := r.State(x.Name, t, x.Purpose)
	r.G.Values[v].Train, r.G.Values[v].Tier = x.Train, x.Tier
	return v
}

// at sets layer, part and phase to those of n.
func (r *rewriter) at(n *graph.Node) { r.At(n.Layer, n.Part, n.Phase) }

// in maps operands.
func (r *rewriter) in(vs []graph.Value) []graph.Value {
	out := make([]graph.Value, len(vs))
	for i, v := range vs {
		out[i] = graph.None
		if v != graph.None {
			out[i] = r.to[v]
		}
	}
	return out
}

// copy appends n as it is.
func (r *rewriter) copy(n *graph.Node) []graph.Value {
	r.at(n)
	out := r.Apply(n.Op, r.in(n.In)...)
	for i, v := range n.Out {
		r.to[v] = out[i]
		x := &r.old.Values[v]
		y := &r.G.Values[out[i]]
		y.Name, y.Purpose = x.Name, x.Purpose
	}
	return out
}

// done carries outputs, loss and layers over.
func (r *rewriter) done() *graph.Graph {
	for _, v := range r.old.Outputs {
		r.Output(r.old.Values[v].Name, r.to[v])
	}
	if r.old.Loss != graph.None {
		r.G.Loss = r.to[r.old.Loss]
	}
	r.G.Layers = r.old.Layers
	return r.G
}
