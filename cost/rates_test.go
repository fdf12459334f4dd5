package cost

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"loadline/graph"
	"loadline/tensor/dtype"
)

// Fit finds the rates that samples were made with, whatever their order, and never a negative one.
func TestFitFindsRates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	want := []Rate{
		{Key: "a/f32", Fixed: 3e-6, FLOP: 1e-11, Byte: 2e-10, Row: 1e-9}, {Key: "b/bf16", Byte: 1e-10}, {Key: "c/f32", Fixed: 5e-6}, {Key: "d/f32", FLOP: 4e-11, Row: 2e-8},
		{Key: "e/f32", Byte: 1e-10, Far: 3e-10}, {Key: "product/f32", FLOP: 1e-11, Left: 1e-10, Result: 5e-11},
	}
	keys := []Key{{"a", dtype.F32}, {"b", dtype.BF16}, {"c", dtype.F32}, {"d", dtype.F32}, {"e", dtype.F32}, {"product", dtype.F32}}
	var samples []Sample
	for i, k := range keys {
		for range 12 {
			s := Sample{Key: k, Work: Work{FLOPs: math.Exp(10 + 10*rng.Float64()), Moved: math.Exp(8 + 10*rng.Float64()), Rows: math.Exp(4 + 8*rng.Float64())}}
			if k.Kind == "product" {
				s.Left, s.Right, s.Result = s.Moved, math.Exp(8+10*rng.Float64()), math.Exp(8+10*rng.Float64())
			}
			s.Seconds = want[i].Seconds(s.Work)
			samples = append(samples, s)
		}
	}
	samples = append(samples, Sample{Key: keys[0], Work: Work{FLOPs: 1}}) // not measured
	got := Fit(samples)
	slices.Reverse(samples)
	again := Fit(samples)
	if len(got.List) != len(want) {
		t.Fatalf("got %d rates, want %d", len(got.List), len(want))
	}
	for i, r := range got.List {
		w := want[i]
		same := r.Key == w.Key
		for j, p := range r.Parts() {
			same = same && near(p, w.Parts()[j])
		}
		if !same {
			t.Errorf("got %+v, want %+v", r, w)
		}
		if again.List[i] != r {
			t.Errorf("reversed: got %+v, want %+v", again.List[i], r)
		}
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-5*want+1e-15 }

// Samples that disagree give no negative part, and errors on both sides.
func TestFitOfNoise(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var samples []Sample
		for range 2 + rng.IntN(6) {
			f := math.Exp(20 * rng.Float64())
			samples = append(samples, Sample{Key{"a", dtype.F32}, Work{FLOPs: f, Moved: f * rng.Float64(), Rows: rng.Float64()}, 1e-9 * f * rng.Float64()})
		}
		r := Fit(samples).List[0]
		if !(r.Fixed >= 0 && r.FLOP >= 0 && r.Byte >= 0 && r.Row >= 0 && r.Fixed+r.FLOP+r.Byte+r.Row > 0) {
			t.Fatalf("seed %d: got %+v", seed, r)
		}
		above, below := false, false
		for _, s := range samples {
			d := r.Seconds(s.Work) - s.Seconds
			above, below = above || d >= -1e-9*s.Seconds, below || d <= 1e-9*s.Seconds
		}
		if !above || !below {
			t.Fatalf("seed %d: every sample is on one side of %+v", seed, r)
		}
	}
}

// One size alone is taken to scale.
func TestFitOfOneSize(t *testing.T) {
	s := Sample{Key{"a", dtype.F32}, Work{FLOPs: 1e6, Moved: 1e5, Rows: 100}, 1e-3}
	if r := Fit([]Sample{s, s}).List[0]; !near(r.Seconds(Work{FLOPs: 2e6, Moved: 2e5, Rows: 200}), 2e-3) {
		t.Errorf("twice the work: got %v, want 2 ms", r.Seconds(Work{FLOPs: 2e6, Moved: 2e5, Rows: 200}))
	}
}

// An operation's time comes from the rate of its kind and type, from f32's where that is missing, and else from the roofline.
func TestOpTakesTheRateOfItsKind(t *testing.T) {
	b := graph.NewBuilder("test", graph.Bounds{Rows: 64})
	x, w := b.Input("x", graph.F(graph.R(1), graph.D(32))), b.Input("w", graph.F(graph.D(16), graph.D(32)))
	b.MatMul(x, w)
	b.Add(x, x)
	narrow := graph.Type{DType: dtype.BF16, Shape: graph.S(graph.R(1), graph.D(32))}
	y := b.Input("y", narrow)
	b.Add(y, y)
	m := Machine{FLOPs: 1e9, Bandwidth: 1e9, Overhead: 1, Rates: &Rates{List: []Rate{{Key: "add/f32", Fixed: 7}}}}
	g := b.G
	for i, want := range []float64{m.Seconds(g.Ops[0].FLOPs, g.Ops[0].Moved), 7, 7} {
		if got := m.Op(g, &g.Ops[i]); got != want {
			t.Errorf("operation %d: got %v, want %v", i, got, want)
		}
	}
	m.Rates.List = []Rate{{Key: "add/bf16", Fixed: 5}, {Key: "add/f32", Fixed: 7}}
	if got := m.Op(g, &g.Ops[2]); got != 5 {
		t.Errorf("bf16: got %v, want 5", got)
	}
	b.Linear(x, w, b.Input("bias", graph.F(graph.D(16))))
	m.Rates.List = []Rate{{Key: "matmul+bias/bf16", Fixed: 9}, {Key: "matmul/f32", Fixed: 3}}
	if got := m.Op(g, &g.Ops[3]); got != 3 {
		t.Errorf("with a bias that was not measured: got %v, want 3", got)
	}
	m.Rates.List = []Rate{{Key: "matmul+bias/f32", Fixed: 9}, {Key: "matmul/f32", Fixed: 3}}
	if got := m.Op(g, &g.Ops[3]); got != 9 {
		t.Errorf("with a bias: got %v, want 9", got)
	}
}
