package main

import (
	"fmt"

	"loadline/graph"
)

// The model's size: N rows are batch sequences of seq tokens.
const (
	width, layers, heads, ffn, vocab = 64, 4, 4, 192, 61
	batch, seq                       = 4, 64
	rows                             = batch * seq
)

// block builds one layer on x (N,D).
func block(b *graph.Builder, l int, x graph.Value, p graph.Paging) graph.Value {
	w := func(name string, dims ...graph.Dim) graph.Value {
		return b.Param(fmt.Sprintf("%d.%s", l, name), graph.F(dims...))
	}
	d, f := graph.D(width), graph.D(ffn)
	spec := graph.AttentionSpec{Heads: heads, KVHeads: heads, HeadDim: width / heads, Block: seq, Context: seq}
	var h, attn, gated graph.Value
	b.Part(l, "twin.norm", func() { h = b.RMSNorm(x, w("norm", d), 1e-5) })
	b.Part(l, "twin.attn", func() {
		q := b.Rope(b.MatMul(h, w("q", d, d)), p.Pos, heads, width/heads, 10000)
		k := b.Rope(b.MatMul(h, w("k", d, d)), p.Pos, heads, width/heads, 10000)
		attn = b.MatMul(b.Attention(q, k, b.MatMul(h, w("v", d, d)), p, spec), w("o", d, d))
	})
	b.Part(l, "twin.ffn", func() {
		gated = b.MatMul(b.SwiGLU(b.MatMul(h, w("gate", f, d)), b.MatMul(h, w("up", f, d))), w("down", d, f))
	})
	b.Part(l, "twin.sum", func() { x = b.Add(x, b.Add(attn, gated)) })
	return x
}

// forward builds the model up to its loss.
func forward() *graph.Graph {
	b := graph.NewBuilder("step", graph.Bounds{Rows: rows})
	tokens, targets := b.Input("tokens", graph.I(graph.R(1))), b.Input("targets", graph.I(graph.R(1)))
	p := graph.Paging{
		Table: b.Input("table", graph.I(graph.D(batch), graph.D(1))),
		Seq:   b.Input("sequences", graph.I(graph.R(1))), Pos: b.Input("positions", graph.I(graph.R(1))),
	}
	table := b.Param("embed", graph.F(graph.D(vocab), graph.D(width)))
	x := b.Embedding(tokens, table)
	for l := range layers {
		x = block(b, l, x, p)
	}
	x = b.RMSNorm(x, b.Param("norm", graph.F(graph.D(width))), 1e-5)
	b.SetLoss(b.CrossEntropy(b.MatMul(x, table), targets, b.Input("weight", graph.F(graph.D(1)))))
	return b.G
}
