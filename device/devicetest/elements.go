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
	{name: "rmsnorm of heads", build: func(r *rig, n int) {
		const heads = 3
		tol := tolerance{rel: float64(n)/2 + 8, why: "a sum of squares, a root, two products"}
		y := r.Apply(graph.RMSNorm{Eps: 1e-5}, r.f("x", r.wide(r.args.Rows*heads*n), graph.R(1), graph.D(heads*n)), r.f("w", r.noise(n), graph.D(n)))
		r.check(y[0], tol)
		r.check(y[1], tol)
	}},
	{name: "rmsnorm_grad of heads", build: func(r *rig, n int) {
		const heads = 3
		rows := r.args.Rows
		dy, x := r.f("dy", r.noise(rows*heads*n), graph.R(1), graph.D(heads*n)), r.f("x", r.noise(rows*heads*n), graph.R(1), graph.D(heads*n))
		stat := r.f32("rstd", r.positive(rows*heads), graph.R(1), graph.D(heads))
		d := r.Apply(graph.RMSNormGrad{}, dy, x, stat, r.f("w", r.noise(n), graph.D(n)), r.acc("acc", rows*heads*n, graph.R(1), graph.D(heads*n)), r.acc("accW", n, graph.D(n)))
		r.check(d[0], tolerance{top: float64(2*n) + 32, why: "a mean over the head, then a difference"})
		r.check(d[1], sums(2*heads*rows+1))
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
	{name: "rope", build: func(r *rig, n int) { r.rope(graph.Rope{HeadDim: 2 * n}, n) }},
	{name: "rope inverse", build: func(r *rig, n int) { r.rope(graph.Rope{HeadDim: 2 * n, Inverse: true}, n) }},
	{name: "rope scaled", build: func(r *rig, n int) {
		r.rope(graph.Rope{HeadDim: 3 * n, Turned: 2 * n, Divisors: graph.DivisorsOf(r.positive(n)), Magnitude: 1.25, Inverse: n%2 == 1}, n)
	}},
	{name: "affine", build: func(r *rig, n int) {
		rows := r.args.Rows
		x := r.f("x", r.wide(rows*n), graph.R(1), graph.D(n))
		r.check(r.Affine(x, 5.5, 0), tolerance{rel: 1, why: "one rounding"})
		r.check(r.Affine(x, 1, 1), tolerance{rel: 1, why: "one rounding"})
		r.check(r.Affine(x, -0.3, 0.7), tolerance{top: 8, why: "two roundings, and a difference"})
	}},
	{name: "softcap", build: func(r *rig, n int) {
		r.check(r.SoftCap(r.softcapInput(n), 1.5), tolerance{rel: 4, why: "tanh in float64"})
	}},
	{name: "softcap_grad", build: func(r *rig, n int) {
		y := r.noise(r.args.Rows * n)
		for i := range y {
			y[i] = float64(float32(math.Tanh(y[i]) * 1.5))
		}
		y[0] = math.Inf(-1)
		dy := r.f("dy", r.noise(r.args.Rows*n), graph.R(1), graph.D(n))
		r.check(r.Apply(graph.SoftCapGrad{Cap: 1.5}, dy, r.f("y", y, graph.R(1), graph.D(n)))[0], tolerance{rel: 8, abs: 16, why: "1 − t² near t = ±1"})
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
	{name: "clampedglu", build: func(r *rig, n int) {
		up := r.f("up", r.wide(r.args.Rows*n), graph.R(1), graph.D(n))
		r.check(r.ClampedGLU(r.f("gate", r.wide(r.args.Rows*n), graph.R(1), graph.D(n)), up, 1.7, 2.5), tolerance{rel: 32, top: 4, why: "up + 1 has a zero at up = −1"})
	}},
	{name: "clampedglu_grad", build: func(r *rig, n int) {
		da, gate, up := r.noise(r.args.Rows*n), r.wide(r.args.Rows*n), r.wide(r.args.Rows*n)
		d := r.Apply(graph.ClampedGLUGrad{Alpha: 1.7, Limit: 2.5}, r.f("da", da, graph.R(1), graph.D(n)), r.f("gate", gate, graph.R(1), graph.D(n)), r.f("up", up, graph.R(1), graph.D(n)))
		r.check(d[0], tolerance{rel: 32, top: 32, abs: 16, why: "1 + αg(1−σ) has a zero"})
		r.check(d[1], tolerance{rel: 16, abs: 0x1p-94, why: "exp, a quotient, two products"})
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

// softcapInput has what a row does not see, and what is far beyond any cap.
func (r *rig) softcapInput(n int) graph.Value {
	x := r.wide(r.args.Rows * n)
	x[0], x[len(x)/2] = math.Inf(-1), 1e30
	return r.f("x", x, graph.R(1), graph.D(n))
}

func (r *rig) rope(o graph.Rope, n int) {
	rows := r.args.Rows
	o.Heads, o.Theta = 1+n%3, 10000
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
