package compile

import (
	"fmt"

	"loadline/graph"
	"loadline/tensor/dtype"
)

// AutocastOptions are the autocast pass's options.
type AutocastOptions struct {
	Compute dtype.Type // F32 changes nothing; BF16 or F16
}

// Autocast puts a forward graph into a compute type (Micikevicius et al., arXiv 1710.03740): weights of two or more axes
// and all that is computed from them are stored in it, and so are the gradients of activations. What stays f32: weights of
// one axis, row statistics, routers (their weights, their logits, and what those are computed from), logits of a cross-entropy that is not
// fused, losses, and the gradients of weights; sums inside an operation are f32 as before. Train keeps an f32 master of every narrow
// weight unless it is told not to. It runs after Fuse and before Train.
func Autocast(g *graph.Graph, o AutocastOptions) (*graph.Graph, error) {
	switch o.Compute {
	case dtype.F32:
		return g, nil
	case dtype.BF16, dtype.F16:
	default:
		return nil, fmt.Errorf("compile: autocast to %v: want f32, bf16 or f16", o.Compute)
	}
	wide := routers(g)
	r := &rewriter{Builder: graph.NewBuilder(g.Name, g.Bounds), old: g, to: make([]graph.Value, len(g.Values))}
	for v := range r.to {
		r.to[v] = graph.None
		x := &g.Values[v]
		if x.Root != graph.Value(v) || x.Kind == graph.Temp {
			continue
		}
		t := x.Type
		if narrow(x) && !wide[graph.Value(v)] {
			t.DType = o.Compute
		}
		r.At(x.Layer, x.Part, graph.Forward)
		r.to[v] = r.declare(x, t)
	}
	for i := range g.Ops {
		n := &g.Ops[i]
		_, loss := n.Op.(graph.CrossEntropy)
		if x := n.In[0]; (loss || wide[n.Out[0]]) && r.G.Values[r.to[x]].Type.DType != dtype.F32 {
			r.at(n)
			narrowed := r.to[x]
			r.to[x] = r.Cast(narrowed, dtype.F32)
			r.copy(n)
			r.to[x] = narrowed
			continue
		}
		r.copy(n)
	}
	return r.done(), nil
}

// narrow tells whether autocast stores a State in the compute type: weights that matrix products and look-ups read.
func narrow(x *graph.Info) bool { return x.Kind == graph.State && x.Train && x.Type.Shape.N >= 2 }

// routers marks the logits that routers choose by, and the weights that they are products with. Which expert a token goes to is not
// continuous: it is decided in f32 (Switch Transformer, arXiv 2101.03961, section 2.4).
func routers(g *graph.Graph) map[graph.Value]bool {
	wide := map[graph.Value]bool{}
	for i := range g.Ops {
		if _, ok := g.Ops[i].Op.(graph.Router); !ok {
			continue
		}
		logits := g.Ops[i].In[0]
		d := g.Values[logits].Def
		if d < 0 {
			continue
		}
		if _, ok := g.Ops[d].Op.(graph.MatMul); ok {
			wide[logits], wide[g.Ops[d].In[1]] = true, true
		}
	}
	return wide
}
