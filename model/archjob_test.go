package model

import (
	"slices"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// stepped compiles g under options.
func stepped(t testing.TB, g *graph.Graph, o compile.Options) *compile.Program {
	t.Helper()
	o.Machine = cost.Laptop2()
	p, err := compile.Step(g, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := compile.Verify(p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Recomputing what an architecture makes, all of it or its norms and scores alone, changes no bit of a gradient.
func TestArchitecturesRecompute(t *testing.T) {
	for _, name := range arches(t) {
		t.Run(name, func(t *testing.T) {
			a := loadArch(t, name)
			grads := func(r compile.Recompute) (out []float32) {
				o := TrainOptions{Name: "step", Batch: a.seqs, Seq: a.seq}
				g, err := TrainGraph(a.c, o)
				if err != nil {
					t.Fatal(err)
				}
				b := graph.Edit(g)
				d := b.Differentiate(nil, nil)
				for _, p := range a.c.Parameters() {
					b.Output("grad."+p.Name, d[g.Find(p.Name)])
				}
				run := openPrograms(t, cpu.New(cpu.Options{Set: kernel.Best(), Threads: 2}), stepped(t, g, compile.Options{Recompute: r}))
				run.load(a.c, a.weights)
				run.static(o)
				run.ints(TokensInput, a.tokens...)
				run.ints(TargetsInput, a.targets...)
				run.run("step", device.Args{})
				for _, p := range a.c.Parameters() {
					out = append(out, run.read("grad."+p.Name, p.Elems())...)
				}
				return out
			}
			want := grads(compile.Recompute{})
			for _, r := range []compile.Recompute{{Policy: compile.Full}, {Policy: compile.Tags, Tags: []string{"norm", "attn.rope", "attn.core"}}} {
				if !slices.Equal(grads(r), want) {
					t.Errorf("recompute %v: other gradients", r)
				}
			}
		})
	}
}

// Steps of every architecture with accumulation and clipping, in f32 and bf16, are a job with its evaluation and saving.
func TestArchitecturesJobs(t *testing.T) {
	for _, name := range arches(t) {
		for _, compute := range []dtype.Type{dtype.F32, dtype.BF16} {
			c := loadArch(t, name).c
			build := func(f func(Config, TrainOptions) (*graph.Graph, error), name string) *graph.Graph {
				g, err := f(c, TrainOptions{Name: name, Batch: 2, Seq: 24, Dropout: 0.1})
				if err != nil {
					t.Fatal(err)
				}
				g, err = compile.Autocast(compile.Fuse(g, compile.FuseOptions{Chunk: 128}), compile.AutocastOptions{Compute: compute})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			steps, err := compile.Train(build(TrainGraph, "step"), compile.TrainOptions{Clip: 1, Accumulate: 2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8})
			if err != nil {
				t.Fatal(err)
			}
			states := StoredStates(steps...)
			var programs []*compile.Program
			for _, g := range append(steps, build(EvalGraph, "eval"), SaveGraph("save", states...), RestoreGraph("resume", states...)) {
				programs = append(programs, stepped(t, g, compile.Options{Recompute: compile.Recompute{Policy: compile.Full}}))
			}
			job, err := compile.NewJob(mem.Usage{}, programs...)
			if err != nil {
				t.Errorf("%s in %v: %v", name, compute, err)
				continue
			}
			s, err := cpu.New(cpu.Options{Set: kernel.Best(), Threads: 1}).Open(job, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
			if err != nil {
				t.Errorf("%s in %v: %v", name, compute, err)
				continue
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
