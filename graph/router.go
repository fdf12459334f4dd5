package graph

import (
	"fmt"

	"loadline/tensor/dtype"
)

// Router picks the TopK largest of E logits in a row and softmaxes them (which equals softmax over all, then top-k, then
// renormalising: Mixtral, arXiv 2401.04088): logits (N,E) → weights (N,TopK), ids i32 (N,TopK), largest first; of equal
// logits the lower expert wins. With All weights are what softmax over all gives them, whose sum is less than 1 (Switch
// Transformer, arXiv 2101.03961, section 2.1).
type Router struct {
	TopK int
	All  bool
}

// RouterGrad is its gradient: dweights, weights, ids (N,TopK) → dlogits (N,Experts); 0 where not picked. With All it takes
// the logits (N,Experts) last, and there is a gradient everywhere.
type RouterGrad struct {
	Experts int
	All     bool
}

func (Router) Kind() string     { return "router" }
func (RouterGrad) Kind() string { return "router_grad" }
func (o Router) Attrs() string {
	if o.All {
		return fmt.Sprintf("topk=%d all", o.TopK)
	}
	return fmt.Sprintf("topk=%d", o.TopK)
}
func (o Router) Outputs(in []Type) []Type {
	want(in[0].DType == dtype.F32 && o.TopK > 0 && o.TopK <= in[0].Shape.Last(), "router: top %d of logits %v", o.TopK, in[0])
	s := in[0].Shape.WithLast(o.TopK)
	return []Type{{dtype.F32, s}, {dtype.I32, s}}
}
func (o RouterGrad) Outputs(in []Type) []Type {
	return []Type{{in[0].DType, in[0].Shape.WithLast(o.Experts)}}
}
func (Router) FLOPs(b Bounds, in, _ []Type) float64     { return 3 * elems(b, in[0]) }
func (RouterGrad) FLOPs(b Bounds, in, _ []Type) float64 { return 6 * elems(b, in[0]) }

// Gradient reads only what Router made, and with All the logits.
func (o Router) Gradient(w *Backprop) {
	n := w.Node
	g := RouterGrad{w.G.Values[n.In[0]].Type.Shape.Last(), o.All}
	if o.All {
		w.Add(0, w.one(g, w.Dout(0), n.Out[0], n.Out[1], n.In[0]))
		return
	}
	w.Add(0, w.one(g, w.Dout(0), n.Out[0], n.Out[1]))
}

// Router appends a top-k router whose weights have the sum 1.
func (b *Builder) Router(logits Value, topK int) (weights, ids Value) {
	return b.router(Router{TopK: topK}, logits)
}

// RouterOfAll appends a top-k router whose weights are those that softmax over all experts gives.
func (b *Builder) RouterOfAll(logits Value, topK int) (weights, ids Value) {
	return b.router(Router{TopK: topK, All: true}, logits)
}

func (b *Builder) router(o Router, logits Value) (weights, ids Value) {
	out := b.Apply(o, logits)
	return out[0], out[1]
}
