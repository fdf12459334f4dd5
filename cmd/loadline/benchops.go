package main

import (
	"fmt"
	"strings"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// product is the shape of a matrix product: rows (M,K) times a weight (N,K).
type product struct{ m, n, k int }

// The shapes of bench kernels: the two that matrix products are compared on, and those of a step of bench-20m.
var (
	squares = []product{{768, 768, 768}, {512, 2048, 2048}}
	layers  = []product{{2048, 384, 384}, {2048, 1024, 384}, {2048, 384, 1024}}
)

// operations lists what bench kernels measures with a set.
func operations(set kernel.Set) []operation {
	var out []operation
	for _, t := range []dtype.Type{dtype.F32, dtype.BF16} {
		parts := t == dtype.F32 && set.Parts() != set // what a job that trains does, and gradients always
		forward := func(p product) {
			out = append(out, p.forward(t))
			if parts {
				out = append(out, p.forward(t).inParts())
			}
		}
		for _, p := range squares {
			forward(p)
		}
		for _, p := range layers {
			forward(p)
			for _, o := range []operation{p.dx(t), p.dw(t)} {
				if parts {
					o = o.inParts()
				}
				out = append(out, o)
			}
		}
	}
	for _, t := range []dtype.Type{dtype.F32, dtype.BF16} {
		out = append(out, attention(t, 2048, 6, 64, false), attention(t, 2048, 6, 64, true))
	}
	return append(out, movers(2048, 1024)...)
}

func rowsOf(t dtype.Type, n int) graph.Type {
	return graph.Type{DType: t, Shape: graph.S(graph.R(1), graph.D(n))}
}
func weightOf(t dtype.Type, m, n int) graph.Type {
	return graph.Type{DType: t, Shape: graph.S(graph.D(m), graph.D(n))}
}

func (p product) name(kind string, t dtype.Type) string {
	return fmt.Sprintf("%s %v %d×%d×%d", kind, t, p.m, p.n, p.k)
}

func (p product) flops() float64 { return 2 * float64(p.m) * float64(p.n) * float64(p.k) }

// inParts is the operation as a step that trains has it where the set multiplies in parts.
func (o operation) inParts() operation {
	o.name, o.trains = strings.Replace(o.name, " f32 ", " f32 in parts ", 1), true
	return o
}

// forward is x (M,K) times w (N,K).
func (p product) forward(t dtype.Type) operation {
	return operation{name: p.name("matmul", t), work: p.flops(), rows: p.m, build: func(b *graph.Builder) {
		b.Output("y", b.MatMul(b.Input("x", rowsOf(t, p.k)), b.Input("w", weightOf(t, p.n, p.k))))
	}}
}

// dx is its gradient for x.
func (p product) dx(t dtype.Type) operation {
	return operation{name: p.name("matmul_dx", t), work: p.flops(), rows: p.m, build: func(b *graph.Builder) {
		b.Output("dx", b.Apply(graph.MatMulDX{}, b.Input("dy", rowsOf(t, p.n)), b.Input("w", weightOf(t, p.n, p.k)), graph.None)[0])
	}}
}

// dw is its gradient for w.
func (p product) dw(t dtype.Type) operation {
	return operation{name: p.name("matmul_dw", t), work: p.flops(), rows: p.m, build: func(b *graph.Builder) {
		b.Output("dw", b.Apply(graph.MatMulDW{}, b.Input("dy", rowsOf(t, p.n)), b.Input("x", rowsOf(t, p.k)), graph.None)[0])
	}}
}

// attention is one sequence of n positions, causal. Its work is that of the products that the lower triangle takes: two forward, five
// backward.
func attention(t dtype.Type, n, heads, headDim int, back bool) operation {
	spec := graph.AttentionSpec{Heads: heads, KVHeads: heads, HeadDim: headDim, Block: 128, Context: n}
	kind, products := "attention", 2.0
	if back {
		kind, products = "attention_grad", 5
	}
	return operation{
		name: fmt.Sprintf("%s %v %d×%d×%d", kind, t, n, heads, headDim), work: products * float64(heads) * float64(headDim) * float64(n) * float64(n), rows: n,
		build: func(b *graph.Builder) {
			f := func(name string) graph.Value { return b.Input(name, rowsOf(t, heads*headDim)) }
			pg := graph.Paging{
				Table: b.Input("pos.table", graph.I(graph.D(1), graph.D(n/128))), Seq: b.Input("seq", graph.I(graph.R(1))), Pos: b.Input("pos", graph.I(graph.R(1))),
			}
			q, k, v := f("q"), f("k"), f("v")
			if !back {
				b.Output("o", b.Attention(q, k, v, pg, spec))
				return
			}
			lse := b.Input("lse", graph.F(graph.R(1), graph.D(heads)))
			g := b.Apply(graph.AttentionGrad{AttentionSpec: spec}, f("do"), q, k, v, f("o"), lse, pg.Table, pg.Seq, pg.Pos)
			for i, name := range []string{"dq", "dk", "dv"} {
				b.Output(name, g[i])
			}
		},
	}
}

// movers are operations whose time is that of moving rows of n elements.
func movers(rows, n int) []operation {
	f := graph.F(graph.R(1), graph.D(n))
	bytes := func(tensors int) float64 { return 4 * float64(tensors) * float64(rows) * float64(n) }
	name := func(kind string) string { return fmt.Sprintf("%s f32 %d×%d", kind, rows, n) }
	const params = 4 << 20
	return []operation{
		{name: name("rmsnorm"), work: bytes(2), moves: true, rows: rows, build: func(b *graph.Builder) {
			b.Output("y", b.RMSNorm(b.Input("x", f), b.Input("w", graph.F(graph.D(n))), 1e-5))
		}},
		{name: name("swiglu"), work: bytes(3), moves: true, rows: rows, build: func(b *graph.Builder) {
			b.Output("y", b.SwiGLU(b.Input("gate", f), b.Input("up", f)))
		}},
		{name: name("rope"), work: bytes(2), moves: true, rows: rows, build: func(b *graph.Builder) {
			b.Output("y", b.Rope(b.Input("x", f), b.Input("pos", graph.I(graph.R(1))), n/64, 64, 10000))
		}},
		{name: fmt.Sprintf("adamw f32 %d", params), work: 7 * 4 * params, moves: true, rows: 1, build: func(b *graph.Builder) {
			t := graph.F(graph.D(params))
			w := b.Param("w", t)
			g, m, v := b.State("g", t, mem.Grads), b.State("m", t, mem.OptimState), b.State("v", t, mem.OptimState)
			b.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}, w, g, m, v, b.Input("hyper", graph.F(graph.D(graph.HyperLen))), graph.None)
		}},
	}
}
