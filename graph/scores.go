package graph

// Scores is the first step of standard attention where scores have a softcap, an operation of its own (AttentionProbs is where they have none):
// q (N,H·K), k (S,G·K), table, seq, pos → Scale·q·kᵀ (N,H,Context); what a row does not see is −Inf.
type Scores struct{ AttentionSpec }

// ScoresDQ is its gradient for q: ds (N,H,Context), k, table, seq, pos → (N,H·K).
type ScoresDQ struct{ AttentionSpec }

// ScoresDK is its gradient for k: ds (N,H,Context), q, table, seq, pos → (S,G·K) for Slots slots, rows ascending.
type ScoresDK struct {
	AttentionSpec
	Slots Dim
}

func (Scores) Kind() string      { return "scores" }
func (ScoresDQ) Kind() string    { return "scores_dq" }
func (ScoresDK) Kind() string    { return "scores_dk" }
func (o Scores) Attrs() string   { return o.String() }
func (o ScoresDQ) Attrs() string { return o.String() }
func (o ScoresDK) Attrs() string { return o.String() }

func (o Scores) Outputs(in []Type) []Type {
	o.check(in[0], in[1])
	return []Type{{in[0].DType, S(in[0].Shape.Dims[0], D(o.Heads), D(o.Context))}}
}
func (o ScoresDQ) Outputs(in []Type) []Type {
	return []Type{{in[0].DType, S(in[0].Shape.Dims[0], D(o.Heads*o.HeadDim))}}
}
func (o ScoresDK) Outputs(in []Type) []Type {
	return []Type{{in[0].DType, S(o.Slots, D(o.KVHeads*o.HeadDim))}}
}

func (o Scores) FLOPs(b Bounds, in, _ []Type) float64    { return o.flops(b, in[0]) }
func (o ScoresDQ) FLOPs(b Bounds, _, out []Type) float64 { return o.flops(b, out[0]) }
func (o ScoresDK) FLOPs(b Bounds, in, _ []Type) float64  { return o.flops(b, in[1]) }

// Gradient reads q and k.
func (o Scores) Gradient(w *Backprop) { o.keys(w, w.Dout(0)) }

// keys adds the gradients for q and k, operands 0 and 1, of scores whose gradient is ds.
func (s AttentionSpec) keys(w *Backprop, ds Value) {
	in := w.Node.In
	if w.Needs(0) {
		w.Add(0, w.one(ScoresDQ{s}, ds, in[1], in[2], in[3], in[4]))
	}
	if w.Needs(1) {
		slots := w.G.Values[in[1]].Type.Shape.Dims[0]
		w.Add(1, w.one(ScoresDK{s, slots}, ds, in[0], in[2], in[3], in[4]))
	}
}
