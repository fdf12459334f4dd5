package compile

import (
	"fmt"
	"testing"

	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
)

// shape is a decoder for tests of the passes: bytes and FLOPs only, nothing runs.
type shape struct {
	d, layers, heads, kv, ffn, vocab, batch, seq int
	standard, tied                               bool
	experts, topK                                int
	dropout                                      float32
	chunk                                        int
}

func (c shape) String() string {
	return fmt.Sprintf("d%d-L%d-std%v-tied%v-E%d", c.d, c.layers, c.standard, c.tied, c.experts)
}

// forward builds the decoder up to its loss, with names and parts like those of the real one.
func (c shape) forward(name string) *graph.Graph {
	rows := c.batch * c.seq
	b := graph.NewBuilder(name, graph.Bounds{Rows: rows})
	hd := c.d / c.heads
	tokens := b.Input("tokens", graph.I(graph.R(1)))
	targets := b.Input("targets", graph.I(graph.R(1)))
	weight := b.Input("loss_weight", graph.F(graph.D(1)))
	p := graph.Paging{Table: b.Input("table", graph.I(graph.D(c.batch), graph.D(1))), Seq: b.Input("sequences", graph.I(graph.R(1))), Pos: b.Input("positions", graph.I(graph.R(1)))}
	seed := graph.None
	if c.dropout > 0 {
		seed = b.Input("seed", graph.I(graph.D(2)))
	}
	spec := graph.AttentionSpec{Heads: c.heads, KVHeads: c.kv, HeadDim: hd, Block: c.seq, Context: c.seq}
	mat := func(n string, out, in int) graph.Value { return b.Param(n, graph.F(graph.D(out), graph.D(in))) }
	vec := func(n string, l int) graph.Value { return b.Param(n, graph.F(graph.D(l))) }
	var emb, x graph.Value
	b.Part(graph.Outside, "embed", func() {
		emb = mat("embed", c.vocab, c.d)
		x = b.Name(b.Embedding(tokens, emb), "x")
	})
	for l := range c.layers {
		n := func(s string) string { return fmt.Sprintf("%d.%s", l, s) }
		var h, q, k, v, o, g, u, a graph.Value
		b.Part(l, "attn.norm", func() { h = b.RMSNorm(x, vec(n("norm1"), c.d), 1e-5) })
		b.Part(l, "attn.qkv", func() {
			q, k, v = b.MatMul(h, mat(n("q"), c.d, c.d)), b.MatMul(h, mat(n("k"), c.kv*hd, c.d)), b.MatMul(h, mat(n("v"), c.kv*hd, c.d))
		})
		b.Part(l, "attn.rope", func() {
			q, k = b.Rope(q, p.Pos, c.heads, hd, 1e4), b.Rope(k, p.Pos, c.kv, hd, 1e4)
		})
		b.Part(l, "attn.core", func() {
			if c.standard {
				o = b.StandardAttention(q, k, v, p, spec)
			} else {
				o = b.Attention(q, k, v, p, spec)
			}
		})
		b.Part(l, "attn.out", func() {
			o = b.MatMul(o, mat(n("o"), c.d, c.d))
			if c.dropout > 0 {
				o = b.Dropout(o, seed, c.dropout)
			}
		})
		b.Part(l, "attn.residual", func() { x = b.Add(x, o) })
		b.Part(l, "mlp.norm", func() { h = b.RMSNorm(x, vec(n("norm2"), c.d), 1e-5) })
		if c.experts > 0 {
			ew := func(s string, out, in int) graph.Value {
				return b.Param(n(s), graph.F(graph.D(c.experts), graph.D(out), graph.D(in)))
			}
			var order, place, offsets, w graph.Value
			b.Part(l, "moe.router", func() {
				var ids graph.Value
				w, ids = b.Router(b.MatMul(h, mat(n("gate"), c.experts, c.d)), c.topK)
				order, place, offsets = b.Dispatch(ids, c.experts)
			})
			b.Part(l, "moe.experts", func() {
				xg := b.GatherRows(h, order, place, c.topK)
				g, u = b.GroupedMatMul(xg, ew("w1", c.ffn, c.d), offsets), b.GroupedMatMul(xg, ew("w3", c.ffn, c.d), offsets)
				a = b.Combine(b.GroupedMatMul(b.SwiGLU(g, u), ew("w2", c.d, c.ffn), offsets), w, order, place, c.topK)
			})
		} else {
			b.Part(l, "mlp.up", func() { g, u = b.MatMul(h, mat(n("w1"), c.ffn, c.d)), b.MatMul(h, mat(n("w3"), c.ffn, c.d)) })
			b.Part(l, "mlp.act", func() { a = b.SwiGLU(g, u) })
			b.Part(l, "mlp.down", func() { a = b.MatMul(a, mat(n("w2"), c.d, c.ffn)) })
		}
		b.Part(l, "mlp.residual", func() { x = b.Name(b.Add(x, a), "x") })
	}
	b.Part(graph.Outside, "norm", func() { x = b.RMSNorm(x, vec("norm", c.d), 1e-5) })
	b.Part(graph.Outside, "head", func() {
		head := emb
		if !c.tied {
			head = mat("head", c.vocab, c.d)
		}
		b.SetLoss(b.CrossEntropy(b.MatMul(x, head), targets, weight))
	})
	return Fuse(b.G, FuseOptions{Chunk: c.chunk})
}

// step builds the whole training step of one graph.
func (c shape) step(t testing.TB, o TrainOptions) *graph.Graph {
	t.Helper()
	gs, err := Train(c.forward("step"), o)
	if err != nil {
		t.Fatal(err)
	}
	return gs[0]
}

var (
	tiny  = shape{d: 64, layers: 2, heads: 4, kv: 2, ffn: 160, vocab: 256, batch: 2, seq: 64, tied: true, chunk: 128}
	llama = shape{d: 128, layers: 4, heads: 4, kv: 2, ffn: 384, vocab: 1024, batch: 8, seq: 256, tied: true, chunk: 512}
	big70 = shape{d: 8192, layers: 80, heads: 64, kv: 8, ffn: 28672, vocab: 128256, batch: 1, seq: 8192, chunk: 128}
)

func adamw() TrainOptions { return TrainOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1} }

func mustStep(t testing.TB, g *graph.Graph, o Options) *Program {
	t.Helper()
	if o.Machine.FLOPs == 0 {
		o.Machine = cost.Laptop2()
	}
	p, err := Step(g, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Buffers) < 4000 {
		if err := Verify(p); err != nil {
			t.Fatal(err)
		}
	}
	if p.Arena[mem.Device]*100 > p.Bound[mem.Device]*102 {
		t.Errorf("%s: arena %d is more than 1.02 × the bound %d", g.Name, p.Arena[mem.Device], p.Bound[mem.Device])
	}
	return p
}
