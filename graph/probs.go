package graph

// AttentionProbs is Scores and Softmax in one: q (N,H·K), k (S,G·K), table, seq, pos, sinks (H) or None → p (N,H,Context), softmax of Scale·q·kᵀ over
// what a row sees, and 0 for the rest. Scores are never held for more than a few rows. A Softcap, whose slope reads the scores, has no place in it.
type AttentionProbs struct{ AttentionSpec }

func (AttentionProbs) Kind() string    { return "attention_probs" }
func (o AttentionProbs) Attrs() string { return o.String() }

func (o AttentionProbs) Outputs(in []Type) []Type {
	want(o.Softcap == 0, "attention_probs: a softcap")
	want(len(in) < 6 || in[5].Shape.N == 0 || in[5] == F(D(o.Heads)), "attention_probs: %d heads do not fit sinks", o.Heads)
	return Scores{o.AttentionSpec}.Outputs(in)
}

// FLOPs is the product, and five for each probability that is not 0.
func (o AttentionProbs) FLOPs(b Bounds, in, _ []Type) float64 {
	product := o.flops(b, in[0])
	return product + 5*product/float64(2*o.HeadDim)
}

// Gradient reads q, k and the probabilities.
func (o AttentionProbs) Gradient(w *Backprop) {
	p := w.Node.Out[0]
	if w.Needs(5) {
		w.Set(5, w.one(SoftmaxSinkGrad{}, w.Dout(0), p, w.So(5)))
	}
	o.keys(w, w.one(SoftmaxGrad{}, w.Dout(0), p))
}
