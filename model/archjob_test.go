package model

import (
	"slices"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/internal/golden"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
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

// Weights stored in bf16 give the logits of the same weights in f32, and those in blocks of eight bits nearly so; keys and values in
// narrow types too.
func TestArchitecturesStored(t *testing.T) {
	for _, name := range arches(t) {
		t.Run(name, func(t *testing.T) {
			a := loadArch(t, name)
			base := a.stored(t, dtype.BF16, dtype.F32, dtype.F32)
			for _, x := range []struct {
				weights, as, kv dtype.Type
				rel             float64
			}{{dtype.BF16, dtype.BF16, dtype.F32, 1e-5}, {dtype.BF16, dtype.BF16, dtype.F16, 5e-3}, {dtype.Q8_0, dtype.Q8_0, dtype.F32, 0.1}} {
				if x.rel > 1e-3 && a.c.MoE() {
					continue // another expert may be chosen
				}
				want := base
				if x.weights != dtype.BF16 {
					want = a.stored(t, x.weights, dtype.F32, dtype.F32)
				}
				if worst := golden.Close(t, x.as.String(), a.stored(t, x.weights, x.as, x.kv), want, x.rel); worst == 0 && x.kv != dtype.F32 {
					t.Errorf("%v keys and values change nothing", x.kv)
				}
			}
		})
	}
}

// stored is the logits with matrices rounded to one type and stored as another.
func (a archCase) stored(t *testing.T, rounded, as, kv dtype.Type) []float32 {
	t.Helper()
	o := a.pass()
	o.Types, o.KVTypes = map[string]dtype.Type{}, [2]dtype.Type{kv, kv}
	data := map[string][]byte{}
	for _, p := range a.c.Parameters() {
		v := make([]float32, p.Elems())
		move(p, 0, v, func(name string, _ []int) []float32 {
			x, _ := a.weights.F32(name)
			return x
		}, func(v, f *float32) { *v = *f })
		to, from := dtype.F32, rounded
		if p.Matrix() {
			if p.Type.Shape.Last()%from.BlockElems() != 0 {
				from = dtype.BF16
			}
			b := encodedAs(t, v, from)
			decodedFrom(t, v, from, b)
			if as != dtype.F32 {
				to = from
			}
			o.Types[p.Name] = to
		}
		data[p.Name] = encodedAs(t, v, to)
	}
	g, err := PassGraph(a.c, o)
	if err != nil {
		t.Fatal(err)
	}
	r := openOn(t, cpu.New(cpu.Options{Set: kernel.Best(), Threads: 2}), g, RestoreGraph("load", StoredStates(g)...))
	at := map[string]int{}
	r.run("load", device.Args{Source: func(state string, b []byte) error {
		at[state] += copy(b, data[state][at[state]:])
		return nil
	}})
	return a.logits(r, o, a.seq)
}

func storage(t *testing.T, d dtype.Type) quant.Type {
	t.Helper()
	q, err := quant.Parse(d.String())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func encodedAs(t *testing.T, v []float32, d dtype.Type) []byte {
	t.Helper()
	q := storage(t, d)
	n, _ := q.Bytes(int64(len(v)))
	b := make([]byte, n)
	if err := quant.Encode(b, q, v); err != nil {
		t.Fatal(err)
	}
	return b
}

func decodedFrom(t *testing.T, v []float32, d dtype.Type, b []byte) {
	t.Helper()
	quant.Decode(v, storage(t, d), b)
}
