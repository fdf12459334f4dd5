package devicetest

import (
	"math"

	"loadline/graph"
	"loadline/tensor/dtype"
)

// specials is numbers that kernels get wrong: zeros of both signs, infinities, NaN, denormals, the largest.
var specials = []float64{0, math.Copysign(0, -1), 1, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-149, -0x1.8p-140, math.MaxFloat32, -math.MaxFloat32, 0x1p-126}

// silu is for gate·σ(gate) times a number around 1.
var silu = tolerance{rel: 16, abs: 0x1p-94, why: "exp, a quotient, two products; exp may vanish below 2⁻¹²⁰"}

// wide is n numbers of magnitudes from 2⁻²⁰ to 2⁶.
func (r *rig) wide(n int) []float64 {
	x := r.noise(n)
	for i := range x {
		x[i] = float64(float32(math.Ldexp(x[i], r.rng.IntN(26)-20)))
	}
	return x
}

// elementCases are norms and what is done element by element.
var elementCases = []opCase{
	{name: "rmsnorm", build: func(r *rig, n int) {
		rows := r.args.Rows
		x := r.wide(rows * n)
		tol := tolerance{rel: float64(n)/2 + 8, why: "a sum of squares, a root, two products"}
		y := r.Apply(graph.RMSNorm{Eps: 1e-5}, r.f("x", x, graph.R(1), graph.D(n)), r.f("w", r.noise(n), graph.D(n)))
		r.check(y[0], tol)
		r.check(y[1], tol)
	}},
	{name: "rmsnorm extreme rows", build: func(r *rig, n int) {
		x := r.noise(4 * n)
		for i := range n {
			x[i] *= 0x1p-140 // squares vanish beside eps
			x[n+i] *= 0x1p60
			x[2*n+i] = 0
		}
		x[3*n+n/2] = math.NaN()
		for i := range x {
			x[i] = float64(float32(x[i]))
		}
		y := r.Apply(graph.RMSNorm{Eps: 1e-5}, r.f("x", x, graph.D(4), graph.D(n)), r.f("w", r.noise(n), graph.D(n)))
		r.check(y[0], tolerance{rel: float64(n)/2 + 8, why: "a sum of squares in float64, which does not overflow"})
	}},
	{name: "rmsnorm_grad", build: func(r *rig, n int) {
		rows := r.args.Rows
		dy, x := r.f("dy", r.noise(rows*n), graph.R(1), graph.D(n)), r.f("x", r.noise(rows*n), graph.R(1), graph.D(n))
		stat := r.f("rstd", r.positive(rows), graph.R(1))
		w := r.f("w", r.noise(n), graph.D(n))
		d := r.Apply(graph.RMSNormGrad{}, dy, x, stat, w, r.acc("acc", rows*n, graph.R(1), graph.D(n)), r.acc("accW", n, graph.D(n)))
		r.check(d[0], tolerance{top: float64(2*n) + 32, why: "a mean over the row, then a difference"})
		r.check(d[1], sums(2*rows+1))
	}},
	{name: "layernorm", build: func(r *rig, n int) {
		rows := r.args.Rows
		y := r.Apply(graph.LayerNorm{Eps: 1e-2}, r.f("x", r.noise(rows*n), graph.R(1), graph.D(n)), r.f("w", r.noise(n), graph.D(n)), r.f("b", r.noise(n), graph.D(n)))
		r.check(y[0], tolerance{top: float64(n) + 128, why: "x−mean loses digits, which rstd ≤ 10 magnifies"})
		r.check(y[1], tolerance{top: float64(n) + 64, why: "the variance of numbers that lost digits"})
	}},
	{name: "layernorm_grad", build: func(r *rig, n int) {
		rows := r.args.Rows
		dy, x := r.f("dy", r.noise(rows*n), graph.R(1), graph.D(n)), r.f("x", r.noise(rows*n), graph.R(1), graph.D(n))
		stats := r.f32("stats", r.positive(rows*2), graph.R(1), graph.D(2))
		w := r.f("w", r.noise(n), graph.D(n))
		d := r.Apply(graph.LayerNormGrad{}, dy, x, stats, w, r.acc("acc", rows*n, graph.R(1), graph.D(n)), r.acc("accW", n, graph.D(n)), r.acc("accB", n, graph.D(n)))
		r.check(d[0], tolerance{top: float64(4*n) + 64, why: "two means over the row, then differences"})
		r.check(d[1], tolerance{top: float64(4*rows) + 32, why: "a sum over rows of differences"})
		r.check(d[2], sums(rows+1))
	}},
	{name: "rope", build: func(r *rig, n int) {
		r.rope(n, false)
	}},
	{name: "rope inverse", build: func(r *rig, n int) {
		r.rope(n, true)
	}},
	{name: "add", build: func(r *rig, n int) {
		rows := r.args.Rows
		x := r.f("x", r.wide(rows*n), graph.R(1), graph.D(n))
		r.check(r.Add(x, r.f("y", r.wide(rows*n), graph.R(1), graph.D(n))), tolerance{rel: 1, why: "one rounding"})
	}},
	{name: "add specials", lengths: []int{1}, build: func(r *rig, _ int) {
		var x, y []float64
		for _, a := range specials {
			for _, b := range specials {
				x, y = append(x, a), append(y, b)
			}
		}
		r.check(r.Add(r.f("x", x, graph.D(len(x))), r.f("y", y, graph.D(len(x)))), tolerance{rel: 1, why: "one rounding"})
	}},
	{name: "add nothing", lengths: []int{1}, build: func(r *rig, _ int) {
		r.check(r.Add(r.f("x", nil, graph.D(0)), r.f("y", nil, graph.D(0))), exact)
	}},
	{name: "swiglu", build: func(r *rig, n int) {
		rows := r.args.Rows
		gate := r.wide(rows * n)
		gate[0], gate[len(gate)/2] = -200, 200
		gate[len(gate)-1] = math.NaN()
		g := r.f("gate", gate, graph.R(1), graph.D(n))
		r.check(r.SwiGLU(g, r.f("up", r.noise(rows*n), graph.R(1), graph.D(n))), silu)
	}},
	{name: "swiglu_grad", build: func(r *rig, n int) {
		rows := r.args.Rows
		da := r.f("da", r.noise(rows*n), graph.R(1), graph.D(n))
		gate := r.wide(rows * n)
		gate[0] = -200
		d := r.Apply(graph.SwiGLUGrad{}, da, r.f("gate", gate, graph.R(1), graph.D(n)), r.f("up", r.noise(rows*n), graph.R(1), graph.D(n)))
		r.check(d[0], tolerance{rel: 32, top: 16, abs: 16, why: "1+g(1−σ) has a zero at g = −1.28"})
		r.check(d[1], silu)
	}},
	{name: "swiglu one operand", build: func(r *rig, n int) {
		x := r.f("x", r.noise(n), graph.D(n))
		r.check(r.SwiGLU(x, x), silu)
	}},
	{name: "gelu", build: func(r *rig, n int) { r.gelu(n, false) }},
	{name: "gelu tanh", build: func(r *rig, n int) { r.gelu(n, true) }},
	{name: "gelu_grad", build: func(r *rig, n int) { r.geluGrad(n, false) }},
	{name: "gelu_grad tanh", build: func(r *rig, n int) { r.geluGrad(n, true) }},
	{name: "geglu", build: func(r *rig, n int) { r.geglu(n, false) }},
	{name: "geglu tanh", build: func(r *rig, n int) { r.geglu(n, true) }},
	{name: "geglu one operand", build: func(r *rig, n int) {
		x := r.f("x", r.noise(n), graph.D(n))
		r.check(r.GeGLU(x, x, true), tolerance{mag: 16, why: "as gelu, and a product"})
	}},
	{name: "geglu_grad", build: func(r *rig, n int) { r.gegluGrad(n, false) }},
	{name: "geglu_grad tanh", build: func(r *rig, n int) { r.gegluGrad(n, true) }},
	{name: "dropout", build: func(r *rig, n int) {
		rows := r.args.Rows
		seed := r.i("seed", []int32{-5, 1 << 20}, graph.D(2))
		x := r.f("x", r.noise(rows*n), graph.R(1), graph.D(n))
		r.check(r.Dropout(r.Dropout(x, seed, 0.25), seed, 0.1), tolerance{rel: 8, half: 4, why: "two products with rounded factors"})
	}},
	{name: "dropout of nothing", build: func(r *rig, n int) {
		seed := r.i("seed", []int32{7, 0}, graph.D(2))
		r.check(r.Dropout(r.f("x", r.noise(n), graph.D(1), graph.D(n)), seed, 0), exact)
	}},
	{name: "cast", build: func(r *rig, n int) {
		rows := r.args.Rows
		x := r.wide(rows * n)
		x[0], x[len(x)/2] = 65504, 65519
		v := r.f32("x", x, graph.R(1), graph.D(n))
		for _, to := range []dtype.Type{dtype.BF16, dtype.F16} {
			h := r.Cast(v, to)
			r.check(r.Cast(h, dtype.F32), exact)
			r.check(h, exact)
		}
	}},
	{name: "cast specials", lengths: []int{1}, build: func(r *rig, _ int) {
		v := r.f("x", specials, graph.D(len(specials)))
		for _, to := range []dtype.Type{dtype.BF16, dtype.F16} {
			h := r.Cast(v, to)
			r.check(r.Cast(h, dtype.F32), exact)
			r.check(h, exact)
		}
	}},
}

// positive is n numbers around 1.
func (r *rig) positive(n int) []float64 {
	x := r.noise(n)
	for i := range x {
		x[i] = float64(float32(math.Abs(x[i])/2 + 0.5))
	}
	return x
}

func (r *rig) rope(n int, inverse bool) {
	rows, o := r.args.Rows, graph.Rope{Heads: 1 + n%3, HeadDim: 2 * n, Theta: 10000, Inverse: inverse}
	pos := r.ints(rows, 1<<17)
	x := r.f("x", r.noise(rows*o.Heads*o.HeadDim), graph.R(1), graph.D(o.Heads*o.HeadDim))
	r.check(r.Apply(o, x, r.i("pos", pos, graph.R(1)))[0], tolerance{top: 6, why: "an angle in float64, two products with rounded factors"})
}

func (r *rig) geluInput(n int) graph.Value {
	x := r.wide(r.args.Rows * n)
	x[0], x[len(x)/2] = -50, 50
	x[len(x)-1] = -5.5
	return r.f("x", x, graph.R(1), graph.D(n))
}

func (r *rig) gelu(n int, tanh bool) {
	r.check(r.Gelu(r.geluInput(n), tanh), tolerance{mag: 16, why: "(1+erf)/2 to 8 ulp of 1; the result of |x| is at least |x|/2"})
}

func (r *rig) geluGrad(n int, tanh bool) {
	dy := r.f("dy", r.noise(r.args.Rows*n), graph.R(1), graph.D(n))
	r.check(r.Apply(graph.GeluGrad{Tanh: tanh}, dy, r.geluInput(n))[0], tolerance{mag: 64, why: "Φ + xφ to 32 ulp of 1; that of |x| is at least 1/2"})
}

func (r *rig) geglu(n int, tanh bool) {
	up := r.f("up", r.noise(r.args.Rows*n), graph.R(1), graph.D(n))
	r.check(r.GeGLU(r.geluInput(n), up, tanh), tolerance{mag: 20, why: "as gelu, and a product"})
}

func (r *rig) gegluGrad(n int, tanh bool) {
	da, up := r.f("da", r.noise(r.args.Rows*n), graph.R(1), graph.D(n)), r.f("up", r.noise(r.args.Rows*n), graph.R(1), graph.D(n))
	d := r.Apply(graph.GeGLUGrad{Tanh: tanh}, da, r.geluInput(n), up)
	r.check(d[0], tolerance{mag: 68, why: "as gelu's gradient, and a product"})
	r.check(d[1], tolerance{mag: 20, why: "as gelu, and a product"})
}
