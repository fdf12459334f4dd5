package devicetest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/ref"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// decoder is the shape of a small model and the options of its training step.
type decoder struct {
	name                          string
	standard, tied, moe, gpt      bool
	dropout                       float32
	chunk                         int // of the loss head; 0 holds the logits whole
	accumulate, momentum, clipped bool
}

const (
	stepSeqs, stepLen           = 2, 33
	stepRows                    = stepSeqs * stepLen
	stepWidth, stepFF, stepVoc  = 64, 48, 41
	stepHeads, stepKV, stepHead = 4, 2, 16
	stepLayers                  = 2
	stepExperts, stepTopK       = 4, 2
)

var decoders = []decoder{
	{name: "dense", chunk: 128, clipped: true},
	{name: "standard attention, tied", standard: true, tied: true, chunk: 128, accumulate: true},
	{name: "gpt", gpt: true, dropout: 0.1},
	{name: "mixture of experts", moe: true, chunk: 128, clipped: true, accumulate: true},
	{name: "sgd", momentum: true, accumulate: true, chunk: 128, clipped: true},
}

// decoderStep builds a training step: forward, backward, clipping, update.
type decoderStep struct {
	*rig
	decoder
	params []graph.Value
	pages  graph.Paging
}

func (s *decoderStep) param(name string, scale float64, dims ...int) graph.Value {
	n, shape := 1, []graph.Dim{}
	for _, d := range dims {
		n *= d
		shape = append(shape, graph.D(d))
	}
	if v := s.G.Find(name); v != graph.None {
		return v
	}
	x := s.noise(n)
	for i := range x {
		x[i] = float64(float32(x[i] * scale))
		if len(dims) == 1 && scale < 0.2 {
			x[i]++ // a norm's weight is around 1
			x[i] = float64(float32(x[i]))
		}
	}
	s.data = append(s.data, datum{name: name, f: x, writes: true})
	v := s.Param(name, graph.F(shape...))
	s.params = append(s.params, v)
	return v
}

func (s *decoderStep) norm(x graph.Value, name string) graph.Value {
	w := s.param(name+".w", 0.1, stepWidth)
	if s.gpt {
		return s.LayerNorm(x, w, s.param(name+".b", 0.3, stepWidth), 1e-5)
	}
	return s.RMSNorm(x, w, 1e-5)
}

func (s *decoderStep) linear(x graph.Value, name string, out, in int) graph.Value {
	w := s.param(name, 1/math.Sqrt(float64(in)), out, in)
	if s.gpt {
		return s.Linear(x, w, s.param(name+".bias", 0.3, out))
	}
	return s.MatMul(x, w)
}

func (s *decoderStep) drop(x graph.Value) graph.Value {
	if s.dropout == 0 {
		return x
	}
	return s.Dropout(x, s.G.Find("seed"), s.dropout)
}

// newStep builds d's step in f32.
func newStep(d decoder) *decoderStep { return newStepOf(dtype.F32, d) }

// newStepOf builds d's step with compute type half.
func newStepOf(half dtype.Type, d decoder) *decoderStep {
	s := &decoderStep{rig: newRig(persistent, graph.Bounds{Rows: stepRows, Outs: 1}, 41), decoder: d}
	rows := graph.D(stepRows)
	var seq, pos, table []int32
	const block = 11
	for i := range stepRows {
		seq, pos = append(seq, int32(i/stepLen)), append(pos, int32(i%stepLen))
		if i%block == 0 {
			table = append(table, int32(i/block))
		}
	}
	s.pages = graph.Paging{Table: s.i("table", table, graph.D(stepSeqs), graph.D(stepLen/block)), Seq: s.i("seq", seq, rows), Pos: s.i("pos", pos, rows)}
	spec := graph.AttentionSpec{Heads: stepHeads, KVHeads: stepKV, HeadDim: stepHead, Block: block, Context: stepLen}
	s.i("seed", []int32{3, 66}, graph.D(2))
	tokens, targets := s.i("tokens", s.ints(stepRows, stepVoc), rows), s.i("targets", s.targets(stepRows, stepVoc), rows)
	weight := s.input("weight", []float64{1.0 / 64}, graph.F(graph.D(1)))
	table0 := s.param("embed", 0.5, stepVoc, stepWidth)
	var x graph.Value
	s.Part(graph.Outside, "embed", func() {
		x = s.Embedding(tokens, table0)
		if s.gpt {
			x = s.Add(x, s.Embedding(s.pages.Pos, s.param("positions", 0.5, stepLen, stepWidth)))
		}
		x = s.drop(x)
	})
	for l := range stepLayers {
		name := func(p string) string { return fmt.Sprint("layer", l, ".", p) }
		var h, q, k, v graph.Value
		s.Part(l, "attn.norm", func() { h = s.norm(x, name("norm1")) })
		s.Part(l, "attn.qkv", func() {
			q, k, v = s.linear(h, name("q"), stepHeads*stepHead, stepWidth), s.linear(h, name("k"), stepKV*stepHead, stepWidth), s.linear(h, name("v"), stepKV*stepHead, stepWidth)
			if !s.gpt {
				q, k = s.Rope(q, s.pages.Pos, stepHeads, stepHead, 10000), s.Rope(k, s.pages.Pos, stepKV, stepHead, 10000)
			}
		})
		s.Part(l, "attn.core", func() {
			if s.standard {
				h = s.StandardAttention(q, k, v, s.pages, spec)
			} else {
				h = s.Attention(q, k, v, s.pages, spec)
			}
		})
		s.Part(l, "attn.out", func() { x = s.Add(x, s.drop(s.linear(h, name("o"), stepWidth, stepHeads*stepHead))) })
		s.Part(l, "mlp.norm", func() { h = s.norm(x, name("norm2")) })
		x = s.Add(x, s.mlp(l, h, name))
	}
	s.Part(graph.Outside, "head", func() { s.head(s.norm(x, "norm"), targets, weight) })
	s.cast(half)
	s.backward()
	return s
}

// cast puts what is built so far, and its data, into the compute type.
func (s *decoderStep) cast(half dtype.Type) {
	g, err := compile.Autocast(s.G, compile.AutocastOptions{Compute: half})
	if err != nil {
		panic(err)
	}
	for i, v := range s.params {
		s.params[i] = g.Find(s.G.Info(v).Name)
	}
	s.Builder, s.half = graph.Edit(g), half
	for i := range s.data {
		d := &s.data[i]
		d.t = g.Info(g.Find(d.name)).Type.DType
		rounded(d.t, d.f)
	}
}

func (s *decoderStep) mlp(l int, h graph.Value, name func(string) string) (y graph.Value) {
	switch {
	case s.moe:
		s.Part(l, "moe", func() {
			weights, ids := s.Router(s.linear(h, name("router"), stepExperts, stepWidth), stepTopK)
			order, place, offsets := s.Dispatch(ids, stepExperts)
			rows := s.GatherRows(h, order, place, stepTopK)
			gate := s.GroupedMatMul(rows, s.param(name("gates"), 0.125, stepExperts, stepFF, stepWidth), offsets)
			up := s.GroupedMatMul(rows, s.param(name("ups"), 0.125, stepExperts, stepFF, stepWidth), offsets)
			down := s.GroupedMatMul(s.SwiGLU(gate, up), s.param(name("downs"), 0.125, stepExperts, stepWidth, stepFF), offsets)
			y = s.Combine(down, weights, order, place, stepTopK)
		})
	case s.gpt:
		s.Part(l, "mlp.act", func() { y = s.Gelu(s.linear(h, name("up"), stepFF, stepWidth), l%2 == 0) })
		s.Part(l, "mlp.down", func() { y = s.drop(s.linear(y, name("down"), stepWidth, stepFF)) })
	default:
		s.Part(l, "mlp.act", func() {
			y = s.SwiGLU(s.linear(h, name("gate"), stepFF, stepWidth), s.linear(h, name("up"), stepFF, stepWidth))
		})
		s.Part(l, "mlp.down", func() { y = s.linear(y, name("down"), stepWidth, stepFF) })
	}
	return y
}

func (s *decoderStep) head(h, targets, weight graph.Value) {
	w := s.G.Find("embed")
	if !s.tied {
		w = s.param("head", 0.125, stepVoc, stepWidth)
	}
	if s.chunk > 0 {
		s.SetLoss(s.HeadLoss(h, w, targets, weight, s.chunk))
	} else {
		s.SetLoss(s.CrossEntropy(s.MatMul(h, w), targets, weight))
	}
}

// backward appends gradients and updates, and marks what to compare.
func (s *decoderStep) backward() {
	seeds := map[graph.Value]graph.Value{}
	if s.accumulate {
		for _, v := range s.params {
			x := s.G.Info(v)
			seeds[v] = s.State("grad."+x.Name, graph.Type{Shape: x.Type.Shape}, mem.Grads)
			s.data = append(s.data, datum{name: "grad." + x.Name, f: s.small(int(x.Type.Shape.Elems(s.G.Bounds))), writes: true})
		}
	}
	grads := s.Differentiate(func(v graph.Value) graph.Value {
		if g, ok := seeds[v]; ok {
			return g
		}
		return graph.None
	}, nil)
	s.At(graph.Outside, "update", graph.Update)
	hyper := s.hyper()
	scale := graph.None
	if s.clipped {
		var squares []graph.Value
		for _, v := range s.params {
			squares = append(squares, s.Apply(graph.SumSquares{}, grads[v])[0])
		}
		o := s.Apply(graph.ClipScale{Max: 0.1}, append(squares, hyper)...)
		scale = o[0]
		s.check(o[1], tolerance{rel: 256, half: 4, why: "a norm of gradients"})
	}
	for _, v := range s.params {
		x := *s.G.Info(v)
		n := int(x.Type.Shape.Elems(s.G.Bounds))
		moment := func(name string, f []float64) graph.Value {
			s.data = append(s.data, datum{name: name + x.Name, f: f, writes: true})
			return s.State(name+x.Name, graph.Type{Shape: x.Type.Shape}, mem.OptimState)
		}
		if !s.accumulate {
			s.check(grads[v], stepTolerance)
		}
		var out []graph.Value
		master := graph.None
		if x.Type.DType != dtype.F32 {
			f := slices.Clone(s.datum(x.Name).f)
			for i := range f {
				f[i] = float64(float32(f[i] * (1 + s.rng.NormFloat64()*0x1p-14)))
			}
			master = moment("master.", f)
		}
		if s.momentum {
			out = s.Apply(graph.SGD{Momentum: 0.9, Decay: 0.01}, v, grads[v], moment("buf.", s.small(n)), hyper, scale)
		} else {
			out = s.Apply(graph.AdamW{Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}, v, grads[v], moment("m.", s.small(n)), moment("v.", s.positive(n)), hyper, scale, master)
		}
		for _, o := range out {
			s.check(o, stepTolerance)
		}
		if s.accumulate {
			s.check(grads[v], stepTolerance)
		}
	}
	s.outs = append(s.outs, result{"loss", s.G.Loss, tolerance{rel: 64, half: 1, why: "the mean of losses around 4"}})
}

// small is noise of the size of gradients.
func (r *rig) small(n int) []float64 {
	x := r.noise(n)
	for i := range x {
		x[i] = float64(float32(x[i] / 64))
	}
	return x
}

// stepTolerance is for gradients and updated states of a step, beside the largest of their tensor.
var stepTolerance = tolerance{top: 1024, abs: 0.125, half: 16, why: "about forty operations deep; a key bias has no gradient but roundings"}

// variants are ways to compile a step that must not change a bit.
var variants = []struct {
	name  string
	o     compile.Options
	below mem.Tier // not Device: where the optimizer's States lie
}{
	{name: "plain"},
	{name: "recompute full", o: compile.Options{Recompute: compile.Recompute{Policy: compile.Full}}},
	{name: "recompute tags", o: compile.Options{Recompute: compile.Recompute{Policy: compile.Tags, Tags: []string{"norm", "attn.core"}}}},
	{name: "offload to host", o: compile.Options{Offload: compile.OffloadOptions{Activations: true, Tier: mem.Host}}},
	{name: "offload to disk", o: compile.Options{Offload: compile.OffloadOptions{Activations: true, Tier: mem.Disk}}},
	{name: "optimizer on the host", below: mem.Host},
	{name: "optimizer on disk, recompute full", o: compile.Options{Recompute: compile.Recompute{Policy: compile.Full}}, below: mem.Disk},
}

// stepCase is a decoder in a compute type.
type stepCase struct {
	half dtype.Type
	decoder
}

// stepCases are the decoders in every compute type in which they have an optimizer.
func stepCases() (all []stepCase) {
	for _, half := range []dtype.Type{dtype.F32, dtype.BF16, dtype.F16} {
		for _, d := range decoders {
			if half == dtype.F32 || !d.momentum {
				all = append(all, stepCase{half, d})
			}
		}
	}
	return all
}

// testSteps compares whole training steps with the reference in float64, and their bits across variants.
func testSteps(t *testing.T, open func() device.Device, saw func(*compile.Instr)) {
	for i, c := range stepCases() {
		some := variants
		if i%3 != 0 || testing.Short() {
			some = variants[:2]
		}
		t.Run(fmt.Sprintf("%v/%s", c.half, c.name), func(t *testing.T) {
			var first [][]byte
			for _, v := range some {
				s := newStepOf(c.half, c.decoder)
				v.o.Machine = cost.Laptop2()
				g := s.G
				if v.below != mem.Device {
					g = compile.OffloadStates(g, compile.StatesOptions{Tier: v.below, Piece: 1})
				}
				p, err := compile.Step(g, v.o)
				if err != nil {
					t.Fatal(err)
				}
				job := jobOf(t, p)
				sawAll(job, saw)
				h := openOn(t, open(), job)
				h.fill(s.rig)
				h.run(device.Args{})
				var got [][]byte
				for _, o := range s.outs {
					got = append(got, h.read(o.name, s.G.Info(o.v).Type.Bytes(s.G.Bounds)))
				}
				if first == nil {
					first = got
					s.compareStep(t, h, job)
				}
				for i := range got {
					if !bytes.Equal(got[i], first[i]) {
						t.Errorf("%s: %s has other bits than %s", v.name, s.outs[i].name, variants[0].name)
					}
				}
				if bad := h.untouched(s.rig); bad != "" {
					t.Errorf("%s: %s", v.name, bad)
				}
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// compareStep compares what h has run with the reference in float64.
func (s *decoderStep) compareStep(t *testing.T, h host, job *compile.Job) {
	want := openOn(t, ref.New(ref.F64), job)
	defer want.Close()
	want.fill(s.rig)
	want.run(device.Args{})
	for _, o := range s.outs {
		ty := s.G.Info(o.v).Type
		tol := o.tol.in(s.half, ty.DType)
		if o.tol == stepTolerance {
			tol.abs += unit(s.half) / 32 // the roundings of a key bias' gradient
		}
		if bad := tol.compare(h.floats(o.name, ty, s.G.Bounds), want.floats(o.name, ty, s.G.Bounds), nil); bad != "" {
			t.Errorf("%s: %s", o.name, bad)
		}
	}
}
