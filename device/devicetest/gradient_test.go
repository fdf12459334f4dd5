package devicetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/tensor/dtype"
)

// tape is a rig whose loss is differentiated.
type tape struct {
	*rig
	params []graph.Value
}

// param is a trainable operand of normal numbers.
func (p *tape) param(name string, dims ...int) graph.Value {
	n, shape := 1, []graph.Dim{}
	for _, d := range dims {
		n *= d
		shape = append(shape, graph.D(d))
	}
	p.data = append(p.data, datum{name: name, f: p.noise(n)})
	v := p.Param(name, graph.F(shape...))
	p.params = append(p.params, v)
	return v
}

// loss ends the graph: a fixed projection of x to seven classes, and their cross entropy. One row has no target.
func (p *tape) loss(x graph.Value) {
	ty := p.G.Info(x).Type
	n, d := ty.Shape.Lead(p.G.Bounds), ty.Shape.Last()
	w := p.input("proj", p.noise(7*d), graph.F(graph.D(7), graph.D(d)))
	if ty.DType == dtype.F64 {
		w = p.Cast(w, dtype.F64)
	}
	targets := p.ints(n, 7)
	targets[n/2] = -1
	wt := p.input("weight", []float64{0.25}, graph.F(graph.D(1)))
	p.SetLoss(p.CrossEntropy(p.MatMul(x, w), p.i("targets", targets, graph.D(n)), wt))
}

// pages is a pool of slots keys in blocks of 4, with n rows of two sequences: the first has the earlier keys.
func (p *tape) pages() (graph.Paging, int, int) {
	const n, slots = 9, 16
	return graph.Paging{
		Table: p.i("table", []int32{2, 0, 1, 3}, graph.D(2), graph.D(2)),
		Seq:   p.i("seq", []int32{0, 0, 0, 0, 0, 0, 1, 1, 1}, graph.D(n)),
		Pos:   p.i("pos", []int32{0, 1, 2, 3, 4, 5, 0, 1, 4}, graph.D(n)),
	}, n, slots
}

var gradients = []struct {
	name  string
	build func(p *tape)
}{
	{"matmul", func(p *tape) { p.loss(p.MatMul(p.param("x", 5, 6), p.param("w", 4, 6))) }},
	{"linear", func(p *tape) { p.loss(p.Linear(p.param("x", 5, 6), p.param("w", 4, 6), p.param("b", 4))) }},
	{"matmul, shared", func(p *tape) {
		x, w := p.param("x", 5, 6), p.param("w", 6, 6)
		p.loss(p.Add(p.MatMul(p.MatMul(x, w), w), x))
	}},
	{"embedding", func(p *tape) {
		p.loss(p.Embedding(p.i("tokens", []int32{3, 0, 3, 5, 3}, graph.D(5)), p.param("table", 6, 4)))
	}},
	{"embedding, tied", func(p *tape) {
		table := p.param("table", 6, 4)
		h := p.Embedding(p.i("tokens", []int32{3, 0, 3, 5, 3}, graph.D(5)), table)
		p.SetLoss(p.HeadLoss(p.RMSNorm(h, p.param("w", 4), 1e-5), table, p.i("targets", []int32{1, -1, 5, 0, 2}, graph.D(5)), p.input("weight", []float64{0.25}, graph.F(graph.D(1))), 128))
	}},
	{"rmsnorm", func(p *tape) { p.loss(p.RMSNorm(p.param("x", 5, 6), p.param("w", 6), 1e-3)) }},
	{"rmsnorm, residual", func(p *tape) {
		x := p.param("x", 5, 6)
		p.loss(p.Add(x, p.RMSNorm(x, p.param("w", 6), 1e-3)))
	}},
	{"rmsnorm, shared", func(p *tape) {
		w := p.param("w", 6)
		p.loss(p.RMSNorm(p.MatMul(p.RMSNorm(p.param("x", 5, 6), w, 1e-3), p.param("m", 6, 6)), w, 1e-3))
	}},
	{"rmsnorm of heads, shared", func(p *tape) {
		w := p.param("w", 3)
		p.loss(p.RMSNorm(p.MatMul(p.RMSNorm(p.param("x", 5, 6), w, 1e-3), p.param("m", 6, 6)), w, 1e-3))
	}},
	{"affine", func(p *tape) { p.loss(p.Affine(p.Affine(p.param("x", 5, 6), -1.5, 0.5), 1, 1)) }},
	{"affine, of a norm's weight", func(p *tape) { p.loss(p.RMSNorm(p.param("x", 5, 6), p.Affine(p.param("w", 6), 1, 1), 1e-3)) }},
	{"softcap", func(p *tape) { p.loss(p.SoftCap(p.param("x", 5, 6), 1.5)) }},
	{"rope, scaled", func(p *tape) {
		o := graph.Rope{Heads: 2, HeadDim: 6, Theta: 100, Turned: 4, Divisors: graph.DivisorsOf([]float64{1.5, 4}), Magnitude: 1.25}
		p.loss(p.Rotate(p.param("x", 5, 12), p.i("pos", []int32{0, 1, 7, 100, 3}, graph.D(5)), o))
	}},
	{"attention, softcap", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.Attention(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8, Window: 5, Softcap: 0.75, Scaling: 1.25}))
	}},
	{"standard attention, softcap", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.StandardAttention(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8, Window: 5, Softcap: 0.75, Scaling: 1.25}))
	}},
	{"attention, sinks", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.AttentionWithSinks(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), p.param("sinks", 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8, Window: 5}))
	}},
	{"standard attention, sinks", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.StandardAttentionWithSinks(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), p.param("sinks", 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8, Window: 5}))
	}},
	{"clampedglu", func(p *tape) { p.loss(p.ClampedGLU(p.param("gate", 5, 6), p.param("up", 5, 6), 1.7, 1.1)) }},
	{"grouped bias", func(p *tape) {
		offsets := p.i("offsets", []int32{0, 2, 2, 6}, graph.D(4))
		p.loss(p.GroupedBias(p.param("y", 6, 4), p.param("b", 3, 4), offsets))
	}},
	{"layernorm", func(p *tape) { p.loss(p.LayerNorm(p.param("x", 5, 6), p.param("w", 6), p.param("b", 6), 1e-3)) }},
	{"layernorm, shared", func(p *tape) {
		x, w, b := p.param("x", 5, 6), p.param("w", 6), p.param("b", 6)
		p.loss(p.Add(x, p.LayerNorm(p.LayerNorm(x, w, b, 1e-3), w, b, 1e-3)))
	}},
	{"rope", func(p *tape) {
		p.loss(p.Rope(p.param("x", 5, 12), p.i("pos", []int32{0, 1, 7, 100, 3}, graph.D(5)), 2, 6, 100))
	}},
	{"attention", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.Attention(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8}))
	}},
	{"standard attention", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.StandardAttention(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8}))
	}},
	{"attention, window", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.Attention(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8, Window: 3}))
	}},
	{"standard attention, window", func(p *tape) {
		pg, n, s := p.pages()
		p.loss(p.StandardAttention(p.param("q", n, 8), p.param("k", s, 4), p.param("v", s, 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 4, Context: 8, Window: 3}))
	}},
	{"attention, packed documents", func(p *tape) { // of 3, 4 and 2 tokens, which begin anywhere
		const n = 9
		pg := graph.Paging{
			Table: p.i("table", []int32{0, 1, 2, 0, 3, 4, 5, 6, 7, 8, 0, 0}, graph.D(3), graph.D(4)),
			Seq:   p.i("seq", []int32{0, 0, 0, 1, 1, 1, 1, 2, 2}, graph.D(n)),
			Pos:   p.i("pos", []int32{0, 1, 2, 0, 1, 2, 3, 0, 1}, graph.D(n)),
		}
		p.loss(p.Attention(p.param("q", n, 8), p.param("k", n, 4), p.param("v", n, 4), pg, graph.AttentionSpec{Heads: 4, KVHeads: 2, HeadDim: 2, Block: 1, Context: 4}))
	}},
	{"softmax", func(p *tape) { p.loss(p.Softmax(p.param("x", 5, 6))) }},
	{"swiglu", func(p *tape) { p.loss(p.SwiGLU(p.param("gate", 5, 6), p.param("up", 5, 6))) }},
	{"swiglu, one operand", func(p *tape) {
		x := p.param("x", 5, 6)
		p.loss(p.SwiGLU(x, x))
	}},
	{"geglu", func(p *tape) { p.loss(p.GeGLU(p.param("gate", 5, 6), p.param("up", 5, 6), false)) }},
	{"geglu tanh, one operand", func(p *tape) {
		x := p.param("x", 5, 6)
		p.loss(p.GeGLU(x, x, true))
	}},
	{"gelu", func(p *tape) { p.loss(p.Gelu(p.param("x", 5, 6), false)) }},
	{"gelu tanh", func(p *tape) { p.loss(p.Gelu(p.param("x", 5, 6), true)) }},
	{"add", func(p *tape) {
		x := p.param("x", 5, 6)
		p.loss(p.Add(p.Add(x, p.param("y", 5, 6)), x))
	}},
	{"crossentropy", func(p *tape) {
		p.SetLoss(p.CrossEntropy(p.param("logits", 5, 6), p.i("targets", []int32{1, -1, 5, 0, -7}, graph.D(5)), p.input("weight", []float64{0.3}, graph.F(graph.D(1)))))
	}},
	{"crossentropy with terms", func(p *tape) {
		p.SetLoss(p.Apply(graph.CrossEntropy{LossTerms: lossTerms}, p.param("logits", 5, 6), p.i("targets", []int32{1, -1, 5, 0, -7}, graph.D(5)), p.input("weight", []float64{0.3}, graph.F(graph.D(1))))[0])
	}},
	{"headloss with terms", func(p *tape) {
		p.SetLoss(p.Apply(graph.HeadLoss{Chunk: 128, LossTerms: lossTerms}, p.param("x", 5, 3), p.param("w", 6, 3), p.i("targets", []int32{1, -1, 5, 0, -7}, graph.D(5)), p.input("weight", []float64{0.3}, graph.F(graph.D(1))))[0])
	}},
	{"headloss with a softcap", func(p *tape) {
		p.SetLoss(p.Apply(graph.HeadLoss{Chunk: 128, LossTerms: lossTerms, Softcap: 0.75}, p.param("x", 5, 3), p.param("w", 6, 3), p.i("targets", []int32{1, -1, 5, 0, -7}, graph.D(5)), p.input("weight", []float64{0.3}, graph.F(graph.D(1))))[0])
	}},
	{"headloss", func(p *tape) {
		const n = 300 // three chunks
		targets := p.ints(n, 5)
		targets[7], targets[299] = -1, -1
		h := p.MatMul(p.param("h", n, 3), p.param("m", 3, 3))
		p.SetLoss(p.HeadLoss(h, p.param("w", 5, 3), p.i("targets", targets, graph.D(n)), p.input("weight", []float64{1.0 / 298}, graph.F(graph.D(1))), 128))
	}},
	{"dropout", func(p *tape) {
		seed := p.i("seed", []int32{42, 1000}, graph.D(2))
		p.loss(p.Dropout(p.Dropout(p.param("x", 5, 6), seed, 0.3), seed, 0.2))
	}},
	{"moe", func(p *tape) {
		const n, d, f, e, k = 6, 4, 5, 4, 2
		x := p.param("x", n, d)
		weights, ids := p.Router(p.MatMul(x, p.param("gate", e, d)), k)
		order, place, offsets := p.Dispatch(ids, e)
		rows := p.GatherRows(x, order, place, k)
		h := p.SwiGLU(p.GroupedMatMul(rows, p.param("up", e, f, d), offsets), p.GroupedMatMul(rows, p.param("up2", e, f, d), offsets))
		y := p.GroupedMatMul(h, p.param("down", e, d, f), offsets)
		p.loss(p.Add(x, p.Combine(y, weights, order, place, k)))
	}},
	{"cast", func(p *tape) {
		p.loss(p.Cast(p.MatMul(p.param("x", 5, 6), p.param("w", 6, 6)), dtype.F64))
	}},
}

// TestGradients compares every gradient with central differences in float64, step 1e-5: the difference's own error is
// about 1e-10 of the loss, so 1e-6 of an element (or of a thousandth of the largest) leaves room for none of ours.
func TestGradients(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range gradients {
		t.Run(c.name, func(t *testing.T) {
			p := &tape{rig: newRig(persistent, graph.Bounds{Rows: 1, Outs: 1}, 7)}
			c.build(p)
			for i := range p.G.Ops {
				covered[reflect.TypeOf(p.G.Ops[i].Op).Name()] = true
			}
			checkGradients(t, p)
		})
	}
	for _, name := range graphTypes(t, "Gradient") {
		if !covered[name] {
			t.Errorf("graph.%s has a gradient that no check covers", name)
		}
	}
}

func checkGradients(t *testing.T, p *tape) {
	grads := p.Differentiate(nil, nil)
	for i, v := range p.params {
		g := grads[v]
		if g == graph.None {
			t.Fatalf("%s has no gradient", p.G.Info(v).Name)
		}
		if !strings.HasPrefix(p.G.Info(g).Name, "grad.") {
			p.Output(fmt.Sprintf("grad.%d", i), g)
		}
	}
	h := openOn(t, ref.New(ref.F64), p.job(t))
	defer h.Close()
	h.fill(p.rig)
	x := h.Session.(ref.Exact)
	lossAt := func() float64 {
		h.run(device.Args{})
		var l [1]float64
		if err := x.ReadF64("loss", 0, l[:]); err != nil {
			t.Fatal(err)
		}
		return l[0]
	}
	lossAt()
	analytic := map[graph.Value][]float64{}
	for _, v := range p.params {
		info := p.G.Info(grads[v])
		analytic[v] = h.floats(info.Name, info.Type, p.G.Bounds)
	}
	for _, v := range p.params {
		d := p.datum(p.G.Info(v).Name)
		top := 0.0
		for _, a := range analytic[v] {
			top = max(top, math.Abs(a))
		}
		if top == 0 || math.IsNaN(top) {
			t.Errorf("gradient of %s: largest is %g", d.name, top)
		}
		stride := max(1, len(d.f)/48)
		for i := 0; i < len(d.f); i += stride {
			const step = 1e-5
			at := func(y float64) float64 {
				if err := x.WriteF64(d.name, i, []float64{y}); err != nil {
					t.Fatal(err)
				}
				return lossAt()
			}
			up, down := at(d.f[i]+step), at(d.f[i]-step)
			if err := x.WriteF64(d.name, i, d.f[i:i+1]); err != nil {
				t.Fatal(err)
			}
			want, got := (up-down)/(2*step), analytic[v][i]
			if math.Abs(got-want) > 1e-6*max(math.Abs(want), 1e-3*top) {
				t.Errorf("gradient of %s[%d]: got %.12g, differences give %.12g", d.name, i, got, want)
			}
		}
	}
}

// graphTypes lists the types of package graph that have a method.
func graphTypes(t *testing.T, method string) []string {
	t.Helper()
	files, err := filepath.Glob("../../graph/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of package graph: %v", err)
	}
	var names []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == method && f.Recv != nil {
				if id, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
					names = append(names, id.Name)
				}
			}
		}
	}
	if len(names) < 15 {
		t.Fatalf("only %d types of package graph have %s", len(names), method)
	}
	return names
}
