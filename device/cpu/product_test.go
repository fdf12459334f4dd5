package cpu_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
)

// storedJob is products of f32 rows with one weight of type ty, among them two in a row with the same rows, and one of an odd shape.
func storedJob(t testing.TB, ty dtype.Type, f, k, rows int) *compile.Job {
	t.Helper()
	b, load := graph.NewBuilder("test", graph.Bounds{Rows: rows, Outs: 1}), graph.NewBuilder("load", graph.Bounds{})
	weight := func(name string, dims ...graph.Dim) graph.Value {
		wt := graph.Type{DType: ty, Shape: graph.S(dims...)}
		load.Apply(graph.Restore{}, load.State(name, wt, mem.Weights))
		return b.State(name, wt, mem.Weights)
	}
	x := b.Input("x", graph.F(graph.R(1), graph.D(k)))
	b.Output("y", b.MatMul(x, weight("w", graph.D(f), graph.D(k))))
	b.Output("z", b.Linear(x, weight("v", graph.D(f), graph.D(k)), b.Input("bias", graph.F(graph.D(f)))))
	offsets := b.Input("offsets", graph.I(graph.D(3)))
	b.Output("e", b.GroupedMatMul(b.Input("sorted", graph.F(graph.D(6), graph.D(k))), weight("experts", graph.D(2), graph.D(f), graph.D(k)), offsets))
	var programs []*compile.Program
	for _, g := range []*graph.Graph{b.G, load.G} {
		p, err := compile.Step(g, compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
	}
	var fixed mem.Usage
	fixed.Add(mem.Device, mem.Workspace, cpu.New(cpu.Options{Threads: 1, Set: kernel.Best()}).Scratch(programs))
	job, err := compile.NewJob(fixed, programs...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// floatBytes is n normal numbers as f32.
func floatBytes(t testing.TB, r *rand.Rand, n int, format quant.Type) []byte {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	size, _ := format.Bytes(int64(n))
	b := make([]byte, size)
	if err := quant.Encode(b, format, x); err != nil {
		t.Fatal(err)
	}
	return b
}

// openStored opens, fills and restores the job.
func openStored(t testing.TB, job *compile.Job, o cpu.Options, ty dtype.Type, f, k, rows int) device.Session {
	t.Helper()
	l := mem.NewLedger(mem.Limits{})
	s, err := cpu.New(o).Open(job, device.Env{Ledger: l})
	if err != nil {
		t.Fatal(err)
	}
	if o.Threads == 1 {
		if err := job.Plan().Check(l.Peak()); err != nil {
			t.Error(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct {
		name string
		n    int
	}{{"x", rows * k}, {"bias", f}, {"sorted", 6 * k}} {
		if err := s.Write(x.name, 0, floatBytes(t, r, x.n, quant.F32)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write("offsets", 0, []byte{0, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	format, _ := quant.Of(ty)
	files := map[string][]byte{"w": floatBytes(t, r, f*k, format), "v": floatBytes(t, r, f*k, format), "experts": floatBytes(t, r, 2*f*k, format)}
	err = s.Run("load", device.Args{Source: func(state string, p []byte) error {
		n := copy(p, files[state])
		files[state] = files[state][n:]
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStoredProductsAreTheSameBits compares threads and instruction sets; the products allocate nothing, and what is open is what was
// planned.
func TestStoredProductsAreTheSameBits(t *testing.T) {
	for _, ty := range []dtype.Type{dtype.F16, dtype.Q4_0, dtype.Q4_K, dtype.Q6_K} {
		for _, shape := range [][3]int{{259, 256, 37}, {24, 768, 3}, {700, 512, 1}} {
			f, k, rows := shape[0], shape[1], shape[2]
			t.Run(fmt.Sprintf("%v (%d,%d) %d", ty, f, k, rows), func(t *testing.T) {
				job := storedJob(t, ty, f, k, rows)
				var want [3][]byte
				for _, o := range []cpu.Options{{Threads: 1, Set: kernel.Generic()}, {Threads: 1, Set: kernel.Best()}, {Threads: 2, Set: kernel.Best()}, {Threads: 5, Set: kernel.Best()}} {
					s := openStored(t, job, o, ty, f, k, rows)
					run := func() {
						if err := s.Run("test", device.Args{}); err != nil {
							t.Fatal(err)
						}
					}
					run()
					for i, name := range []string{"y", "z", "e"} {
						got := make([]byte, 4*f*[]int{rows, rows, 6}[i])
						if err := s.Read(name, 0, got); err != nil {
							t.Fatal(err)
						}
						if want[i] == nil {
							want[i] = got
						}
						if !bytes.Equal(got, want[i]) {
							t.Errorf("%s: %d threads of %s differ from one of the generic set", name, o.Threads, o.Set.Name())
						}
					}
					if o.Set == kernel.Best() {
						if n := testing.AllocsPerRun(5, run); n > 0 {
							t.Errorf("%d threads: %v allocations a run", o.Threads, n)
						}
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestPlainUseOfAWeightIsRefused: a State of f16 that something else reads lies as in a file, which products of f32 rows do not take.
func TestPlainUseOfAWeightIsRefused(t *testing.T) {
	half := graph.Type{DType: dtype.F16, Shape: graph.S(graph.D(16), graph.D(32))}
	b := graph.NewBuilder("test", graph.Bounds{Rows: 1, Outs: 1})
	w := b.State("w", half, mem.Weights)
	b.Output("y", b.MatMul(b.Input("x", graph.F(graph.R(1), graph.D(32))), w))
	b.Output("z", b.Add(w, w))
	p, err := compile.Step(b.G, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	job, err := compile.NewJob(mem.Usage{}, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cpu.New(cpu.Options{Threads: 1, Set: kernel.Best()}).Open(job, device.Env{Ledger: mem.NewLedger(mem.Limits{})}); err == nil {
		t.Error("want an error")
	}
}
