package devicetest

import (
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// flat are lengths of flat tensors, around the blocks of 4096 that sums of squares respect.
var flat = append(lengths[:len(lengths):len(lengths)], 4095, 4096, 4097, 9001)

// update is for the optimisers, whose arithmetic is float32 by definition: a handful of operations, each rounded.
var update = tolerance{rel: 8, top: 16, why: "about ten float32 operations"}

// stateCases write States: updates of weights and KV pools; and what updates need.
var stateCases = []opCase{
	{name: "adamw", lengths: flat, build: func(r *rig, n int) { r.adamW(n, graph.None) }},
	{name: "adamw scaled", lengths: flat, build: func(r *rig, n int) {
		r.adamW(n, r.f("scale", []float64{0.375}, graph.D(1)))
	}},
	{name: "adamw from nothing", build: func(r *rig, n int) {
		g := r.noise(n)
		g[n/2] = 0 // v stays 0, and w moves by decay alone
		zero := make([]float64, n)
		w := r.state("w", r.noise(n), mem.Weights, graph.D(n))
		m, v := r.state("m", zero, mem.OptimState, graph.D(n)), r.state("v", zero, mem.OptimState, graph.D(n))
		for _, x := range r.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}, w, r.f("g", g, graph.D(n)), m, v, r.hyper(), graph.None) {
			r.check(x, update)
		}
	}},
	{name: "adamw with a master", lengths: flat, build: func(r *rig, n int) {
		to := graph.Type{DType: r.half, Shape: graph.S(graph.D(n))}
		if r.half == dtype.F32 {
			to.DType = dtype.BF16
		}
		w, master := r.stateOf("w", r.noise(n), mem.Weights, to), r.state("master", r.noise(n), mem.MasterWeights, graph.D(n))
		m, v := r.state("m", r.noise(n), mem.OptimState, graph.D(n)), r.state("v", r.positive(n), mem.OptimState, graph.D(n))
		o := r.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}, w, r.f("g", r.noise(n), graph.D(n)), m, v, r.hyper(), r.f("scale", []float64{0.375}, graph.D(1)), master)
		r.check(o[0], update.in(to.DType, to.DType))
		for _, x := range o[1:] {
			r.check(x, update)
		}
	}},
	{name: "sgd", lengths: flat, build: func(r *rig, n int) {
		w, buf := r.state("w", r.noise(n), mem.Weights, graph.D(n)), r.state("buf", r.noise(n), mem.OptimState, graph.D(n))
		for _, x := range r.Apply(graph.SGD{Momentum: 0.9, Decay: 0.01}, w, r.f("g", r.noise(n), graph.D(n)), buf, r.hyper(), graph.None) {
			r.check(x, update)
		}
	}},
	{name: "sgd without momentum", build: func(r *rig, n int) {
		w := r.state("w", r.noise(n), mem.Weights, graph.D(n))
		for _, x := range r.Apply(graph.SGD{Decay: 0.01}, w, r.f("g", r.noise(n), graph.D(n)), graph.None, r.hyper(), r.f("scale", []float64{0.5}, graph.D(1))) {
			r.check(x, update)
		}
	}},
	{name: "sgd of a temporary", build: func(r *rig, n int) {
		// a gathered weight is updated where it lies
		w := r.f("w", r.noise(n), graph.D(n))
		r.check(r.Apply(graph.SGD{}, w, r.f("g", r.noise(n), graph.D(n)), graph.None, r.hyper(), graph.None)[0], update)
	}},
	{name: "adamw of a temporary", build: func(r *rig, n int) {
		w := r.f("w", r.noise(n), graph.D(n))
		m, v := r.f("m", r.noise(n), graph.D(n)), r.f("v", r.positive(n), graph.D(n))
		for _, x := range r.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}, w, r.f("g", r.noise(n), graph.D(n)), m, v, r.hyper(), graph.None) {
			r.check(x, update)
		}
	}},
	{name: "sumsquares", lengths: flat, build: func(r *rig, n int) {
		r.check(r.Apply(graph.SumSquares{}, r.f("g", r.wide(n), graph.D(n)))[0], tolerance{rel: 1.01, why: "a sum in float64, rounded once"})
	}},
	{name: "clipscale", build: func(r *rig, n int) {
		a, b := r.f("a", r.positive(n), graph.D(n)), r.f("b", r.positive(3), graph.D(3))
		o := r.Apply(graph.ClipScale{Max: 1}, a, b, r.hyper())
		r.check(o[0], tolerance{rel: 4, why: "a sum in float64, a root and a quotient"})
		r.check(o[1], tolerance{rel: 4, why: "a sum in float64 and a root"})
	}},
	{name: "clipscale idle", lengths: []int{1}, build: func(r *rig, n int) {
		o := r.Apply(graph.ClipScale{Max: 1000}, r.f("a", r.positive(n), graph.D(n)), r.hyper())
		r.check(o[0], exact)
	}},
	{name: "kvappend", build: func(r *rig, n int) {
		rows := r.args.Rows
		slots := r.slots(rows, rows+9)
		pool := r.state("pool", r.noise((rows+9)*n), mem.KVBlocks, graph.D(rows+9), graph.D(n))
		r.check(r.KVAppend(pool, r.f("x", r.noise(rows*n), graph.R(1), graph.D(n)), r.i("slots", slots, graph.R(1))), exact)
	}},
	{name: "kvappend to a temporary", build: func(r *rig, n int) {
		rows := r.args.Rows
		slots := r.slots(rows, rows+9)
		pool := r.f("pool", r.noise((rows+9)*n), graph.D(rows+9), graph.D(n))
		r.check(r.KVAppend(pool, r.f("x", r.noise(rows*n), graph.R(1), graph.D(n)), r.i("slots", slots, graph.R(1))), exact)
	}},
	{name: "kvappend to another type", build: func(r *rig, n int) {
		rows := r.args.Rows
		slots := r.slots(rows, rows+9)
		pool := r.stateOf("pool", r.noise((rows+9)*n), mem.KVBlocks, graph.Type{DType: dtype.F16, Shape: graph.S(graph.D(rows+9), graph.D(n))})
		r.check(r.KVAppend(pool, r.f("x", r.noise(rows*n), graph.R(1), graph.D(n)), r.i("slots", slots, graph.R(1))), exact)
	}},
	{name: "kvcopy", build: func(r *rig, n int) {
		const block = 4
		pool := r.state("pool", r.noise(5*block*n), mem.KVBlocks, graph.D(5*block), graph.D(n))
		// the second copy reads what the first wrote; the pair after the end is not looked at
		pairs := r.i("pairs", []int32{0, 3, 3, 4, -1, 0, 1 << 20, 1 << 20}, graph.D(4), graph.D(2))
		r.check(r.KVCopy(pool, pairs, block), exact)
	}},
}

// slots is a different slot for each row, every third negative.
func (r *rig) slots(rows, slots int) []int32 {
	var out []int32
	for i, s := range r.rng.Perm(slots)[:rows] {
		if i%3 == 2 {
			s = -1
		}
		out = append(out, int32(s))
	}
	return out
}

// hyper is the hyperparameters of the third step.
func (r *rig) hyper() graph.Value {
	h := make([]float64, graph.HyperLen)
	h[graph.HyperLR] = float64(float32(0.01))
	h[graph.HyperBias1] = float64(float32(1 - 0.9*0.9*0.9))
	h[graph.HyperBias2] = float64(float32(1 - 0.95*0.95*0.95))
	h[graph.HyperGrad] = 0.5
	return r.input("hyper", h, graph.F(graph.D(graph.HyperLen)))
}

func (r *rig) adamW(n int, scale graph.Value) {
	w := r.state("w", r.noise(n), mem.Weights, graph.D(n))
	m, v := r.state("m", r.noise(n), mem.OptimState, graph.D(n)), r.state("v", r.positive(n), mem.OptimState, graph.D(n))
	g := r.f("g", r.noise(n), graph.D(n))
	for _, x := range r.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}, w, g, m, v, r.hyper(), scale) {
		r.check(x, update)
	}
}
