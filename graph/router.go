package graph

import (
	"fmt"

	"loadline/tensor/dtype"
)

// Router picks the TopK largest of E logits in a row and softmaxes them (which equals softmax over all, then top-k, then
// renormalising: Mixtral, arXiv 2401.04088): logits (N,E) → weights (N,TopK), ids i32 (N,TopK), largest first; of equal
// logits the lower expert wins.
type Router struct{ TopK int }

// RouterGrad is its gradient: dweights, weights, ids (N,TopK) → dlogits (N,Experts); 0 where not picked.
type RouterGrad struct{ Experts int }

func (Router) Kind() string     { return "router" }
func (RouterGrad) Kind() string { return "router_grad" }
func (o Router) Attrs() string  { return fmt.Sprintf("topk=%d", o.TopK) }
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

// Gradient reads only what Router made.
func (o Router) Gradient(w *Backprop) {
	n := w.Node
	e := w.G.Values[n.In[0]].Type.Shape.Last()
	w.Add(0, w.one(RouterGrad{e}, w.Dout(0), n.Out[0], n.Out[1]))
}

// Router appends a top-k router.
func (b *Builder) Router(logits Value, topK int) (weights, ids Value) {
	o := b.Apply(Router{topK}, logits)
	return o[0], o[1]
}
