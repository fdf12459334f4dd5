package graph

// Mix is the second half of standard attention: p (N,H,Context), v (S,G·K), table, seq, pos → o (N,H·K), keys in
// ascending order.
type Mix struct{ AttentionSpec }

// MixDP is its gradient for p: do (N,H·K), v, table, seq, pos → (N,H,Context); 0 for what a row does not see.
type MixDP struct{ AttentionSpec }

// MixDV is its gradient for v: do (N,H·K), p, table, seq, pos → (S,G·K) for Slots slots, rows ascending.
type MixDV struct {
	AttentionSpec
	Slots Dim
}

func (Mix) Kind() string      { return "mix" }
func (MixDP) Kind() string    { return "mix_dp" }
func (MixDV) Kind() string    { return "mix_dv" }
func (o Mix) Attrs() string   { return o.String() }
func (o MixDP) Attrs() string { return o.String() }
func (o MixDV) Attrs() string { return o.String() }

func (o Mix) Outputs(in []Type) []Type {
	return []Type{{in[0].DType, S(in[0].Shape.Dims[0], D(o.Heads*o.HeadDim))}}
}
func (o MixDP) Outputs(in []Type) []Type {
	return []Type{{in[0].DType, S(in[0].Shape.Dims[0], D(o.Heads), D(o.Context))}}
}
func (o MixDV) Outputs(in []Type) []Type {
	return []Type{{in[0].DType, S(o.Slots, D(o.KVHeads*o.HeadDim))}}
}

func (o Mix) FLOPs(b Bounds, _, out []Type) float64  { return o.flops(b, out[0]) }
func (o MixDP) FLOPs(b Bounds, in, _ []Type) float64 { return o.flops(b, in[0]) }
func (o MixDV) FLOPs(b Bounds, in, _ []Type) float64 { return o.flops(b, in[0]) }

// Gradient takes v's part first: the scores' gradient then frees do.
func (o Mix) Gradient(w *Backprop) {
	in, do := w.Node.In, w.Dout(0)
	if w.Needs(1) {
		slots := w.G.Values[in[1]].Type.Shape.Dims[0]
		w.Add(1, w.one(MixDV{o.AttentionSpec, slots}, do, in[0], in[2], in[3], in[4]))
	}
	if w.Needs(0) {
		w.Add(0, w.one(MixDP{o.AttentionSpec}, do, in[1], in[2], in[3], in[4]))
	}
}
