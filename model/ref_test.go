package model

import (
	"encoding/binary"
	"math"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/internal/golden"
	"loadline/mem"
)

// runner is a job on a device.
type runner struct {
	t testing.TB
	s device.Session
}

// open runs graphs as one job on the reference device.
func open(t testing.TB, graphs ...*graph.Graph) *runner {
	t.Helper()
	return openOn(t, ref.New(ref.F32), graphs...)
}

// openOn runs graphs as one job.
func openOn(t testing.TB, dev device.Device, graphs ...*graph.Graph) *runner {
	t.Helper()
	var programs []*compile.Program
	for _, g := range graphs {
		programs = append(programs, compiled(t, g))
	}
	return openPrograms(t, dev, programs...)
}

// openPrograms runs programs as one job.
func openPrograms(t testing.TB, dev device.Device, programs ...*compile.Program) *runner {
	t.Helper()
	job, err := compile.NewJob(mem.Usage{}, programs...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.Open(job, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &runner{t, s}
}

func (r *runner) ints(name string, v ...int32) {
	r.t.Helper()
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	if err := r.s.Write(name, 0, b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *runner) floats(name string, v ...float32) {
	r.t.Helper()
	bits := make([]int32, len(v))
	for i, x := range v {
		bits[i] = int32(math.Float32bits(x))
	}
	r.ints(name, bits...)
}

func (r *runner) read(name string, n int) []float32 {
	r.t.Helper()
	b := make([]byte, 4*n)
	if err := r.s.Read(name, 0, b); err != nil {
		r.t.Fatal(err)
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func (r *runner) run(name string, a device.Args) {
	r.t.Helper()
	if err := r.s.Run(name, a); err != nil {
		r.t.Fatal(err)
	}
}

// load fills the weights from published tensors.
func (r *runner) load(c Config, weights *golden.Set) {
	r.t.Helper()
	for _, p := range c.Parameters() {
		dst := make([]float32, p.Elems())
		move(p, 0, dst, func(name string, shape []int) []float32 {
			v, got := weights.F32(name)
			if elems(got) != elems(shape) || got[0] != shape[0] {
				r.t.Fatalf("%s: file has %v, want %v", name, got, shape)
			}
			return v
		}, func(a, f *float32) { *a = *f })
		r.floats(p.Name, dst...)
	}
}

// move calls copy for every element of v, which are elements at and on of p, and its place in a published tensor.
func move(p Param, at int, v []float32, published func(name string, shape []int) []float32, copy func(v, f *float32)) {
	p.Runs(at, len(v), func(x Run) bool {
		f := published(p.Pieces[x.Piece].Name, p.Pieces[x.Piece].Shape)
		for i := range x.N {
			copy(&v[x.Range+i*x.Stride], &f[x.At+i])
		}
		return true
	})
}

// static fills what TrainGraph's inputs always hold.
func (r *runner) static(o TrainOptions) {
	r.t.Helper()
	n := o.Batch * o.Seq
	positions, sequences, table := make([]int32, n), make([]int32, n), make([]int32, n/o.KVBlock())
	FillStatic(o, 0, positions, sequences, table)
	r.ints(PositionsInput, positions...)
	r.ints(SequencesInput, sequences...)
	r.ints(TableInput, table...)
	r.floats(LossWeightInput, 1/float32(n))
}

const goldenDir = "testdata/golden/"

// find returns the Temp named name.
func find(t testing.TB, g *graph.Graph, name string) graph.Value {
	t.Helper()
	for v := range g.Values {
		if g.Values[v].Name == name && g.Values[v].Kind == graph.Temp {
			return graph.Value(v)
		}
	}
	t.Fatalf("graph %q: no value %q", g.Name, name)
	return graph.None
}

// peerRel is the bound on max|got−want| / max|want| against PyTorch in float32, whose own distance from float64 is below 2e-6.
const peerRel = 1e-4

// Logits, loss and every gradient are those of transformers.
func TestAgainstPyTorch(t *testing.T) {
	for _, name := range []string{"dense", "dense_untied", "moe", "gpt2"} {
		for _, o := range []TrainOptions{{Name: "flash"}, {Name: "standard", Standard: true, Block: 6}, {Name: "fused"}} {
			t.Run(name+"/"+o.Name, func(t *testing.T) { againstPyTorch(t, goldenDir+name+"/", o) })
		}
	}
}

func againstPyTorch(t *testing.T, dir string, o TrainOptions) {
	c, err := ReadConfig(dir + "config.json")
	if err != nil {
		t.Fatal(err)
	}
	weights, want, wantGrads := golden.Load(t, dir+"weights.safetensors"), golden.Load(t, dir+"activations.safetensors"), golden.Load(t, dir+"grads.safetensors")
	tokens, shape := want.I32("tokens")
	targets, _ := want.I32("targets")
	o.Batch, o.Seq = shape[0], shape[1]
	g, err := TrainGraph(c, o)
	if err != nil {
		t.Fatal(err)
	}
	fused := o.Name == "fused"
	if fused {
		g = compile.Fuse(g, compile.FuseOptions{Chunk: 128})
	} else {
		graph.Edit(g).Output("logits", find(t, g, "logits"))
	}
	b := graph.Edit(g)
	grads := b.Differentiate(nil, nil)
	for _, p := range c.Parameters() {
		d := grads[g.Find(p.Name)]
		if d == graph.None {
			t.Fatalf("%s: no gradient", p.Name)
		}
		b.Output("grad."+p.Name, d)
	}
	r := open(t, g)
	r.load(c, weights)
	r.static(o)
	r.ints(TokensInput, tokens...)
	r.ints(TargetsInput, targets...)
	r.run(o.Name, device.Args{})

	loss, _ := want.F32("loss")
	worst := golden.Close(t, "loss", r.read("loss", 1), loss, peerRel)
	if !fused {
		logits, _ := want.F32("logits")
		worst = max(worst, golden.Close(t, "logits", r.read("logits", len(logits)), logits, peerRel))
	}
	got := map[string][]float32{}
	for _, p := range c.Parameters() {
		d := r.read("grad."+p.Name, p.Elems())
		const chunk = 1000 // as a checkpoint is written: in pieces that cut rows
		for at := 0; at < len(d); at += chunk {
			move(p, at, d[at:min(at+chunk, len(d))], func(name string, shape []int) []float32 {
				if got[name] == nil {
					got[name] = make([]float32, elems(shape))
				}
				return got[name]
			}, func(a, f *float32) { *f = *a })
		}
	}
	if len(got) != len(wantGrads.Names()) {
		t.Errorf("got %d published gradients, want %d", len(got), len(wantGrads.Names()))
	}
	for _, name := range wantGrads.Names() {
		w, _ := wantGrads.F32(name)
		worst = max(worst, golden.Close(t, "grad of "+name, got[name], w, peerRel))
	}
	t.Logf("worst of %d tensors: %.2g of its largest value", len(got)+2, worst)
}
