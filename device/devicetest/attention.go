package devicetest

import (
	"math"

	"loadline/graph"
)

// paged is a pool of keys and rows of three sequences that read it through a shuffled block table.
type paged struct {
	graph.AttentionSpec
	slots int
	pages graph.Paging
}

// paged makes the paging of a run of r.args.Rows rows: sequences of ascending positions, blocks of 4 in no order. Some head
// lengths have a window.
func (r *rig) paged(headDim int) paged {
	const seqs, block, width = 3, 4, 6
	rows := r.args.Rows
	window := []int{0, 3, block * width, 1}[headDim%4]
	p := paged{AttentionSpec: graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: headDim, Block: block, Context: block * width, Window: window}, slots: seqs*block*width + 4}
	var table, seq, pos []int32
	for _, b := range r.rng.Perm(seqs * width) {
		table = append(table, int32(b))
	}
	for i := range rows {
		s := int32(i * seqs / rows)
		at := int32(r.rng.IntN(p.Context - rows))
		if i > 0 && seq[i-1] == s {
			at = pos[i-1] + 1
		}
		seq, pos = append(seq, s), append(pos, at)
	}
	p.pages = graph.Paging{Table: r.i("table", table, graph.D(seqs), graph.D(width)), Seq: r.i("seq", seq, graph.R(1)), Pos: r.i("pos", pos, graph.R(1))}
	return p
}

func (p *paged) keys(r *rig, name string) graph.Value {
	w := p.KVHeads * p.HeadDim
	return r.f(name, r.noise(p.slots*w), graph.D(p.slots), graph.D(w))
}

func (p *paged) queries(r *rig, name string) graph.Value {
	w := p.Heads * p.HeadDim
	return r.f(name, r.noise(r.args.Rows*w), graph.R(1), graph.D(w))
}

// weights is one number per row, head and position of the context.
func (p *paged) weights(r *rig, name string) graph.Value {
	return r.f(name, r.noise(r.args.Rows*p.Heads*p.Context), graph.R(1), graph.D(p.Heads), graph.D(p.Context))
}

// probabilities is for values made with exp: the exponent's error, of HeadDim roundings of numbers around 4, is the
// result's relative error. Where the compute type is narrow they may be rounded to it.
func (p *paged) probabilities(more int) tolerance {
	return tolerance{top: float64(4*p.HeadDim + p.Context + 64 + more), half: 1, why: "the exponent's error, then a sum over keys"}
}

// gradients is for AttentionGrad, where do·v − Σ do·o cancels: wholly so for a row that sees one key.
func (p *paged) gradients(r *rig) tolerance {
	tol := p.probabilities(8*r.args.Rows + 4*p.HeadDim)
	tol.half = 16 // of o
	tol.abs, tol.why = float64(4*p.HeadDim)+64, "the exponent's error, and a difference of two dot products"
	return tol
}

var headDims = []int{1, 2, 3, 5, 8, 16, 17, 31, 32, 48, 64, 67}

// attentionCases read keys and values through a block table.
var attentionCases = []opCase{
	{name: "attention", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		k, v := p.keys(r, "k"), p.keys(r, "v")
		o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, p.queries(r, "q"), k, v, p.pages.Table, p.pages.Seq, p.pages.Pos)
		r.check(o[0], p.probabilities(0))
		r.check(o[1], tolerance{abs: float64(4*n + 64), rel: 16, why: "the largest exponent's error"})
	}},
	{name: "attention softcap", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		p.Softcap, p.Scaling = 1.25, 0.75
		k, v := p.keys(r, "k"), p.keys(r, "v")
		o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, p.queries(r, "q"), k, v, p.pages.Table, p.pages.Seq, p.pages.Pos)
		r.check(o[0], p.probabilities(0))
		r.check(o[1], tolerance{abs: float64(4*n + 64), rel: 16, why: "the largest exponent's error"})
	}},
	{name: "attention_grad softcap", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		p.Softcap, p.Scaling = 1.25, 0.75
		q, k, v := p.queries(r, "q"), p.keys(r, "k"), p.keys(r, "v")
		o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, q, k, v, p.pages.Table, p.pages.Seq, p.pages.Pos)
		d := r.Apply(graph.AttentionGrad{AttentionSpec: p.AttentionSpec}, p.queries(r, "do"), q, k, v, o[0], o[1], p.pages.Table, p.pages.Seq, p.pages.Pos)
		for i := range d {
			r.check(d[i], p.gradients(r))
		}
	}},
	{name: "attention sinks", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		k, v := p.keys(r, "k"), p.keys(r, "v")
		sinks := r.f32("sinks", []float64{0.5, -40, 3, 300}, graph.D(p.Heads))
		o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, p.queries(r, "q"), k, v, p.pages.Table, p.pages.Seq, p.pages.Pos, sinks)
		r.check(o[0], p.probabilities(0))
		r.check(o[1], tolerance{abs: float64(4*n + 64), rel: 16, why: "the largest exponent's error"})
	}},
	{name: "sink_grad", build: func(r *rig, n int) {
		const heads = 3
		rows := r.args.Rows
		do, o := r.f("do", r.noise(rows*heads*n), graph.R(1), graph.D(heads*n)), r.f("o", r.noise(rows*heads*n), graph.R(1), graph.D(heads*n))
		lse, sinks := r.f32("lse", r.positive(rows*heads), graph.R(1), graph.D(heads)), r.f32("sinks", r.noise(heads), graph.D(heads))
		r.check(r.Apply(graph.SinkGrad{}, do, o, lse, sinks, r.acc("acc", heads, graph.D(heads)))[0], tolerance{abs: 64 * float64(rows*n), why: "sums of products of numbers around 1, which cancel"})
	}},
	{name: "softmax with sinks", build: func(r *rig, n int) {
		x := r.noise(r.args.Rows * 2 * n)
		r.check(r.Apply(graph.Softmax{}, r.f("x", x, graph.R(1), graph.D(2), graph.D(n)), r.f32("sinks", []float64{1, -20}, graph.D(2)))[0], tolerance{rel: float64(n) + 96, why: "exp of exact operands, a sum of positive terms"})
	}},
	{name: "softmax_sink_grad", build: func(r *rig, n int) {
		rows := r.args.Rows
		p := r.positive(rows * 2 * n)
		for i := range p {
			p[i] = float64(float32(p[i] / float64(2*n)))
		}
		dp := r.f("dp", r.noise(rows*2*n), graph.R(1), graph.D(2), graph.D(n))
		r.check(r.Apply(graph.SoftmaxSinkGrad{}, dp, r.f("p", p, graph.R(1), graph.D(2), graph.D(n)), r.acc("acc", 2, graph.D(2)))[0], tolerance{abs: 64 * float64(rows*n), why: "a rest of 1 and a sum, which cancel"})
	}},
	{name: "attention extreme scores", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		q := make([]float64, r.args.Rows*p.Heads*n)
		k := make([]float64, p.slots*p.KVHeads*n)
		for i := range q {
			q[i] = 64
		}
		for i := range k {
			k[i] = float64(i / (2 * n) % 5 * 16) // scores to 10⁵, far apart or the same: exp of them would overflow
		}
		kv, v := r.f("k", k, graph.D(p.slots), graph.D(2*n)), p.keys(r, "v")
		o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, r.f("q", q, graph.R(1), graph.D(4*n)), kv, v, p.pages.Table, p.pages.Seq, p.pages.Pos)
		r.check(o[0], p.probabilities(0))
		r.check(o[1], tolerance{rel: float64(n) + 16, why: "one large sum"})
	}},
	{name: "attention_grad", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		q, k, v := p.queries(r, "q"), p.keys(r, "k"), p.keys(r, "v")
		o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, q, k, v, p.pages.Table, p.pages.Seq, p.pages.Pos)
		d := r.Apply(graph.AttentionGrad{AttentionSpec: p.AttentionSpec}, p.queries(r, "do"), q, k, v, o[0], o[1], p.pages.Table, p.pages.Seq, p.pages.Pos)
		for i := range d {
			r.check(d[i], p.gradients(r))
		}
	}},
	{name: "attention_grad rows", lengths: headDims, build: func(r *rig, n int) {
		// as in training: the keys of this pass's rows, the table the identity
		rows := r.args.Rows
		p := paged{AttentionSpec: graph.AttentionSpec{Heads: 2, KVHeads: 1, HeadDim: n, Block: 16, Context: 16}}
		var pos []int32
		for i := range rows {
			pos = append(pos, int32(i))
		}
		pg := graph.Paging{Table: r.i("table", []int32{0}, graph.D(1), graph.D(1)), Seq: r.i("seq", make([]int32, rows), graph.R(1)), Pos: r.i("pos", pos, graph.R(1))}
		q := p.queries(r, "q")
		k, v := r.f("k", r.noise(rows*n), graph.R(1), graph.D(n)), r.f("v", r.noise(rows*n), graph.R(1), graph.D(n))
		o := r.Apply(graph.Attention{AttentionSpec: p.AttentionSpec}, q, k, v, pg.Table, pg.Seq, pg.Pos)
		d := r.Apply(graph.AttentionGrad{AttentionSpec: p.AttentionSpec}, p.queries(r, "do"), q, k, v, o[0], o[1], pg.Table, pg.Seq, pg.Pos)
		for i := range d {
			r.check(d[i], p.gradients(r))
		}
	}},
	{name: "attention_probs", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		k := p.keys(r, "k")
		in := []graph.Value{p.queries(r, "q"), k, p.pages.Table, p.pages.Seq, p.pages.Pos}
		r.check(r.Apply(graph.AttentionProbs{AttentionSpec: p.AttentionSpec}, in...)[0], p.probabilities(0))
		sinks := r.f32("sinks", []float64{0.5, -40, 3, 300}, graph.D(p.Heads))
		r.check(r.Apply(graph.AttentionProbs{AttentionSpec: p.AttentionSpec}, append(in, sinks)...)[0], p.probabilities(0))
	}},
	{name: "scores", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		k := p.keys(r, "k")
		r.check(r.Apply(graph.Scores{AttentionSpec: p.AttentionSpec}, p.queries(r, "q"), k, p.pages.Table, p.pages.Seq, p.pages.Pos)[0], sums(n+1))
	}},
	{name: "scores_dq", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		k := p.keys(r, "k")
		r.check(r.Apply(graph.ScoresDQ{AttentionSpec: p.AttentionSpec}, p.weights(r, "ds"), k, p.pages.Table, p.pages.Seq, p.pages.Pos)[0], sums(p.Context+1))
	}},
	{name: "scores_dk", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		q := p.queries(r, "q")
		r.check(r.Apply(graph.ScoresDK{AttentionSpec: p.AttentionSpec, Slots: graph.D(p.slots)}, p.weights(r, "ds"), q, p.pages.Table, p.pages.Seq, p.pages.Pos)[0], sums(2*r.args.Rows+1))
	}},
	{name: "mix", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		v := p.keys(r, "v")
		r.check(r.Apply(graph.Mix{AttentionSpec: p.AttentionSpec}, p.weights(r, "p"), v, p.pages.Table, p.pages.Seq, p.pages.Pos)[0], sums(p.Context))
	}},
	{name: "mix_dp", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		v := p.keys(r, "v")
		r.check(r.Apply(graph.MixDP{AttentionSpec: p.AttentionSpec}, p.queries(r, "do"), v, p.pages.Table, p.pages.Seq, p.pages.Pos)[0], sums(n))
	}},
	{name: "mix_dv", lengths: headDims, build: func(r *rig, n int) {
		p := r.paged(n)
		do := p.queries(r, "do")
		r.check(r.Apply(graph.MixDV{AttentionSpec: p.AttentionSpec, Slots: graph.D(p.slots)}, do, p.weights(r, "p"), p.pages.Table, p.pages.Seq, p.pages.Pos)[0], sums(2*r.args.Rows))
	}},
	{name: "softmax", build: func(r *rig, n int) {
		rows := r.args.Rows
		x := r.noise(rows * 2 * n)
		for i := range x {
			switch {
			case i%5 == 3 && i%n != 0:
				x[i] = math.Inf(-1) // masked; every row keeps its first
			case i%11 == 7:
				x[i] = -1000
			}
		}
		r.check(r.Softmax(r.f("x", x, graph.R(1), graph.D(2), graph.D(n))), tolerance{rel: float64(n) + 64, why: "exp of exact operands, a sum of positive terms"})
	}},
	{name: "softmax_grad", build: func(r *rig, n int) {
		rows := r.args.Rows
		dp := r.f("dp", r.noise(rows*n), graph.R(1), graph.D(n))
		p := r.noise(rows * n)
		for i := range p {
			p[i] = math.Abs(p[i])
		}
		r.check(r.Apply(graph.SoftmaxGrad{}, dp, r.f("p", p, graph.R(1), graph.D(n)))[0], tolerance{top: float64(4*n) + 16, why: "a sum over the row, then a difference"})
	}},
}
