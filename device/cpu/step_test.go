package cpu_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// shape is a small decoder and its batch.
type shape struct {
	layers, d, heads, kv, ff, vocab, seqs, time, chunk int
	standard                                           bool // standard attention, GELU, LayerNorm and plain cross entropy
	compute                                            dtype.Type
}

var small = shape{layers: 2, d: 24, heads: 4, kv: 2, ff: 40, vocab: 50, seqs: 3, time: 70, chunk: 128}

// training builds a training graph of s.
func training(t testing.TB, s shape) *graph.Graph {
	t.Helper()
	n := s.seqs * s.time
	b := graph.NewBuilder("step", graph.Bounds{Rows: n, Outs: n})
	k := s.d / s.heads
	tokens, pos, seq := b.Input("tokens", graph.I(graph.R(1))), b.Input("pos", graph.I(graph.R(1))), b.Input("seq", graph.I(graph.R(1)))
	targets, weight := b.Input("targets", graph.I(graph.R(1))), b.Input("weight", graph.F(graph.D(1)))
	table := b.Input("table", graph.I(graph.D(s.seqs), graph.D(1)))
	pg := graph.Paging{Table: table, Seq: seq, Pos: pos}
	spec := graph.AttentionSpec{Heads: s.heads, KVHeads: s.kv, HeadDim: k, Block: s.time, Context: s.time}
	w := func(name string, dims ...int) graph.Value {
		var ds []graph.Dim
		for _, d := range dims {
			ds = append(ds, graph.D(d))
		}
		return b.Param(name, graph.F(ds...))
	}
	norm := func(x graph.Value, name string) graph.Value {
		if s.standard {
			return b.LayerNorm(x, w(name, s.d), w(name+".b", s.d), 1e-5)
		}
		return b.RMSNorm(x, w(name, s.d), 1e-5)
	}
	emb := w("embed", s.vocab, s.d)
	x := b.Embedding(tokens, emb)
	for l := range s.layers {
		b.Part(l, "attn", func() {
			h := norm(x, fmt.Sprint("norm1.", l))
			q := b.Rope(b.MatMul(h, w(fmt.Sprint("q.", l), s.d, s.d)), pos, s.heads, k, 10000)
			ke := b.Rope(b.MatMul(h, w(fmt.Sprint("k.", l), s.kv*k, s.d)), pos, s.kv, k, 10000)
			v := b.MatMul(h, w(fmt.Sprint("v.", l), s.kv*k, s.d))
			var o graph.Value
			if s.standard {
				o = b.StandardAttention(q, ke, v, pg, spec)
			} else {
				o = b.Attention(q, ke, v, pg, spec)
			}
			x = b.Add(x, b.MatMul(o, w(fmt.Sprint("o.", l), s.d, s.d)))
		})
		b.Part(l, "mlp", func() {
			h := norm(x, fmt.Sprint("norm2.", l))
			var a graph.Value
			if s.standard {
				a = b.Gelu(b.Linear(h, w(fmt.Sprint("up.", l), s.ff, s.d), w(fmt.Sprint("up.b.", l), s.ff)), true)
			} else {
				a = b.SwiGLU(b.MatMul(h, w(fmt.Sprint("gate.", l), s.ff, s.d)), b.MatMul(h, w(fmt.Sprint("up.", l), s.ff, s.d)))
			}
			x = b.Add(x, b.MatMul(a, w(fmt.Sprint("down.", l), s.d, s.ff)))
		})
	}
	x = norm(x, "norm")
	if s.standard {
		b.SetLoss(b.CrossEntropy(b.MatMul(x, emb), targets, weight))
	} else {
		b.SetLoss(b.HeadLoss(x, emb, targets, weight, s.chunk))
	}
	return b.G
}

// step compiles a whole step of s with AdamW.
func step(t testing.TB, s shape, o compile.Options, accumulate int, clip float32) []*compile.Program {
	t.Helper()
	g, err := compile.Autocast(training(t, s), compile.AutocastOptions{Compute: s.compute})
	if err != nil {
		t.Fatal(err)
	}
	gs, err := compile.Train(g, compile.TrainOptions{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Clip: clip, Accumulate: accumulate})
	if err != nil {
		t.Fatal(err)
	}
	o.Machine = cost.Laptop2()
	var ps []*compile.Program
	for _, g := range gs {
		p, err := compile.Step(g, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := compile.Verify(p); err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	return ps
}

func ints(x ...int32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func floats(x ...float32) []byte {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// open opens ps on d and fills inputs and weights; the same seed gives the same content on every device.
func open(t testing.TB, d device.Device, s shape, ps ...*compile.Program) (device.Session, *compile.Job, *mem.Ledger) {
	t.Helper()
	var fixed mem.Usage
	fixed.Add(mem.Device, mem.Workspace, d.Scratch(ps))
	j, err := compile.NewJob(fixed, ps...)
	if err != nil {
		t.Fatal(err)
	}
	l := mem.NewLedger(mem.Limits{})
	x, err := d.Open(j, device.Env{Ledger: l, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range j.Slots {
		k := &j.Slots[i]
		n := int(k.Type.Shape.Elems(ps[0].Bounds))
		var p []byte
		switch {
		case k.Name == "weight":
			p = floats(1 / float32(n*s.seqs*s.time))
		case k.Name == "hyper":
			p = floats(1e-3, 0.1, 0.05, 1, 0, 0, 0, 0)
		case k.Kind == graph.Input:
			for j := range n {
				v := int32(rng.IntN(s.vocab))
				switch k.Name {
				case "pos":
					v = int32(j % s.time)
				case "seq":
					v = int32(j / s.time)
				case "table":
					v = int32(j)
				case "targets":
					if j%11 == 5 {
						v = -1
					}
				}
				p = append(p, ints(v)...)
			}
		case k.Purpose == mem.Weights || k.Purpose == mem.MasterWeights:
			name := fnv.New64()
			name.Write([]byte(strings.TrimPrefix(k.Name, "master.")))
			rng := rand.New(rand.NewPCG(7, name.Sum64())) // a weight is its master, rounded
			for range n {
				v := float32(rng.NormFloat64()) * 0.1
				if len(k.Type.Shape.Dims) > 0 && k.Type.Shape.N == 1 {
					v++
				}
				switch k.Type.DType {
				case dtype.BF16:
					p = binary.LittleEndian.AppendUint16(p, dtype.ToBF16(v))
				case dtype.F16:
					p = binary.LittleEndian.AppendUint16(p, dtype.ToF16(v))
				default:
					p = append(p, floats(v)...)
				}
			}
		default:
			p = make([]byte, k.Type.Bytes(graph.Bounds{}))
		}
		if err := x.Write(k.Name, 0, p); err != nil {
			t.Fatal(err)
		}
	}
	return x, j, l
}

// state returns everything that is kept, and the loss.
func state(t testing.TB, x device.Session, j *compile.Job) (out []byte, loss float32) {
	t.Helper()
	p := make([]byte, 4)
	if err := x.Read("loss", 0, p); err != nil {
		t.Fatal(err)
	}
	for i := range j.Slots {
		if k := &j.Slots[i]; k.Kind == graph.State {
			p := make([]byte, k.Type.Bytes(graph.Bounds{}))
			if err := x.Read(k.Name, 0, p); err != nil {
				t.Fatal(err)
			}
			out = append(out, p...)
		}
	}
	return append(out, p...), math.Float32frombits(binary.LittleEndian.Uint32(p))
}

func run(t testing.TB, x device.Session, name string, times int) {
	t.Helper()
	for range times {
		if err := x.Run(name, device.Args{}); err != nil {
			t.Fatal(err)
		}
	}
}

func closed(t testing.TB, x device.Session, l *mem.Ledger) {
	t.Helper()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if n := l.InUse().All(); n != 0 {
		t.Errorf("%v booked after Close", n)
	}
}

// precisions are shapes in every compute type.
func precisions(shapes map[string]shape) map[string]shape {
	all := map[string]shape{}
	for name, s := range shapes {
		for _, s.compute = range []dtype.Type{dtype.F32, dtype.BF16, dtype.F16} {
			all[fmt.Sprintf("%s %v", name, s.compute)] = s
		}
	}
	return all
}

// devices are every set with one and two threads.
func devices() map[string]device.Device {
	m := map[string]device.Device{}
	for _, k := range kernel.Sets() {
		for _, n := range []int{1, 2, 3} {
			m[fmt.Sprintf("%s/%d", k.Name(), n)] = cpu.New(cpu.Options{Threads: n, Set: k})
		}
	}
	return m
}

func TestStepAgainstReference(t *testing.T) {
	standard := small
	standard.standard = true
	for name, s := range precisions(map[string]shape{"flash": small, "standard": standard}) {
		tol := map[dtype.Type]float64{dtype.F32: 2e-5, dtype.BF16: 0x1p-8, dtype.F16: 0x1p-11}[s.compute]
		ps := step(t, s, compile.Options{}, 1, 1)
		x, j, l := open(t, ref.New(ref.F64), s, ps...)
		run(t, x, "step", 3)
		want, wantLoss := state(t, x, j)
		closed(t, x, l)
		for dn, d := range devices() {
			x, j, l := open(t, d, s, ps...)
			run(t, x, "step", 3)
			got, loss := state(t, x, j)
			closed(t, x, l)
			if math.Abs(float64(loss-wantLoss)) > tol*float64(wantLoss) {
				t.Errorf("%s on %s: loss %v, want %v", name, dn, loss, wantLoss)
			}
			if s.compute != dtype.F32 { // Adam turns what roundings make of tiny gradients into whole steps
				continue
			}
			var worst float64
			for i := 0; i < len(got); i += 4 {
				g, w := math.Float32frombits(binary.LittleEndian.Uint32(got[i:])), math.Float32frombits(binary.LittleEndian.Uint32(want[i:]))
				if d := math.Abs(float64(g - w)); d > worst || d != d {
					worst = d
				}
			}
			// three updates of 1e-3 each, where Adam turns tiny gradients into whole steps
			if !(worst < 1e-3) {
				t.Errorf("%s on %s: a state is off by %v", name, dn, worst)
			}
		}
	}
}

// TestBitsDoNotDepend runs one step with different threads, recomputation, offload and chunks: same bits in every state.
func TestBitsDoNotDepend(t *testing.T) {
	standard := small
	standard.standard = true
	for _, set := range kernel.Sets() {
		for name, s := range precisions(map[string]shape{"flash": small, "standard": standard}) {
			big := s
			big.chunk = 1024
			var first []byte
			variants := map[string][]*compile.Program{
				"tags":    step(t, s, compile.Options{Recompute: compile.Recompute{Policy: compile.Tags, Tags: []string{"mlp"}}}, 1, 1),
				"full":    step(t, s, compile.Options{Recompute: compile.Recompute{Policy: compile.Full}}, 1, 1),
				"offload": step(t, s, compile.Options{Offload: compile.OffloadOptions{Activations: true, Tier: mem.Host}}, 1, 1),
				"disk":    step(t, s, compile.Options{Offload: compile.OffloadOptions{Activations: true, Tier: mem.Disk}}, 1, 1),
				"plain":   step(t, s, compile.Options{}, 1, 1),
			}
			if !s.standard {
				variants["chunk"] = step(t, big, compile.Options{}, 1, 1)
			}
			for vn, ps := range variants {
				for _, threads := range []int{1, 2, 3} {
					if threads != 2 && vn != "plain" {
						continue
					}
					x, j, l := open(t, cpu.New(cpu.Options{Threads: threads, Set: set}), s, ps...)
					run(t, x, "step", 2)
					got, loss := state(t, x, j)
					if err := j.Plan().Check(l.Peak()); err != nil {
						t.Error(err)
					}
					closed(t, x, l)
					if loss != loss {
						t.Errorf("%s: loss is NaN", vn)
					}
					if first == nil {
						first = got
					}
					if !bytes.Equal(first, got) {
						t.Errorf("%s/%s with %s on %d threads has other bits (loss %v)", set.Name(), name, vn, threads, loss)
					}
				}
			}
		}
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	standard := small
	standard.standard = true
	for name, sh := range precisions(map[string]shape{"flash": small, "standard": standard}) {
		ps := step(t, sh, compile.Options{Offload: compile.OffloadOptions{Activations: true, Tier: mem.Host}}, 1, 1)
		x, _, l := open(t, cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()}), sh, ps...)
		if n := testing.AllocsPerRun(3, func() {
			if err := x.Run("step", device.Args{}); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: a run makes %v allocations", name, n)
		}
		closed(t, x, l)
	}
}

// tiny is the shape of the step that is timed: about 1.2 million parameters, 2048 tokens.
var tiny = shape{layers: 4, d: 128, heads: 4, kv: 2, ff: 384, vocab: 1024, seqs: 8, time: 256, chunk: 512}

// bench20m is the preset that is measured against others.
var bench20m = shape{layers: 8, d: 384, heads: 6, kv: 6, ff: 1024, vocab: 8192, seqs: 4, time: 512, chunk: 512}

func BenchmarkStep(b *testing.B) {
	for _, threads := range []int{1, 2} {
		for name, s := range precisions(map[string]shape{"tiny": tiny, "20m": bench20m}) {
			b.Run(fmt.Sprintf("%s/%d", name, threads), func(b *testing.B) {
				ps := step(b, s, compile.Options{}, 1, 1)
				x, _, l := open(b, cpu.New(cpu.Options{Threads: threads, Set: kernel.Best()}), s, ps...)
				var flops float64
				for _, in := range ps[0].Instrs {
					flops += instrFLOPs(ps[0], &in)
				}
				for b.Loop() {
					run(b, x, "step", 1)
				}
				b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				closed(b, x, l)
			})
		}
	}
}

func instrFLOPs(p *compile.Program, in *compile.Instr) float64 {
	var a, o []graph.Type
	for _, x := range in.In {
		a = append(a, x.Type)
	}
	for _, x := range in.Out {
		o = append(o, x.Type)
	}
	return in.Op.FLOPs(p.Bounds, a, o)
}
