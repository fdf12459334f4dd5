package devicetest

import (
	"fmt"
	"math"
	"testing"

	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/internal/golden"
	"loadline/mem"
)

// updatesFile holds what testdata/updates.py computed.
const updatesFile = "testdata/updates.safetensors"

// goldenUpdates are optimizers on one weight: its axes, the names of its moments, and the update.
var goldenUpdates = []struct {
	op      string
	dims    []graph.Dim
	moments []string
	update  func(g *golds, w, d, hyper graph.Value, moments []graph.Value)
}{
	{"lion", []graph.Dim{graph.D(37)}, []string{"m"}, func(g *golds, w, d, hyper graph.Value, m []graph.Value) {
		g.Apply(graph.Lion{Beta1: 0.9, Beta2: 0.99, Decay: 0.1}, w, d, m[0], hyper, graph.None)
	}},
	{"sgd_nesterov", []graph.Dim{graph.D(37)}, []string{"buf"}, func(g *golds, w, d, hyper graph.Value, m []graph.Value) {
		g.Apply(graph.SGD{Momentum: 0.9, Nesterov: true}, w, d, m[0], hyper, graph.None)
	}},
	{"sgd_decay", []graph.Dim{graph.D(37)}, []string{"buf"}, func(g *golds, w, d, hyper graph.Value, m []graph.Value) {
		g.Apply(graph.SGD{Momentum: 0.9, Decay: 0.1}, w, d, m[0], hyper, graph.None)
	}},
	{"adafactor", []graph.Dim{graph.D(7), graph.D(13)}, []string{"row", "col"}, adafactorStep},
	{"adafactor_experts", []graph.Dim{graph.D(3), graph.D(5), graph.D(11)}, []string{"row", "col"}, adafactorStep},
	{"adafactor_vector", []graph.Dim{graph.D(37)}, []string{"row"}, adafactorStep},
}

func adafactorStep(g *golds, w, d, hyper graph.Value, m []graph.Value) {
	o := graph.AdafactorUpdate{Decay: 0.1}
	col, c := graph.None, graph.None
	if len(m) > 1 {
		s := g.G.Info(w).Type.Shape
		o.Rows, o.Cols, col = s.Dims[s.N-2].N, s.Last(), m[1]
	}
	f := g.Apply(graph.AdafactorMoments{}, d, m[0], col, hyper, graph.None)
	if len(m) > 1 {
		c = f[3]
	}
	g.Apply(o, w, d, f[1], c, hyper)
}

// TestGoldenOptimizers takes six steps of each optimizer, and compares the weight and every moment after each.
func TestGoldenOptimizers(t *testing.T) {
	for _, c := range goldenUpdates {
		g := goldsOf(t, updatesFile, c.op)
		start, grads := g.floats64(c.op+".input.param"), g.floats64(c.op+".input.grads")
		n := len(start)
		w := g.state("params", start, mem.Weights, c.dims...)
		d := g.input("g", make([]float64, n), graph.F(c.dims...))
		hyper := g.input("hyper", make([]float64, graph.HyperLen), graph.F(graph.D(graph.HyperLen)))
		types := map[string]graph.Type{"params": graph.F(c.dims...)}
		var moments []graph.Value
		for i, name := range c.moments {
			types[name] = types["params"]
			switch row, col := graph.AdafactorTypes(types["params"]); {
			case name == "row":
				types[name] = row
			case i == 1:
				types[name] = col
			}
			moments = append(moments, g.stateOf(name, make([]float64, types[name].Shape.Elems(g.G.Bounds)), mem.OptimState, types[name]))
		}
		c.update(g, w, d, hyper, moments)
		h := openOn(t, ref.New(ref.F64), g.job(t))
		h.fill(g.rig)
		x := h.Session.(ref.Exact)
		for s := range len(grads) / n {
			values := make([]float64, graph.HyperLen)
			values[graph.HyperLR], values[graph.HyperGrad], values[graph.HyperDecay2] = 0.01, 1, 1-math.Pow(float64(s+1), -0.8)
			if err := x.WriteF64("hyper", 0, values); err != nil {
				t.Fatal(err)
			}
			if err := x.WriteF64("g", 0, grads[s*n:(s+1)*n]); err != nil {
				t.Fatal(err)
			}
			h.run(device.Args{})
			for name, ty := range types {
				want := g.floats64(c.op + ".output." + name)
				k := int(ty.Shape.Elems(g.G.Bounds))
				golden.Close(t, fmt.Sprintf("%s: %s after step %d", c.op, name, s+1), h.floats(name, ty, g.G.Bounds), want[s*k:(s+1)*k], goldenTolerance)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
