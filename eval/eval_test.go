package eval

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/far"
	"loadline/device/ref"
	"loadline/mem"
	"loadline/model"
	"loadline/serve"
	"loadline/tensor/kernel"
)

// tiny is a model whose sums need more than one block of anything.
func tiny(kind string) model.Config {
	c := model.Config{
		ModelType: kind, HiddenSize: 32, NumLayers: 2, NumHeads: 4, NumKVHeads: 2, HeadDim: 8, IntermediateSize: 48, VocabSize: 61,
		MaxPositionEmbeddings: 512, RMSNormEps: 1e-5, RopeTheta: 10000, HiddenAct: "silu", BOSTokenID: -1,
	}
	switch kind {
	case model.Mixtral:
		c.NumLocalExperts, c.NumExpertsPerTok = 4, 2
	case model.GPT2:
		c.NumKVHeads, c.LayerNormEps, c.HiddenAct, c.TieWordEmbeddings = 4, 1e-5, "gelu_new", true
	}
	return c
}

// fill makes weights large enough for the model to have opinions. spoil is the name of a weight that is not a number; empty for none.
func fill(c model.Config, spoil string) serve.Source {
	params, done := map[string]model.Param{}, map[string]int{}
	for _, p := range c.Parameters() {
		p.Init.Std *= 12
		params[p.Name] = p
	}
	return func(state string, b []byte) error {
		p, ok := params[state]
		if !ok {
			return fmt.Errorf("no weight %q", state)
		}
		w := make([]float32, p.Elems())
		model.Fill(p, 1, 0, w)
		if state == spoil {
			w[0] = float32(math.NaN())
		}
		for i := range len(b) / 4 {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(w[done[state]+i]))
		}
		done[state] = (done[state] + len(b)/4) % len(w) // after the last comes the first again
		return nil
	}
}

func newCPU(threads int) device.Device {
	return cpu.New(cpu.Options{Threads: threads, Set: kernel.Best()})
}

// options are those of a runner of one sequence.
func options(kind string, context, chunk int) serve.Options {
	return serve.Options{Config: tiny(kind), Context: context, PrefillChunk: chunk, Outs: chunk, NoCache: true}
}

// open makes a runner and closes it with the test, checking that the ledger comes back to nothing.
func open(t testing.TB, dev device.Device, o serve.Options, spoil string) *serve.Runner {
	t.Helper()
	j, err := serve.Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	l := mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()}) // not a byte more
	r, err := serve.NewRunner(j, dev, device.Env{Ledger: l}, fill(o.Config, spoil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Check(), r.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if u := l.InUse(); u != (mem.Usage{}) {
			t.Errorf("after Close: %v is still booked", u)
		}
	})
	return r
}

// begin begins a stream on r.
func begin(r *serve.Runner, rule Rule, bos []int32) (*Perplexity, error) {
	o := r.Job().Options
	return NewPerplexity(r, Options{Context: o.Context, Chunk: o.PrefillChunk, Vocab: o.Config.VocabSize, Rule: rule, BOS: bos, Kernels: kernel.Best()})
}

// stream is n tokens that are never bos, which is 1.
func stream(n int) []int32 {
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(2 + (i*i*7+i*3)%59)
	}
	return s
}

// score runs a stream in pieces of n tokens.
func score(t testing.TB, r *serve.Runner, rule Rule, bos, ids []int32, n int) Score {
	t.Helper()
	p, err := begin(r, rule, bos)
	if err != nil {
		t.Fatal(err)
	}
	for len(ids) > 0 {
		k := min(n, len(ids))
		if err := p.Add(ids[:k], nil); err != nil {
			t.Fatal(err)
		}
		ids = ids[k:]
	}
	return p.Score()
}

// trained sums the losses of some tokens of a window with the evaluation graph of training, which has no pools and no chunks.
func trained(t *testing.T, c model.Config, window []int32, first int) float64 {
	t.Helper()
	n := len(window)
	o := model.TrainOptions{Name: "eval", Batch: 1, Seq: n}
	g, err := model.EvalGraph(c, o)
	if err != nil {
		t.Fatal(err)
	}
	options := compile.Options{Machine: cost.Laptop2()}
	p, err := compile.Step(g, options)
	if err != nil {
		t.Fatal(err)
	}
	load, err := compile.Step(model.RestoreGraph("load", model.StoredStates(g)...), options)
	if err != nil {
		t.Fatal(err)
	}
	j, err := compile.NewJob(mem.Usage{}, p, load)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ref.New(ref.F32).Open(j, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	positions, sequences, table, targets := make([]int32, n), make([]int32, n), make([]int32, n/o.KVBlock()), make([]int32, n)
	model.FillStatic(o, 0, positions, sequences, table)
	for i := range targets {
		if targets[i] = -1; i+1 >= first && i+1 < n {
			targets[i] = window[i+1]
		}
	}
	err = s.Run("load", device.Args{Source: fill(c, "")})
	for name, v := range map[string][]int32{
		model.TokensInput: window, model.PositionsInput: positions, model.SequencesInput: sequences, model.TableInput: table, model.TargetsInput: targets,
	} {
		err = errors.Join(err, s.Write(name, 0, bytesOf(v)))
	}
	loss := make([]float32, 1)
	err = errors.Join(err, s.Write(model.LossWeightInput, 0, bytesOf([]float32{1})), s.Run("eval", device.Args{}), s.Read("loss", 0, bytesOf(loss)))
	if err != nil {
		t.Fatal(err)
	}
	return float64(loss[0])
}

// TestLikeTraining compares scores with the losses that training's own evaluation gives the same windows.
func TestLikeTraining(t *testing.T) {
	const context = 24
	ids, bos := stream(3*context+5), []int32{1}
	for _, kind := range []string{model.Llama, model.Mixtral, model.GPT2} {
		for _, rule := range []Rule{Half, All} {
			for _, begins := range [][]int32{nil, bos} {
				whole := append(append([]int32{}, begins...), ids...)
				var want float64
				for i := range 3 {
					w := append([]int32{}, whole[i*context:(i+1)*context]...)
					copy(w, begins)
					want += trained(t, tiny(kind), w, map[Rule]int{Half: 13, All: 1}[rule])
				}
				for _, dev := range []device.Device{ref.New(ref.F32), newCPU(1), far.New(cpu.Options{Threads: 2, Set: kernel.Best()})} {
					r := open(t, dev, options(kind, context, 7), "")
					got := score(t, r, rule, begins, ids, 10)
					if got.Windows != 3 || got.Tokens != 3*int64(rule.Scored(context)) {
						t.Errorf("%s: got %+v, want 3 windows with %d tokens each", kind, got, rule.Scored(context))
					}
					// f32 sums of 48 terms through 2 layers in another order, and of losses of about 10
					if d := math.Abs(got.Loss-want) / want; d > 2e-5 {
						t.Errorf("%s on %s, rule %d, begun with %v: got a sum of losses of %v, want %v", kind, dev.Name(), rule, begins, got.Loss, want)
					}
				}
			}
		}
	}
}

// TestSameBits scores one stream under other chunks, block sizes, threads and pieces: not a bit changes.
func TestSameBits(t *testing.T) {
	ids := stream(330)
	var want Score
	for i, x := range []struct{ chunk, block, threads, piece int }{
		{160, 16, 1, 1000}, {160, 16, 2, 1000}, {128, 16, 1, 1}, {128, 5, 2, 33}, {1, 16, 1, 160}, {50, 200, 2, 7},
	} {
		o := options(model.Llama, 160, x.chunk)
		o.BlockSize = x.block
		r := open(t, newCPU(x.threads), o, "")
		got := score(t, r, Half, []int32{1}, ids, x.piece)
		if i == 0 {
			want = got
		}
		if got != want || got.Tokens != 2*79 {
			t.Errorf("%+v: got %+v, want %+v", x, got, want)
		}
	}
}

func TestScore(t *testing.T) {
	s := Score{Tokens: 4, Loss: 8, Squares: 20}
	if s.Mean() != 2 || s.Perplexity() != math.Exp(2) || math.Abs(s.Stderr()-math.Exp(2)*math.Sqrt(1./3)) > 1e-12 {
		t.Errorf("got mean %v, perplexity %v ± %v", s.Mean(), s.Perplexity(), s.Stderr())
	}
	if z := (Score{}); z.Mean() != 0 || z.Stderr() != 0 {
		t.Errorf("of nothing: got %v ± %v", z.Mean(), z.Stderr())
	}
	for context, want := range map[int][2]int{512: {255, 511}, 3: {1, 2}, 2: {0, 1}, 1: {0, 0}, 5: {2, 4}} {
		if got := [2]int{Half.Scored(context), All.Scored(context)}; got != want {
			t.Errorf("a window of %d: got %v scored tokens, want %v", context, got, want)
		}
	}
}

// TestStops ends a stream from outside, and at what cannot be scored.
func TestStops(t *testing.T) {
	r := open(t, newCPU(1), options(model.Llama, 16, 16), "")
	p, err := begin(r, All, nil)
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	err = p.Add(stream(100), func(s Score) error {
		if s.Windows == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || p.Score().Windows != 2 || p.Score().Tokens != 30 {
		t.Errorf("got %v after %+v, want the caller's error after 2 windows", err, p.Score())
	}
	bad := stream(16)
	bad[9] = 61
	if err := p.Add(bad, nil); err == nil || !strings.Contains(err.Error(), "token 9 of window 2 is 61: the model has 61") {
		t.Errorf("got %v, want an error about token 61", err)
	}
	if _, err := begin(open(t, newCPU(1), options(model.Llama, 2, 2), ""), Half, nil); err == nil {
		t.Error("a window of 2 scored by half: got no error")
	}
	spoilt := open(t, newCPU(1), options(model.Llama, 16, 16), "model.norm.weight")
	if p, err = begin(spoilt, All, nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Add(stream(16), nil); err == nil || !strings.Contains(err.Error(), "not finite") {
		t.Errorf("weights that are no numbers: got %v", err)
	}
	if err := r.Forward(stream(17), 1); err == nil || !strings.Contains(err.Error(), "more than the context of 16") {
		t.Errorf("17 tokens in a context of 16: got %v", err)
	}
}

// TestStreamed scores under a limit that does not hold the weights: not a bit changes.
func TestStreamed(t *testing.T) {
	o := options(model.Llama, 32, 8)
	o.Config.IntermediateSize, o.Config.HiddenSize = 4096, 64 // weights that are worth reading again
	o.Config.HeadDim = 16
	want := score(t, open(t, newCPU(1), o, ""), Half, nil, stream(70), 70)
	whole, err := serve.Plan(o, newCPU(1))
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = whole.Promise.Memory() - 1<<20
	r := open(t, newCPU(1), o, "")
	if r.Job().Streamed() == 0 {
		t.Fatal("the weights fit: nothing is tested")
	}
	if got := score(t, r, Half, nil, stream(70), 70); got != want || got.Windows != 2 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestValidate(t *testing.T) {
	for _, o := range []Options{{}, {Context: 16}, {Context: 16, Chunk: 4}, {Context: 2, Chunk: 4, Vocab: 5}, {Context: 16, Chunk: -1, Vocab: 5}, {Context: 4, Chunk: 4, Vocab: 5, BOS: make([]int32, 4)}} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v: got no error", o)
		}
		if _, err := NewPerplexity(nil, o); err == nil {
			t.Errorf("%+v: got a stream", o)
		}
	}
	if err := (Options{Context: 3, Chunk: 1, Vocab: 1}).Validate(); err != nil {
		t.Error(err)
	}
}

// bytesOf is s as a device stores it.
func bytesOf[T int32 | float32](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 4*len(s))
}
