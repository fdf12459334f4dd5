package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/compile"
	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
)

// preset returns a named preset.
func mustPreset(t testing.TB, name string) (Config, TrainDefaults) {
	t.Helper()
	c, d, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return c, d
}

// compiled turns a graph into a verified program.
func compiled(t testing.TB, g *graph.Graph) *compile.Program {
	t.Helper()
	p, err := compile.Step(g, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	if err := compile.Verify(p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Every graph of a configuration compiles, and together they are a job: States agree in name and type.
func TestGraphsOfAJob(t *testing.T) {
	for _, name := range Presets() {
		c, td := mustPreset(t, name)
		for _, o := range []TrainOptions{
			{Name: "step", Batch: td.Batch, Seq: td.Seq},
			{Name: "step", Batch: 1, Seq: 51, Standard: true, Dropout: 0.1},
		} {
			build := func(f func(Config, TrainOptions) (*graph.Graph, error), name string) *graph.Graph {
				o.Name = name
				g, err := f(c, o)
				if err != nil {
					t.Fatal(err)
				}
				return compile.Fuse(g, compile.FuseOptions{Chunk: 128})
			}
			steps, err := compile.Train(build(TrainGraph, "step"), compile.TrainOptions{Clip: 1, Accumulate: 2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8})
			if err != nil {
				t.Fatal(err)
			}
			states := StoredStates(steps...)
			if got, want := len(states), 3*len(c.Parameters()); got != want {
				t.Errorf("%s: got %d stored states, want %d: weights and both moments", name, got, want)
			}
			pass, err := PassGraph(c, PassOptions{Name: "pass", MaxRows: 32, MaxOuts: 4, MaxSeqs: 4, Blocks: 10, BlockSize: 16, Context: 100, MaxCopies: 2})
			if err != nil {
				t.Fatal(err)
			}
			graphs := append(steps, build(EvalGraph, "eval"), pass, SaveGraph("save", states...), RestoreGraph("resume", states...))
			var programs []*compile.Program
			for _, g := range graphs {
				programs = append(programs, compiled(t, g))
			}
			if _, err := compile.NewJob(mem.Usage{}, programs...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Building twice gives the same graph.
func TestBuildingIsDeterministic(t *testing.T) {
	c, _ := mustPreset(t, "moe-tiny")
	build := func() string {
		g, err := TrainGraph(c, TrainOptions{Name: "step", Batch: 2, Seq: 32})
		if err != nil {
			t.Fatal(err)
		}
		return compiled(t, g).Text()
	}
	if d := cmp.Diff(build(), build()); d != "" {
		t.Error(d)
	}
}
