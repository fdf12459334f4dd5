package devicetest

import (
	"math"

	"loadline/graph"
)

// matrixCases are products and look-ups.
var matrixCases = []opCase{
	{name: "matmul", build: func(r *rig, n int) {
		k, f, rows := n, 1+n*5%37, r.args.Rows
		x := r.f("x", r.noise(rows*k), graph.R(1), graph.D(k))
		r.check(r.MatMul(x, r.f("w", r.noise(f*k), graph.D(f), graph.D(k))), sums(k))
	}},
	{name: "matmul wide", build: func(r *rig, n int) {
		k, f, rows := 1+n*3%29, n, r.args.Rows
		x := r.f("x", r.noise(rows*k), graph.R(1), graph.D(k))
		r.check(r.MatMul(x, r.f("w", r.noise(f*k), graph.D(f), graph.D(k))), sums(k))
	}},
	{name: "matmul tall", build: func(r *rig, n int) {
		k, f := 1+n*3%29, 1+n*5%23
		x := r.f("x", r.noise(n*3*k), graph.D(n), graph.D(3), graph.D(k))
		r.check(r.MatMul(x, r.f("w", r.noise(f*k), graph.D(f), graph.D(k))), sums(k))
	}},
	{name: "linear", build: func(r *rig, n int) {
		k, f, rows := 1+n*3%29, n, r.args.Rows
		x := r.f("x", r.noise(rows*k), graph.R(1), graph.D(k))
		r.check(r.Linear(x, r.f("w", r.noise(f*k), graph.D(f), graph.D(k)), r.f("b", r.noise(f), graph.D(f))), sums(k+1))
	}},
	{name: "matmul special values", build: func(r *rig, n int) {
		k, f := n, 1+n*5%37
		x := r.noise(4 * k)
		x[k+n/2] = math.NaN()
		x[2*k+n/3] = math.Inf(1)
		for i := range k {
			x[3*k+i] = 1e-41 * float64(i%7)
			x[3*k+i] = float64(float32(x[3*k+i]))
		}
		v := r.f("x", x, graph.D(4), graph.D(k))
		r.check(r.MatMul(v, r.f("w", r.noise(f*k), graph.D(f), graph.D(k))), sums(k))
	}},
	{name: "matmul_dx", build: func(r *rig, n int) {
		k, f, rows := n, 1+n*5%37, r.args.Rows
		dy := r.f("dy", r.noise(rows*f), graph.R(1), graph.D(f))
		w := r.f("w", r.noise(f*k), graph.D(f), graph.D(k))
		r.check(r.Apply(graph.MatMulDX{}, dy, w, r.acc("acc", rows*k, graph.R(1), graph.D(k)))[0], sums(f+1))
	}},
	{name: "matmul_dw", build: func(r *rig, n int) {
		k, f, rows := n, 1+n*5%37, r.args.Rows
		dy := r.f("dy", r.noise(rows*f), graph.R(1), graph.D(f))
		x := r.f("x", r.noise(rows*k), graph.R(1), graph.D(k))
		r.check(r.Apply(graph.MatMulDW{}, dy, x, r.accW("acc", f*k, graph.D(f), graph.D(k)))[0], sums(rows+1))
	}},
	{name: "matmul_dw tall", build: func(r *rig, n int) {
		k, f, rows := 1+n*3%29, 1+n*5%23, 5*n
		dy := r.f("dy", r.noise(rows*f), graph.D(rows), graph.D(f))
		x := r.f("x", r.noise(rows*k), graph.D(rows), graph.D(k))
		r.check(r.Apply(graph.MatMulDW{}, dy, x, r.accW("acc", f*k, graph.D(f), graph.D(k)))[0], sums(rows+1))
	}},
	{name: "bias_grad", build: func(r *rig, n int) {
		rows := r.args.Rows
		dy := r.f("dy", r.noise(rows*n), graph.R(1), graph.D(n))
		r.check(r.Apply(graph.BiasGrad{}, dy, r.acc("acc", n, graph.D(n)))[0], sums(rows+1))
	}},
	{name: "bias_grad tall", build: func(r *rig, n int) {
		dy := r.f("dy", r.noise(5*n*3), graph.D(5*n), graph.D(3))
		r.check(r.Apply(graph.BiasGrad{}, dy, r.acc("acc", 3, graph.D(3)))[0], sums(5*n+1))
	}},
	{name: "embedding", build: func(r *rig, n int) {
		rows := r.args.Rows
		table := r.noise(11 * n)
		table[n/2], table[3*n] = math.NaN(), math.Inf(-1)
		tokens := r.i("tokens", r.ints(rows, 11), graph.R(1))
		r.check(r.Embedding(tokens, r.f("table", table, graph.D(11), graph.D(n))), exact)
	}},
	{name: "embedding_grad", build: func(r *rig, n int) {
		const v = 7 // tokens repeat
		tokens := r.i("tokens", r.ints(3*n, v), graph.D(3*n))
		d := 1 + n*5%23
		dy := r.f("dy", r.noise(3*n*d), graph.D(3*n), graph.D(d))
		r.check(r.Apply(graph.EmbeddingGrad{Vocab: v}, tokens, dy, r.accW("acc", v*d, graph.D(v), graph.D(d)))[0], sums(3*n+1))
	}},
	{name: "embedding_grad rows", build: func(r *rig, n int) {
		const v = 3
		rows := r.args.Rows
		tokens := r.i("tokens", r.ints(rows, v), graph.R(1))
		dy := r.f("dy", r.noise(rows*n), graph.R(1), graph.D(n))
		r.check(r.Apply(graph.EmbeddingGrad{Vocab: v}, tokens, dy, r.accW("acc", v*n, graph.D(v), graph.D(n)))[0], sums(rows+1))
	}},
	{name: "select", build: func(r *rig, n int) {
		rows := r.args.Rows
		x := r.f("x", r.noise(rows*n), graph.R(1), graph.D(n))
		r.check(r.SelectRows(x, r.i("rows", r.ints(r.args.Outs, rows), graph.O(1))), exact)
	}},
	{name: "columns", build: func(r *rig, n int) {
		x := r.f("x", r.noise(r.args.Rows*n), graph.R(1), graph.D(n))
		r.check(r.SelectColumns(x, r.i("order", r.ints(n, n), graph.D(n))), exact)
	}},
}
