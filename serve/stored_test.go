package serve

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/far"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
	"loadline/tensor/quant"
)

// wide is a model whose rows are whole blocks of every type.
func wide(kind string, tied bool) model.Config {
	c := tiny(kind)
	c.HiddenSize, c.HeadDim, c.IntermediateSize = 256, 64, 512
	c.TieWordEmbeddings = c.TieWordEmbeddings || tied
	return c
}

// typesOf stores every matrix as of says; what it leaves out is f32.
func typesOf(c model.Config, of func(name string) dtype.Type) map[string]dtype.Type {
	types := map[string]dtype.Type{}
	for _, p := range c.Parameters() {
		if t := of(p.Name); p.Type.Shape.N >= 2 && t != dtype.F32 {
			types[p.Name] = t
		}
	}
	return types
}

// all stores every matrix in one type.
func all(t dtype.Type) func(string) dtype.Type { return func(string) dtype.Type { return t } }

// mixed is what files mix: embeddings and some projections in more bits.
func mixed(name string) dtype.Type {
	switch {
	case strings.Contains(name, "embed"):
		return dtype.Q6_K
	case strings.Contains(name, "v_proj") || strings.Contains(name, "down_proj"):
		return dtype.Q8_0
	case strings.Contains(name, "layers.0.") && strings.Contains(name, "q_proj"):
		return dtype.F16
	case strings.Contains(name, "o_proj"):
		return dtype.F32
	}
	return dtype.Q4_K
}

// files are the weights as a file stores them, and as what those bytes mean in f32.
type files struct{ stored, widened map[string][]byte }

func filesOf(t testing.TB, c model.Config, types map[string]dtype.Type) files {
	t.Helper()
	f := files{map[string][]byte{}, map[string][]byte{}}
	for _, p := range c.Parameters() {
		p.Init.Std *= 3
		w := make([]float32, p.Elems())
		model.Fill(p, 1, 0, w)
		format, ok := quant.Of(types[p.Name])
		if !ok {
			t.Fatalf("%s is stored as %v", p.Name, types[p.Name])
		}
		b := make([]byte, types[p.Name].Bytes(int64(len(w))))
		if err := quant.Encode(b, format, w); err != nil {
			t.Fatal(err)
		}
		quant.Decode(w, format, b)
		f.stored[p.Name], f.widened[p.Name] = b, slices.Clone(bytesOf(w))
	}
	return f
}

// source reads weights once.
func source(weights map[string][]byte) Source {
	left := maps.Clone(weights)
	return func(state string, p []byte) error {
		if n := copy(p, left[state]); n < len(p) {
			return fmt.Errorf("%d bytes of %q are asked for, %d are left", len(p), state, n)
		}
		left[state] = left[state][len(p):]
		return nil
	}
}

// logits is what the pass makes of a prompt's last token.
func logits(t testing.TB, dev device.Device, o Options, weights Source, prompt []int32) []float32 {
	t.Helper()
	o.PrefillChunk = len(prompt)
	e := open(t, dev, o, weights)
	add(t, e, Request{ID: "x", Prompt: prompt, MaxTokens: 1})
	if _, err := e.Step(); err != nil {
		t.Fatal(err)
	}
	got := make([]float32, o.Config.VocabSize)
	if err := e.session.Read(model.LogitsOutput, 0, bytesOf(got)); err != nil {
		t.Fatal(err)
	}
	return got
}

// Logits with weights as they are stored are those of the same weights widened, but for rounding rows to eight bits.
func TestStoredWeightsGiveTheLogitsOfTheSameWeightsWidened(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    func(string) dtype.Type
		kind  string
		tied  bool
		bound float64 // of the error, in the root mean squares of both
	}{
		{"f16", all(dtype.F16), model.Llama, false, 1e-5},
		{"bf16 tied", all(dtype.BF16), model.Llama, true, 1e-5},
		{"q4_0", all(dtype.Q4_0), model.Llama, false, 0.04},
		{"q4_0 tied", all(dtype.Q4_0), model.Llama, true, 0.04},
		{"q8_0", all(dtype.Q8_0), model.Llama, false, 0.04},
		{"q4_k", all(dtype.Q4_K), model.Llama, true, 0.04},
		{"q6_k", all(dtype.Q6_K), model.Llama, false, 0.04},
		{"mxfp4", all(dtype.MXFP4), model.Llama, false, 0.04},
		{"mixed", mixed, model.Llama, true, 0.04},
		{"q4_0 of experts", all(dtype.Q4_0), model.Mixtral, false, 0.04},
		{"f16 of experts", all(dtype.F16), model.Mixtral, false, 1e-5},
		{"q5_1 of gpt2", all(dtype.Q5_1), model.GPT2, false, 0.04},
		{"f16 of gpt2", all(dtype.F16), model.GPT2, false, 1e-5},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain := base(wide(c.kind, c.tied))
			plain.MaxSeqs = 1
			narrow := plain
			narrow.Types = typesOf(plain.Config, c.of)
			f := filesOf(t, plain.Config, narrow.Types)
			for n, seed := range []int{3, 17} {
				p := prompt(1+40*n, seed)
				want := logits(t, newCPU(2), plain, source(f.widened), p)
				for _, dev := range []device.Device{newCPU(2), newRef(), far.New(cpu.Options{Threads: 1, Set: kernel.Best()})} {
					if n > 0 && dev.Name() == "ref" {
						continue // slow
					}
					got := logits(t, dev, narrow, source(f.stored), p)
					var square, off float64
					for i, w := range want {
						square += float64(w) * float64(w)
						off += math.Pow(float64(got[i])-float64(w), 2)
					}
					if off = math.Sqrt(off / square); !(off <= c.bound) {
						t.Errorf("%s, %d tokens: off by %.3g, want at most %g", dev.Name(), len(p), off, c.bound)
					}
				}
			}
		})
	}
}

// The tokens, and their probabilities to the bit, depend on neither threads, chunks nor company.
func TestStoredWeightsGiveTheSameBits(t *testing.T) {
	for _, of := range []func(string) dtype.Type{all(dtype.Q4_0), all(dtype.F16), mixed} {
		o := base(wide(model.Llama, true))
		o.Types = typesOf(o.Config, of)
		f := filesOf(t, o.Config, o.Types)
		answers := func(dev device.Device, o Options, rs ...Request) map[string]*answer {
			e := open(t, dev, o, source(f.stored))
			add(t, e, rs...)
			return drive(t, e, nil)
		}
		want := answers(newCPU(1), o, requests()...)
		same(t, "two threads", answers(newCPU(2), o, requests()...), want)
		small := o
		small.PrefillChunk, small.BlockSize = 5, 4
		same(t, "small chunks", answers(newCPU(2), small, requests()...), want)
		one := map[string]*answer{}
		for _, r := range requests() {
			o := o
			o.MaxSeqs = 1
			for k, a := range answers(newCPU(2), o, r) {
				one[k] = a
			}
		}
		same(t, "alone", one, want)
	}
}

// The plan counts weights as they lie in memory, and the ledger holds to it.
func TestStoredWeightsArePlanned(t *testing.T) {
	o := base(wide(model.Mixtral, false))
	o.Types = typesOf(o.Config, mixed)
	f := filesOf(t, o.Config, o.Types)
	for _, dev := range []device.Device{newRef(), newCPU(2)} {
		j, err := Plan(o, dev)
		if err != nil {
			t.Fatal(err)
		}
		var want, f32 int64
		for _, p := range o.Config.Parameters() {
			ty := p.Type
			f32 += ty.Bytes(graph.Bounds{})
			ty.DType = o.Types[p.Name]
			want += graph.RoundUp(ty.Bytes(graph.Bounds{}))
		}
		if got := j.Promise.Peak[mem.Device][mem.Weights]; got != mem.Bytes(want) || 4*want > f32 {
			t.Errorf("%s: weights: got %v, want %v, less than a quarter of %v", dev.Name(), got, mem.Bytes(want), mem.Bytes(f32))
		}
		l := mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})
		e, err := New(j, dev, device.Env{Ledger: l}, source(f.stored))
		if err != nil {
			t.Fatal(err)
		}
		add(t, e, requests()[0])
		drive(t, e, nil)
		if err := e.Check(); err != nil {
			t.Error(err)
		}
		if got := l.PeakMemory(); got != j.Promise.Memory() {
			t.Errorf("%s: ledger peak: got %d, want %d", dev.Name(), got, j.Promise.Memory())
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStoredTypesAreChecked(t *testing.T) {
	o := base(tiny(model.Llama))
	for _, c := range []struct {
		name string
		t    dtype.Type
		want string
	}{
		{"model.layers.0.self_attn.q_proj.weight", dtype.Q4_K, "multiple of 256"},
		{"model.layers.1.mlp.down_proj.weight", dtype.Q4_0, "rows of 48"},
		{"model.layers.1.mlp.up_proj.weight", dtype.F8E4M3, "f8e4m3"},
		{"model.norm.weight", dtype.F16, "no matrix"},
	} {
		o.Types = map[string]dtype.Type{c.name: c.t}
		if _, err := Plan(o, newCPU(1)); err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %v: got %v, want an error with %q", c.name, c.t, err, c.want)
		}
	}
}
