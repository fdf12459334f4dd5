package model

import "loadline/graph"

// Map is a function of rows: a norm, a projection. What it builds gets the layer and part of the block that calls it.
type Map = func(x graph.Value) graph.Value

// AttentionOptions say what an attention sub-block is made of. Maps are required unless said otherwise.
type AttentionOptions struct {
	Layer    int
	Norm     Map                                         // before the projections
	Q, K, V  Map                                         // (N,D) → (N,H·K), (N,G·K), (N,G·K)
	QNorm    Map                                         // norms the heads of q; may be nil, and so may KNorm
	KNorm    Map                                         // norms the heads of k
	Out      Map                                         // (N,H·K) → (N,D)
	Post     Map                                         // norms what Out makes; may be nil
	Rotate   func(x graph.Value, heads int) graph.Value  // turns q and k by position; may be nil
	Append   func(k, v graph.Value) (pk, pv graph.Value) // puts new rows into KV pools; may be nil
	Drop     Map                                         // applied to what Out makes; may be nil
	Sinks    func() graph.Value                          // (H), a score that every row of a head sees beside its keys'; may be nil
	Paging   graph.Paging
	Spec     graph.AttentionSpec
	Standard bool // hold scores and probabilities as values
}

// Attention appends x + post(out(attention(norm(x)))) under the parts attn.norm, attn.qkv, attn.qk.norm (where QNorm is not nil),
// attn.rope (where Rotate is not nil), attn.append (where Append is not nil: keys and values then come from the pools that it
// returns), attn.core, attn.out, attn.post.norm (where Post is not nil) and attn.residual.
func Attention(b *graph.Builder, x graph.Value, o AttentionOptions) graph.Value {
	var h, q, k, v, a, y, out graph.Value
	b.Part(o.Layer, "attn.norm", func() { h = b.Name(o.Norm(x), "attn.normed") })
	b.Part(o.Layer, "attn.qkv", func() {
		q, k, v = b.Name(o.Q(h), "q"), b.Name(o.K(h), "k"), b.Name(o.V(h), "v") // (N,H·K), (N,G·K), (N,G·K)
	})
	if o.QNorm != nil {
		b.Part(o.Layer, "attn.qk.norm", func() { q, k = b.Name(o.QNorm(q), "q.normed"), b.Name(o.KNorm(k), "k.normed") })
	}
	if o.Rotate != nil {
		b.Part(o.Layer, "attn.rope", func() {
			q, k = b.Name(o.Rotate(q, o.Spec.Heads), "q.rotated"), b.Name(o.Rotate(k, o.Spec.KVHeads), "k.rotated")
		})
	}
	if o.Append != nil {
		b.Part(o.Layer, "attn.append", func() { k, v = o.Append(k, v) }) // (S,G·K)
	}
	b.Part(o.Layer, "attn.core", func() {
		sinks := graph.None
		if o.Sinks != nil {
			sinks = o.Sinks()
		}
		if o.Standard {
			a = b.StandardAttentionWithSinks(q, k, v, sinks, o.Paging, o.Spec)
		} else {
			a = b.AttentionWithSinks(q, k, v, sinks, o.Paging, o.Spec)
		}
		b.Name(a, "attended") // (N,H·K)
	})
	b.Part(o.Layer, "attn.out", func() { y = b.Name(o.Out(a), "attn.y") }) // (N,D)
	if o.Post != nil {
		b.Part(o.Layer, "attn.post.norm", func() { y = b.Name(o.Post(y), "attn.y.normed") })
	}
	b.Part(o.Layer, "attn.residual", func() {
		if o.Drop != nil {
			y = o.Drop(y)
		}
		out = b.Name(b.Add(x, y), "x.mid")
	})
	return out
}

// MLPOptions say what a feed-forward sub-block is made of.
type MLPOptions struct {
	Layer int
	Norm  Map
	Gate  Map // (N,D) → (N,F); nil where there is no gate
	Up    Map // (N,D) → (N,F)
	Act   func(gate, up graph.Value) graph.Value
	Down  Map // (N,F) → (N,D)
	Post  Map // norms what Down makes; may be nil
	Drop  Map // applied to what Down makes; may be nil
}

// MLP appends x + post(down(act(gate(norm(x)), up(norm(x))))) under the parts mlp.norm, mlp.up (gate and up), mlp.act, mlp.down,
// mlp.post.norm (where Post is not nil) and mlp.residual. Without a Gate, Act gets graph.None in its place.
func MLP(b *graph.Builder, x graph.Value, o MLPOptions) graph.Value {
	var h, a, y graph.Value
	gate, up := graph.None, graph.None
	b.Part(o.Layer, "mlp.norm", func() { h = b.Name(o.Norm(x), "mlp.normed") })
	b.Part(o.Layer, "mlp.up", func() {
		if o.Gate != nil {
			gate = b.Name(o.Gate(h), "gate") // (N,F)
		}
		up = b.Name(o.Up(h), "up") // (N,F)
	})
	b.Part(o.Layer, "mlp.act", func() { a = b.Name(o.Act(gate, up), "act") }) // (N,F)
	b.Part(o.Layer, "mlp.down", func() { y = b.Name(o.Down(a), "mlp.y") })    // (N,D)
	if o.Post != nil {
		b.Part(o.Layer, "mlp.post.norm", func() { y = b.Name(o.Post(y), "mlp.y.normed") })
	}
	return mlpResidual(b, x, y, o.Layer, o.Drop)
}

func mlpResidual(b *graph.Builder, x, y graph.Value, layer int, drop Map) (out graph.Value) {
	b.Part(layer, "mlp.residual", func() {
		if drop != nil {
			y = drop(y)
		}
		out = b.Name(b.Add(x, y), "x")
	})
	return out
}

// MoEOptions say what a mixture-of-experts sub-block is made of.
type MoEOptions struct {
	Layer          int
	Norm           Map
	Router         Map // (N,D) → logits (N,E)
	Experts, TopK  int
	Share          bool        // weights of the chosen experts are their shares among all, and not made to have the sum 1
	Gate, Up, Down graph.Value // (E,F,D), (E,F,D), (E,D,F)
	Act            func(gate, up graph.Value) graph.Value
	Drop           Map // may be nil

	Biased                     bool
	GateBias, UpBias, DownBias graph.Value // (E,F), (E,F), (E,D) where Biased
}

// MoE appends x + Σ weight·down(act(gate(norm(x)), up(norm(x)))) over the TopK experts that the router picks for each row, under
// the parts mlp.norm, moe.router, moe.dispatch, moe.experts.up, moe.experts.act, moe.experts.down, moe.combine and mlp.residual.
func MoE(b *graph.Builder, x graph.Value, o MoEOptions) graph.Value {
	var h, weights, ids, order, place, offsets, rows, gate, up, a, e, y graph.Value
	product := func(x, w, bias graph.Value) graph.Value {
		y := b.GroupedMatMul(x, w, offsets)
		if o.Biased {
			y = b.GroupedBias(y, bias, offsets)
		}
		return y
	}
	b.Part(o.Layer, "mlp.norm", func() { h = b.Name(o.Norm(x), "mlp.normed") })
	b.Part(o.Layer, "moe.router", func() {
		logits := b.Name(o.Router(h), "router.logits")
		if o.Share {
			weights, ids = b.RouterOfAll(logits, o.TopK) // (N,TopK)
		} else {
			weights, ids = b.Router(logits, o.TopK) // (N,TopK)
		}
	})
	b.Part(o.Layer, "moe.dispatch", func() {
		order, place, offsets = b.Dispatch(ids, o.Experts)
		rows = b.Name(b.GatherRows(h, order, place, o.TopK), "moe.rows") // (N·TopK,D)
	})
	b.Part(o.Layer, "moe.experts.up", func() {
		gate = b.Name(product(rows, o.Gate, o.GateBias), "gate") // (N·TopK,F)
		up = b.Name(product(rows, o.Up, o.UpBias), "up")         // (N·TopK,F)
	})
	b.Part(o.Layer, "moe.experts.act", func() { a = b.Name(o.Act(gate, up), "act") })                           // (N·TopK,F)
	b.Part(o.Layer, "moe.experts.down", func() { e = b.Name(product(a, o.Down, o.DownBias), "moe.y") })         // (N·TopK,D)
	b.Part(o.Layer, "moe.combine", func() { y = b.Name(b.Combine(e, weights, order, place, o.TopK), "mlp.y") }) // (N,D)
	return mlpResidual(b, x, y, o.Layer, o.Drop)
}
