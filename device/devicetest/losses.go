package devicetest

import (
	"math"

	"loadline/graph"
)

// targets is n classes below v, some rows left out.
func (r *rig) targets(n, v int) []int32 {
	x := r.ints(n, v)
	for i := range x {
		if i%5 == 3 {
			x[i] = -1 - int32(i)
		}
	}
	return x
}

// lossTolerance is for a weighted sum over rows of lse − logit, each an exponent's error around numbers up to 8.
func lossTolerance(rows, v, d int) tolerance {
	return tolerance{rel: 16, abs: float64(rows) * (float64(v+4*d) + 64), why: "lse − logit of numbers up to 8, per row"}
}

// lossCases are loss heads.
var lossCases = []opCase{
	{name: "crossentropy", build: func(r *rig, n int) {
		rows := r.args.Rows
		logits := r.noise(rows * n)
		for i := range logits {
			if i%n == n/2 && i%3 == 0 {
				logits[i] *= 1000 // no overflow
				logits[i] = float64(float32(logits[i]))
			}
		}
		l := r.f32("logits", logits, graph.R(1), graph.D(n))
		o := r.Apply(graph.CrossEntropy{}, l, r.i("targets", r.targets(rows, n), graph.R(1)), r.f("weight", []float64{0.25}, graph.D(1)))
		r.check(o[0], lossTolerance(rows, n, 0))
	}},
	{name: "crossentropy tall", build: func(r *rig, n int) {
		rows := 5 * n // across blocks of 128 rows
		l := r.f32("logits", r.noise(rows*7), graph.D(rows), graph.D(7))
		o := r.Apply(graph.CrossEntropy{}, l, r.i("targets", r.ints(rows, 7), graph.D(rows)), r.f("weight", []float64{0.25}, graph.D(1)))
		r.check(o[0], lossTolerance(rows, 7, 0))
		r.check(o[1], tolerance{rel: 8, abs: 64, why: "the log of a sum of exps"})
	}},
	{name: "crossentropy_grad", build: func(r *rig, n int) {
		rows := r.args.Rows
		logits := r.noise(rows * n)
		targets := r.targets(rows, n)
		var lse []float64
		for i := range rows {
			var z float64
			for _, x := range logits[i*n : (i+1)*n] {
				z += math.Exp(x)
			}
			lse = append(lse, float64(float32(math.Log(z))))
		}
		l, tg := r.f32("logits", logits, graph.R(1), graph.D(n)), r.i("targets", targets, graph.R(1))
		d := r.Apply(graph.CrossEntropyGrad{}, l, tg, r.f("weight", []float64{0.25}, graph.D(1)), r.f("lse", lse, graph.R(1)))
		r.check(d[0], tolerance{rel: 32, abs: 16, why: "an exp of a rounded difference, less one at the target"})
	}},
	{name: "crossentropy with terms", build: func(r *rig, n int) {
		rows := r.args.Rows
		l := r.f32("logits", r.noise(rows*n), graph.R(1), graph.D(n))
		o := r.Apply(graph.CrossEntropy{LossTerms: lossTerms}, l, r.i("targets", r.targets(rows, n), graph.R(1)), r.f("weight", []float64{0.25}, graph.D(1)))
		r.check(o[0], lossTolerance(rows, n, 0))
	}},
	{name: "crossentropy_grad with terms", build: func(r *rig, n int) {
		rows := r.args.Rows
		lse := make([]float64, rows)
		for i := range lse {
			lse[i] = math.Log(float64(n)) + 0.5
		}
		l, tg := r.f32("logits", r.noise(rows*n), graph.R(1), graph.D(n)), r.i("targets", r.targets(rows, n), graph.R(1))
		d := r.Apply(graph.CrossEntropyGrad{LossTerms: lossTerms}, l, tg, r.f("weight", []float64{0.25}, graph.D(1)), r.f("lse", rounded32(lse), graph.R(1)))
		r.check(d[0], tolerance{rel: 32, abs: 32, why: "an exp of a rounded difference, less a share, less most of one at the target"})
	}},
	{name: "headloss with terms", build: func(r *rig, n int) {
		r.headLossOf(graph.HeadLoss{Chunk: 128, LossTerms: lossTerms}, n, 5, r.args.Rows, false)
	}},
	{name: "headloss_grad with terms", build: func(r *rig, n int) {
		r.headLossOf(graph.HeadLoss{Chunk: 128, LossTerms: lossTerms}, n, 5, r.args.Rows, true)
	}},
	{name: "headloss_grad chunks with terms", build: func(r *rig, n int) { r.headLossOf(graph.HeadLoss{Chunk: 128, LossTerms: lossTerms}, 3, 7, 10*n, true) }},
	{name: "headloss with a softcap", build: func(r *rig, n int) { r.headLossOf(graph.HeadLoss{Chunk: 128, Softcap: 1.5}, n, 5, r.args.Rows, false) }},
	{name: "headloss_grad chunks with a softcap", build: func(r *rig, n int) {
		r.headLossOf(graph.HeadLoss{Chunk: 128, LossTerms: lossTerms, Softcap: 1.5}, 3, 7, 10*n, true)
	}},
	{name: "headloss", build: func(r *rig, n int) { r.headLoss(n, 5, r.args.Rows, false) }},
	{name: "headloss vocabulary", build: func(r *rig, n int) { r.headLoss(6, n, r.args.Rows, false) }},
	{name: "headloss chunks", build: func(r *rig, n int) { r.headLoss(3, 7, 10*n, false) }},
	{name: "headloss_grad", build: func(r *rig, n int) { r.headLoss(n, 5, r.args.Rows, true) }},
	{name: "headloss_grad vocabulary", build: func(r *rig, n int) { r.headLoss(6, n, r.args.Rows, true) }},
	{name: "headloss_grad chunks", build: func(r *rig, n int) { r.headLoss(3, 7, 10*n, true) }},
}

// lossTerms are terms that show.
var lossTerms = graph.LossTerms{Smoothing: 0.125, Z: 0.0625}

// rounded32 is x as float32 holds it.
func rounded32(x []float64) []float64 {
	for i := range x {
		x[i] = float64(float32(x[i]))
	}
	return x
}

// headLoss is a head of width d and v classes over rows: those of the run, or a fixed number.
func (r *rig) headLoss(d, v, rows int, grad bool) {
	r.headLossOf(graph.HeadLoss{Chunk: 128}, d, v, rows, grad)
}

func (r *rig) headLossOf(head graph.HeadLoss, d, v, rows int, grad bool) {
	n := graph.R(1)
	if rows != r.args.Rows {
		n = graph.D(rows)
	}
	h := r.noise(rows * d)
	for i := range h {
		h[i] = float64(float32(h[i] / math.Sqrt(float64(d))))
	}
	hv, w := r.f("h", h, n, graph.D(d)), r.f("w", r.noise(v*d), graph.D(v), graph.D(d))
	targets, weight := r.i("targets", r.targets(rows, v), n), r.f("weight", []float64{0.25}, graph.D(1))
	loss := lossTolerance(rows, v, d)
	if !grad {
		r.check(r.Apply(head, hv, w, targets, weight)[0], loss)
		return
	}
	o := r.Apply(graph.HeadLossGrad(head), hv, w, targets, weight, r.accW("acc", v*d, graph.D(v), graph.D(d)))
	back := float64(v+2*d) + 64
	r.check(o[0], tolerance{rel: 8, abs: back * 4, top: back, half: 4, why: "dlogits to (4d+64) ulp, then a sum over classes"})
	r.check(o[1], tolerance{rel: 8, abs: back * 4 * math.Sqrt(float64(rows)), top: back + float64(rows), half: 4, why: "dlogits to (4d+64) ulp, then a sum over rows"})
	r.check(o[2], loss)
}
