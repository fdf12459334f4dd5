package devicetest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/internal/golden"
	"loadline/mem"
)

// goldenTolerance is beside the largest element: goldens were rounded once to float32 (6e-8), and attributes such as a
// decay rate or a scale are float32 here and float64 there (3e-8, ten times that in 1−β).
const goldenTolerance = 1e-6

// golds builds operations on the inputs of a golden set.
type golds struct {
	*rig
	set    *golden.Set
	op     string
	params []string
}

// floats64 is a float32 tensor of the set, widened.
func (g *golds) floats64(name string) []float64 {
	x, _ := g.set.F32(name)
	out := make([]float64, len(x))
	for i, a := range x {
		out[i] = float64(a)
	}
	return out
}

// param is input name as a trainable operand of the given shape.
func (g *golds) param(name string, dims ...int) graph.Value {
	var shape []graph.Dim
	for _, d := range dims {
		shape = append(shape, graph.D(d))
	}
	x := g.floats64(g.op + ".input." + name)
	g.data = append(g.data, datum{name: name, f: x})
	g.params = append(g.params, name)
	return g.Param(name, graph.F(shape...))
}

// ids is an int32 operand with data.
func (g *golds) ids(name string, x ...int32) graph.Value { return g.i(name, x, graph.D(len(x))) }

// probe is a loss whose gradient by its operand is given. Differentiating drops it, so no device runs it.
type probe struct{ dy, one graph.Value }

func (probe) Kind() string                                           { return "probe" }
func (probe) Outputs([]graph.Type) []graph.Type                      { return []graph.Type{graph.F(graph.D(1))} }
func (probe) FLOPs(graph.Bounds, []graph.Type, []graph.Type) float64 { return 0 }
func (p probe) Gradient(w *graph.Backprop) {
	w.Add(0, p.dy)
	w.Replace(w.Builder.Add(p.one, p.one))
}

// sequences is the paging of the golden attentions: two of 13 positions, of which rows stand at those from first on.
func (g *golds) sequences(first int) (graph.Paging, graph.AttentionSpec, int) {
	var seq, pos []int32
	for s := range int32(2) {
		for p := int32(first); p < 13; p++ {
			seq, pos = append(seq, s), append(pos, p)
		}
	}
	table := g.i("table", []int32{0, 1}, graph.D(2), graph.D(1))
	return graph.Paging{Table: table, Seq: g.ids("seq", seq...), Pos: g.ids("pos", pos...)}, graph.AttentionSpec{Heads: 6, KVHeads: 2, HeadDim: 10, Block: 13, Context: 13}, len(pos)
}

func (g *golds) attend(first int, standard bool) graph.Value {
	pg, spec, n := g.sequences(first)
	q, k, v := g.param("q", n, 60), g.param("k", 26, 20), g.param("v", 26, 20)
	if standard {
		return g.StandardAttention(q, k, v, pg, spec)
	}
	return g.Attention(q, k, v, pg, spec)
}

var goldenOps = []struct {
	op    string
	build func(g *golds) graph.Value
}{
	{"geglu_erf", func(g *golds) graph.Value { return g.GeGLU(g.param("gate", 7, 23), g.param("up", 7, 23), false) }},
	{"geglu_tanh", func(g *golds) graph.Value { return g.GeGLU(g.param("gate", 7, 23), g.param("up", 7, 23), true) }},
	{"rmsnorm", func(g *golds) graph.Value { return g.RMSNorm(g.param("x", 7, 24), g.param("weight", 24), 1e-5) }},
	{"layernorm", func(g *golds) graph.Value {
		return g.LayerNorm(g.param("x", 7, 24), g.param("weight", 24), g.param("bias", 24), 1e-5)
	}},
	{"gelu_erf", func(g *golds) graph.Value { return g.Gelu(g.param("x", 7, 23), false) }},
	{"gelu_tanh", func(g *golds) graph.Value { return g.Gelu(g.param("x", 7, 23), true) }},
	{"swiglu", func(g *golds) graph.Value { return g.SwiGLU(g.param("gate", 7, 23), g.param("up", 7, 23)) }},
	{"linear", func(g *golds) graph.Value { return g.MatMul(g.param("x", 7, 24), g.param("weight", 13, 24)) }},
	{"linear_bias", func(g *golds) graph.Value {
		return g.Linear(g.param("x", 7, 24), g.param("weight", 13, 24), g.param("bias", 13))
	}},
	{"embedding", func(g *golds) graph.Value {
		tokens, _ := g.set.I32("embedding.input.tokens")
		return g.Embedding(g.ids("tokens", tokens...), g.param("table", 19, 24))
	}},
	{"rope", func(g *golds) graph.Value {
		pos, _ := g.set.I32("rope.input.positions")
		return g.Rope(g.param("x", 7, 30), g.ids("pos", pos...), 3, 10, 10000)
	}},
	{"attention", func(g *golds) graph.Value { return g.attend(0, false) }},
	{"attention", func(g *golds) graph.Value { return g.attend(0, true) }},
	{"attention_tail", func(g *golds) graph.Value { return g.attend(8, false) }},
	{"attention_tail", func(g *golds) graph.Value { return g.attend(8, true) }},
	{"moe", func(g *golds) graph.Value {
		const e, k = 4, 2
		x := g.param("x", 9, 24)
		weights, ids := g.Router(g.MatMul(x, g.param("gate", e, 24)), k)
		order, place, offsets := g.Dispatch(ids, e)
		rows := g.GatherRows(x, order, place, k)
		h := g.SwiGLU(g.GroupedMatMul(rows, g.param("w1", e, 17, 24), offsets), g.GroupedMatMul(rows, g.param("w3", e, 17, 24), offsets))
		return g.Combine(g.GroupedMatMul(h, g.param("w2", e, 24, 17), offsets), weights, order, place, k)
	}},
}

// newGolds starts a graph on the goldens of op.
func newGolds(t *testing.T, op string) *golds {
	return goldsOf(t, "../../model/testdata/golden/ops.safetensors", op)
}

func goldsOf(t *testing.T, file, op string) *golds {
	return &golds{rig: newRig(persistent, graph.Bounds{Rows: 1, Outs: 1}, 1), set: golden.Load(t, file), op: op}
}

// TestGoldens compares the reference, and with it every device, with PyTorch: results and gradients.
func TestGoldens(t *testing.T) {
	for _, c := range goldenOps {
		t.Run(c.op, func(t *testing.T) {
			g := newGolds(t, c.op)
			if strings.HasPrefix(c.op, "geglu") {
				g = goldsOf(t, updatesFile, c.op)
			}
			y := c.build(g)
			dy := g.floats64(c.op + ".input.dy")
			ty := g.G.Info(y).Type
			g.data = append(g.data, datum{name: "dy", f: dy}, datum{name: "one", f: []float64{1}})
			g.SetLoss(g.Apply(probe{g.Input("dy", ty), g.Input("one", graph.F(graph.D(1)))}, y)[0])
			grads := g.Differentiate(nil, nil)
			g.Output("y", y)
			for _, name := range g.params {
				g.Output("grad."+name, grads[g.G.Find(name)])
			}
			h := openOn(t, ref.New(ref.F64), g.job(t))
			defer h.Close()
			h.fill(g.rig)
			h.run(device.Args{})
			want := g.floats64(c.op + ".output.y")
			golden.Close(t, "y", h.floats("y", ty, g.G.Bounds), want, goldenTolerance)
			for _, name := range g.params {
				want := g.floats64(c.op + ".grad." + name)
				golden.Close(t, "gradient of "+name, h.floats("grad."+name, g.G.Info(g.G.Find(name)).Type, g.G.Bounds), want, goldenTolerance)
			}
		})
	}
}

// TestGoldenHeads compares both loss heads.
func TestGoldenHeads(t *testing.T) {
	for op, terms := range map[string]graph.LossTerms{
		"head_cross_entropy": {}, "head_cross_entropy_masked": {}, "smooth": {Smoothing: 0.1}, "z": {Z: 1e-2}, "smooth_z": {Smoothing: 0.2, Z: 1e-3},
	} {
		for _, chunk := range []int{0, 128} {
			g := newGolds(t, op)
			if terms != (graph.LossTerms{}) {
				g = goldsOf(t, updatesFile, op)
			}
			targets, _ := g.set.I32(op + ".input.targets")
			n := 0
			for _, x := range targets {
				if x >= 0 {
					n++
				}
			}
			x, w, tg, weight := g.param("x", 11, 24), g.param("weight", 37, 24), g.ids("targets", targets...), g.input("one/n", []float64{1 / float64(n)}, graph.F(graph.D(1)))
			if chunk > 0 {
				g.SetLoss(g.Apply(graph.HeadLoss{Chunk: chunk, LossTerms: terms}, x, w, tg, weight)[0])
			} else {
				g.SetLoss(g.Apply(graph.CrossEntropy{LossTerms: terms}, g.MatMul(x, w), tg, weight)[0])
			}
			grads := g.Differentiate(nil, nil)
			for _, name := range g.params {
				g.Output("grad."+name, grads[g.G.Find(name)])
			}
			h := openOn(t, ref.New(ref.F64), g.job(t))
			h.fill(g.rig)
			h.run(device.Args{})
			want := g.floats64(op + ".output.loss")
			golden.Close(t, op, h.floats("loss", graph.F(graph.D(1)), g.G.Bounds), want, goldenTolerance)
			for _, name := range g.params {
				want := g.floats64(op + ".grad." + name)
				golden.Close(t, op+": gradient of "+name, h.floats("grad."+name, g.G.Info(g.G.Find(name)).Type, g.G.Bounds), want, goldenTolerance)
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestGoldenRouter compares the choice of experts and its gradient.
func TestGoldenRouter(t *testing.T) {
	g := newGolds(t, "router")
	dw := g.floats64("router.input.dweights")
	w, ids := g.Router(g.param("logits", 9, 5), 2)
	g.check(w, exact)
	g.check(ids, exact)
	g.check(g.Apply(graph.RouterGrad{Experts: 5}, g.f("dw", dw, graph.D(9), graph.D(2)), w, ids)[0], exact)
	h := openOn(t, ref.New(ref.F64), g.job(t))
	defer h.Close()
	h.fill(g.rig)
	h.run(device.Args{})
	want := g.floats64("router.output.weights")
	golden.Close(t, "weights", h.floats(g.outs[0].name, graph.F(graph.D(9), graph.D(2)), g.G.Bounds), want, goldenTolerance)
	want = g.floats64("router.grad.logits")
	golden.Close(t, "gradient", h.floats(g.outs[2].name, graph.F(graph.D(9), graph.D(5)), g.G.Bounds), want, goldenTolerance)
	wantIDs, _ := g.set.I32("router.output.indices")
	d := datum{i: wantIDs}
	if got := h.read(g.outs[1].name, int64(4*len(wantIDs))); string(got) != string(d.bytes()) {
		t.Errorf("choices: got %v, want %v", got, d.bytes())
	}
}

// TestGoldenUpdates takes five steps of each optimiser.
func TestGoldenUpdates(t *testing.T) {
	const n, steps = 37, 5
	lr, beta1, beta2 := 0.01, 0.9, 0.95
	for _, op := range []string{"adamw", "sgd", "sgd_momentum"} {
		g := newGolds(t, op)
		start := g.floats64(op + ".input.param")
		grads := g.floats64(op + ".input.grads")
		zero := make([]float64, n)
		w := g.state("params", start, mem.Weights, graph.D(n))
		dw := g.input("g", zero, graph.F(graph.D(n)))
		hyper := g.input("hyper", make([]float64, graph.HyperLen), graph.F(graph.D(graph.HyperLen)))
		states := []string{"params"}
		switch op {
		case "adamw":
			states = append(states, "m", "v")
			m, v := g.state("m", zero, mem.OptimState, graph.D(n)), g.state("v", zero, mem.OptimState, graph.D(n))
			g.Apply(graph.AdamW{Beta1: float32(beta1), Beta2: float32(beta2), Eps: 1e-8, Decay: 0.1}, w, dw, m, v, hyper, graph.None)
		case "sgd":
			g.Apply(graph.SGD{}, w, dw, graph.None, hyper, graph.None)
		default:
			g.Apply(graph.SGD{Momentum: 0.9}, w, dw, g.state("buf", zero, mem.OptimState, graph.D(n)), hyper, graph.None)
		}
		h := openOn(t, ref.New(ref.F64), g.job(t))
		h.fill(g.rig)
		x := h.Session.(ref.Exact)
		for s := range steps {
			values := make([]float64, graph.HyperLen)
			values[graph.HyperLR], values[graph.HyperGrad] = lr, 1
			values[graph.HyperBias1], values[graph.HyperBias2] = 1-math.Pow(beta1, float64(s+1)), 1-math.Pow(beta2, float64(s+1))
			if err := x.WriteF64("hyper", 0, values); err != nil {
				t.Fatal(err)
			}
			if err := x.WriteF64("g", 0, grads[s*n:(s+1)*n]); err != nil {
				t.Fatal(err)
			}
			h.run(device.Args{})
			for _, name := range states {
				want := g.floats64(op + ".output." + name)
				golden.Close(t, fmt.Sprintf("%s: %s after step %d", op, name, s+1), h.floats(name, graph.F(graph.D(n)), g.G.Bounds), want[s*n:(s+1)*n], goldenTolerance)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGoldenClip compares the global norm and the clipped gradients.
func TestGoldenClip(t *testing.T) {
	for op, limit := range map[string]float32{"clip": 1, "clip_idle": 100} {
		g := newGolds(t, op)
		var sums []graph.Value
		for i, n := range []int{21, 11, 10} {
			sums = append(sums, g.Apply(graph.SumSquares{}, g.param(fmt.Sprint(i), n))[0])
		}
		hyper := make([]float64, graph.HyperLen)
		hyper[graph.HyperGrad] = 1
		for _, o := range g.Apply(graph.ClipScale{Max: limit}, append(sums, g.input("hyper", hyper, graph.F(graph.D(graph.HyperLen))))...) {
			g.check(o, exact)
		}
		h := openOn(t, ref.New(ref.F64), g.job(t))
		h.fill(g.rig)
		h.run(device.Args{})
		one := graph.F(graph.D(1))
		scale, norm := h.floats(g.outs[0].name, one, g.G.Bounds)[0], h.floats(g.outs[1].name, one, g.G.Bounds)
		want := g.floats64(op + ".output.norm")
		golden.Close(t, op+": norm", norm, want, goldenTolerance)
		for i := range 3 {
			got := g.datum(fmt.Sprint(i)).f
			for j := range got {
				got[j] *= scale
			}
			want := g.floats64(fmt.Sprint(op, ".output.", i))
			golden.Close(t, fmt.Sprint(op, ": gradient ", i), got, want, goldenTolerance)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
