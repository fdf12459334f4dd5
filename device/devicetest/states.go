package devicetest

import (
	"math"

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
	{name: "adamw of a piece", lengths: flat, build: func(r *rig, n int) {
		p := graph.Piece{At: n / 3, N: max(n/2, 1)}
		w := r.state("w", r.noise(n), mem.Weights, graph.D(n))
		m, v := r.f("m", r.noise(p.N), graph.D(p.N)), r.f("v", r.positive(p.N), graph.D(p.N))
		op := graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}.OnPiece(p)
		for _, x := range r.Apply(op, w, r.f("g", r.noise(n), graph.D(n)), m, v, r.hyper(), graph.None) {
			r.check(x, update)
		}
	}},
	{name: "sgd of a piece of a temporary", lengths: flat, build: func(r *rig, n int) {
		p := graph.Piece{At: n / 3, N: max(n/2, 1)}
		op := graph.SGD{Momentum: 0.9}.OnPiece(p)
		for _, x := range r.Apply(op, r.f("w", r.noise(n), graph.D(n)), r.f("g", r.noise(n), graph.D(n)), r.f("buf", r.noise(p.N), graph.D(p.N)), r.hyper(), graph.None) {
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
	{name: "sgd with nesterov", build: func(r *rig, n int) {
		w, buf := r.state("w", r.noise(n), mem.Weights, graph.D(n)), r.state("buf", r.noise(n), mem.OptimState, graph.D(n))
		for _, x := range r.Apply(graph.SGD{Momentum: 0.9, Decay: 0.01, Nesterov: true}, w, r.f("g", r.noise(n), graph.D(n)), buf, r.hyper(), graph.None) {
			r.check(x, update)
		}
	}},
	{name: "sgd with a master", build: func(r *rig, n int) {
		w, master := r.narrowState("w", n), r.state("master", r.noise(n), mem.MasterWeights, graph.D(n))
		o := r.Apply(graph.SGD{}, w, r.f("g", r.noise(n), graph.D(n)), graph.None, r.hyper(), graph.None, master)
		r.check(o[0], update.in(dtype.BF16, dtype.BF16))
		r.check(o[1], update)
	}},
	{name: "sgd stochastic", lengths: flat, build: func(r *rig, n int) { r.stochastic(n, 0) }},
	{name: "sgd stochastic of a shard", build: func(r *rig, n int) { r.stochastic(n, 3*4096) }},
	{name: "adamw stochastic", build: func(r *rig, n int) {
		m, v := r.state("m", r.noise(n), mem.OptimState, graph.D(n)), r.state("v", r.positive(n), mem.OptimState, graph.D(n))
		o := r.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Target: graph.Target{Key: 9}}, r.narrowState("w", n), r.f("g", r.noise(n), graph.D(n)), m, v, r.hyper(), graph.None)
		r.check(o[0], update.in(dtype.BF16, dtype.BF16))
		r.check(o[1], update)
		r.check(o[2], update)
	}},
	{name: "lion", build: func(r *rig, n int) {
		g, m := r.noise(n), r.noise(n)
		g[n/2], m[n/2] = 0, 0 // which has no sign
		o := r.Apply(graph.Lion{Beta1: 0.9, Beta2: 0.99, Decay: 0.1}, r.state("w", r.noise(n), mem.Weights, graph.D(n)), r.f("g", g, graph.D(n)), r.state("m", m, mem.OptimState, graph.D(n)), r.hyper(), r.f("scale", []float64{0.375}, graph.D(1)))
		r.check(o[0], update)
		r.check(o[1], update)
	}},
	{name: "lion with a master", build: func(r *rig, n int) {
		w, master := r.narrowState("w", n), r.state("master", r.noise(n), mem.MasterWeights, graph.D(n))
		o := r.Apply(graph.Lion{Beta1: 0.9, Beta2: 0.99}, w, r.f("g", r.noise(n), graph.D(n)), r.f("m", r.noise(n), graph.D(n)), r.hyper(), graph.None, master)
		r.check(o[0], update.in(dtype.BF16, dtype.BF16))
		r.check(o[1], update)
		r.check(o[2], update)
	}},
	{name: "adafactor", build: func(r *rig, n int) { r.adafactor(false, graph.D(1+n*5%37), graph.D(n)) }},
	{name: "adafactor tall", build: func(r *rig, n int) { r.adafactor(true, graph.D(5*n), graph.D(7)) }},
	{name: "adafactor of experts", build: func(r *rig, n int) { r.adafactor(false, graph.D(3), graph.D(1+n%9), graph.D(n)) }},
	{name: "adafactor of one axis", build: func(r *rig, n int) { r.adafactor(true, graph.D(n)) }},
	{name: "adafactor from nothing", build: func(r *rig, n int) {
		// a row and a column without a gradient, and no moments yet
		g := r.noise(3 * n)
		for j := range n {
			g[j] = 0
		}
		g[n+n/2], g[2*n+n/2] = 0, 0
		row, col := r.state("row", make([]float64, 3), mem.OptimState, graph.D(3)), r.state("col", make([]float64, n), mem.OptimState, graph.D(n))
		for _, x := range r.Apply(graph.AdafactorMoments{}, r.f32("g", g, graph.D(3), graph.D(n)), row, col, r.hyper(), graph.None)[:3] {
			r.check(x, update)
		}
	}},
	{name: "adafactor stochastic", build: func(r *rig, n int) {
		w := r.stateOf("w", r.noise(5*n), mem.Weights, graph.Type{DType: dtype.BF16, Shape: graph.S(graph.D(5), graph.D(n))})
		o := graph.AdafactorUpdate{Decay: 0.1, Rows: 5, Cols: n, Target: graph.Target{Key: 3}}
		r.check(r.Apply(o, w, r.f32("g", r.noise(5*n), graph.D(5), graph.D(n)), r.f("r", r.positive(5), graph.D(5)), r.f("c", r.positive(n), graph.D(n)), r.hyper())[0], update.in(dtype.BF16, dtype.BF16))
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
	h[graph.HyperGrad], h[graph.HyperDecay2] = 0.5, float64(float32(0.58))
	h[graph.HyperSeedLo], h[graph.HyperSeedHi] = 17, 40000
	return r.input("hyper", h, graph.F(graph.D(graph.HyperLen)))
}

// narrowState is a bf16 weight of one axis.
func (r *rig) narrowState(name string, n int) graph.Value {
	return r.stateOf(name, r.noise(n), mem.Weights, graph.Type{DType: dtype.BF16, Shape: graph.S(graph.D(n))})
}

// stochastic is an update whose arithmetic has no rounding of its own, so that the rounding to bf16 is the same on every device. Where
// elems is not 0, it is of the only rank's shard of a tensor of so many.
func (r *rig) stochastic(n, elems int) {
	t := graph.Target{Key: uint32(n)}
	if elems > 0 {
		t.Ranks, t.Elems = 1, elems
	}
	w, g, hyper := r.noise(n), make([]float64, n), make([]float64, graph.HyperLen)
	for i := range w {
		w[i] = math.Copysign(1+math.Abs(math.Mod(w[i], 1)), w[i]) // its bf16 has steps of 2⁻⁷
		g[i] = float64(r.rng.IntN(1<<12)-1<<11) / (1 << 11)       // of which the update is fractions
	}
	hyper[graph.HyperLR], hyper[graph.HyperGrad] = 1.0/(1<<9), 1
	hyper[graph.HyperSeedLo], hyper[graph.HyperSeedHi] = 0xfedc, 0x1234
	h := r.input("hyper", hyper, graph.F(graph.D(graph.HyperLen)))
	state := r.stateOf("w", w, mem.Weights, graph.Type{DType: dtype.BF16, Shape: graph.S(graph.D(n))})
	r.check(r.Apply(graph.SGD{Target: t}, state, r.f("g", g, graph.D(n)), graph.None, h, graph.None)[0], exact)
}

// adafactor is both halves of a step on a weight of dims.
func (r *rig) adafactor(master bool, dims ...graph.Dim) {
	ty := graph.F(dims...)
	row, col := graph.AdafactorTypes(ty)
	n := int(ty.Shape.Elems(r.G.Bounds))
	g := r.f32("g", r.noise(n), dims...)
	o := graph.AdafactorUpdate{Decay: 0.1}
	rows := int(row.Shape.Elems(r.G.Bounds))
	in := []graph.Value{g, r.stateOf("row", r.positive(rows), mem.OptimState, row), graph.None, r.hyper(), r.f("scale", []float64{0.375}, graph.D(1))}
	c := graph.None
	if k := len(dims); k >= 2 {
		o.Rows, o.Cols = dims[k-2].N, dims[k-1].N
		in[2] = r.stateOf("col", r.positive(int(col.Shape.Elems(r.G.Bounds))), mem.OptimState, col)
	}
	m := r.Apply(graph.AdafactorMoments{}, in...)
	for _, x := range m {
		r.check(x, tolerance{rel: 8, why: "sums in float64, a root and a quotient, rounded once or twice"})
	}
	if o.Cols > 0 {
		c = m[3]
	}
	up := []graph.Value{graph.None, g, m[1], c, in[3]}
	if master {
		up[0] = r.stateOf("w", r.noise(n), mem.Weights, graph.Type{DType: dtype.BF16, Shape: ty.Shape})
		w := r.Apply(o, append(up, r.stateOf("master", r.noise(n), mem.MasterWeights, ty))...)
		r.check(w[0], update.in(dtype.BF16, dtype.BF16))
		r.check(w[1], update)
		return
	}
	up[0] = r.stateOf("w", r.noise(n), mem.Weights, ty)
	r.check(r.Apply(o, up...)[0], update)
}

func (r *rig) adamW(n int, scale graph.Value) {
	w := r.state("w", r.noise(n), mem.Weights, graph.D(n))
	m, v := r.state("m", r.noise(n), mem.OptimState, graph.D(n)), r.state("v", r.positive(n), mem.OptimState, graph.D(n))
	g := r.f("g", r.noise(n), graph.D(n))
	for _, x := range r.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}, w, g, m, v, r.hyper(), scale) {
		r.check(x, update)
	}
}
