package devicetest

import (
	"loadline/graph"
)

// expertCases are a mixture of experts.
var expertCases = []opCase{
	{name: "router", build: func(r *rig, n int) {
		rows, k := r.args.Rows, 1+n%4
		k = min(k, n)
		w, ids := r.Router(r.f32("logits", r.noise(rows*n), graph.R(1), graph.D(n)), k)
		r.check(w, tolerance{rel: 32, why: "a softmax of a few"})
		r.check(ids, exact)
	}},
	{name: "router ties", build: func(r *rig, n int) {
		rows := r.args.Rows
		logits := r.noise(rows * n)
		for i := range logits {
			logits[i] = float64(r.rng.IntN(3)) // the lower expert wins
		}
		w, ids := r.Router(r.f32("logits", logits, graph.R(1), graph.D(n)), min(4, n))
		r.check(w, tolerance{rel: 32, why: "a softmax of a few"})
		r.check(ids, exact)
	}},
	{name: "router of all", build: func(r *rig, n int) {
		rows := r.args.Rows
		w, ids := r.RouterOfAll(r.f32("logits", r.noise(rows*n), graph.R(1), graph.D(n)), min(1+n%4, n))
		r.check(w, tolerance{rel: 32, why: "a softmax"})
		r.check(ids, exact)
	}},
	{name: "router_grad of all", build: func(r *rig, n int) {
		rows, k := r.args.Rows, min(3, n)
		w, ids := r.RouterOfAll(r.f32("logits", r.noise(rows*n), graph.R(1), graph.D(n)), k)
		dw, logits := r.f32("dw", r.noise(rows*k), graph.R(1), graph.D(k)), r.f32("logits.again", r.noise(rows*n), graph.R(1), graph.D(n))
		r.check(r.Apply(graph.RouterGrad{Experts: n, All: true}, dw, w, ids, logits)[0], tolerance{top: 16, abs: 16, why: "a sum of a few, then a difference"})
	}},
	{name: "router_grad", build: func(r *rig, n int) {
		rows, k := r.args.Rows, min(3, n)
		var ids []int32
		for range rows {
			for _, e := range r.rng.Perm(n)[:k] {
				ids = append(ids, int32(e))
			}
		}
		dw, w := r.f32("dw", r.noise(rows*k), graph.R(1), graph.D(k)), r.f32("w", r.positive(rows*k), graph.R(1), graph.D(k))
		r.check(r.Apply(graph.RouterGrad{Experts: n}, dw, w, r.i("ids", ids, graph.R(1), graph.D(k)))[0], tolerance{top: 16, abs: 16, why: "a sum of a few, then a difference"})
	}},
	{name: "dispatch", build: func(r *rig, n int) {
		const k = 2
		rows := r.args.Rows
		order, place, offsets := r.Dispatch(r.i("ids", r.ints(rows*k, n), graph.R(1), graph.D(k)), n)
		r.check(order, exact)
		r.check(place, exact)
		r.check(offsets, exact)
	}},
	{name: "gather_rows", build: func(r *rig, n int) {
		const k, e = 3, 5
		rows := r.args.Rows
		order, place, _ := r.Dispatch(r.i("ids", r.ints(rows*k, e), graph.R(1), graph.D(k)), e)
		r.check(r.GatherRows(r.f("x", r.noise(rows*n), graph.R(1), graph.D(n)), order, place, k), exact)
	}},
	{name: "gather_rows_grad", build: func(r *rig, n int) {
		const k, e = 3, 5
		rows := r.args.Rows
		order, place, _ := r.Dispatch(r.i("ids", r.ints(rows*k, e), graph.R(1), graph.D(k)), e)
		dy := r.f("dy", r.noise(rows*k*n), graph.R(k), graph.D(n))
		r.check(r.Apply(graph.GatherRowsGrad{TopK: k}, dy, order, place, r.acc("acc", rows*n, graph.R(1), graph.D(n)))[0], sums(k+1))
	}},
	{name: "grouped", build: func(r *rig, n int) {
		g := r.groups(n)
		x := r.f("x", r.noise(g.rows*n), graph.R(2), graph.D(n))
		r.check(r.GroupedMatMul(x, r.f("w", r.noise(g.experts*g.f*n), graph.D(g.experts), graph.D(g.f), graph.D(n)), g.offsets), sums(n))
	}},
	{name: "grouped wide", build: func(r *rig, n int) {
		g := r.groups(n)
		x := r.f("x", r.noise(g.rows*g.f), graph.R(2), graph.D(g.f))
		r.check(r.GroupedMatMul(x, r.f("w", r.noise(g.experts*g.f*n), graph.D(g.experts), graph.D(n), graph.D(g.f)), g.offsets), sums(g.f))
	}},
	{name: "grouped_bias", build: func(r *rig, n int) {
		g := r.groups(n)
		y := r.f("y", r.noise(g.rows*n), graph.R(2), graph.D(n))
		r.check(r.GroupedBias(y, r.f("b", r.noise(g.experts*n), graph.D(g.experts), graph.D(n)), g.offsets), tolerance{rel: 1, why: "one rounding"})
	}},
	{name: "grouped_bias_grad", build: func(r *rig, n int) {
		g := r.groups(n)
		dy := r.f("dy", r.noise(g.rows*n), graph.R(2), graph.D(n))
		r.check(r.Apply(graph.GroupedBiasGrad{}, dy, g.offsets, r.accW("acc", g.experts*n, graph.D(g.experts), graph.D(n)))[0], sums(g.rows+1))
	}},
	{name: "grouped_dx", build: func(r *rig, n int) {
		g := r.groups(n)
		dy := r.f("dy", r.noise(g.rows*g.f), graph.R(2), graph.D(g.f))
		w := r.f("w", r.noise(g.experts*g.f*n), graph.D(g.experts), graph.D(g.f), graph.D(n))
		r.check(r.Apply(graph.GroupedMatMulDX{}, dy, w, g.offsets, r.acc("acc", g.rows*n, graph.R(2), graph.D(n)))[0], sums(g.f+1))
	}},
	{name: "grouped_dw", build: func(r *rig, n int) {
		g := r.groups(n)
		dy := r.f("dy", r.noise(g.rows*g.f), graph.R(2), graph.D(g.f))
		x := r.f("x", r.noise(g.rows*n), graph.R(2), graph.D(n))
		acc := r.accW("acc", g.experts*g.f*n, graph.D(g.experts), graph.D(g.f), graph.D(n))
		r.check(r.Apply(graph.GroupedMatMulDW{}, dy, x, g.offsets, acc)[0], sums(g.rows+1))
	}},
	{name: "combine", build: func(r *rig, n int) {
		const k, e = 3, 5
		rows := r.args.Rows
		order, place, _ := r.Dispatch(r.i("ids", r.ints(rows*k, e), graph.R(1), graph.D(k)), e)
		y, w := r.f("y", r.noise(rows*k*n), graph.R(k), graph.D(n)), r.f32("w", r.noise(rows*k), graph.R(1), graph.D(k))
		r.check(r.Combine(y, w, order, place, k), sums(k))
	}},
	{name: "combine_grad", build: func(r *rig, n int) {
		const k, e = 3, 5
		rows := r.args.Rows
		order, place, _ := r.Dispatch(r.i("ids", r.ints(rows*k, e), graph.R(1), graph.D(k)), e)
		do := r.f("do", r.noise(rows*n), graph.R(1), graph.D(n))
		y, w := r.f("y", r.noise(rows*k*n), graph.R(k), graph.D(n)), r.f32("w", r.noise(rows*k), graph.R(1), graph.D(k))
		d := r.Apply(graph.CombineGrad{TopK: k}, do, y, w, order, place)
		r.check(d[0], tolerance{rel: 1, why: "one product"})
		r.check(d[1], sums(n))
	}},
}

// grouping is rows sorted by expert: 2 × Rows of them, some experts without any.
type grouping struct {
	rows, experts, f int
	offsets          graph.Value
}

func (r *rig) groups(n int) grouping {
	g := grouping{rows: 2 * r.args.Rows, experts: 1 + n%6, f: 1 + n*5%37}
	offsets := make([]int32, g.experts+1)
	for range g.rows {
		offsets[1+r.rng.IntN(g.experts)]++
	}
	if g.experts > 2 { // the second expert has none
		offsets[1] += offsets[2]
		offsets[2] = 0
	}
	for e := range g.experts {
		offsets[e+1] += offsets[e]
	}
	g.offsets = r.i("offsets", offsets, graph.D(g.experts+1))
	return g
}
