package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/model"
	"loadline/serve/sample"

	gocmp "github.com/google/go-cmp/cmp"
)

// trainLogits computes the logits (N,V) of every position with the graph that training uses.
func trainLogits(t *testing.T, c model.Config, tokens []int32) [][]float32 {
	t.Helper()
	o := model.TrainOptions{Name: "naive", Batch: 1, Seq: len(tokens)}
	g, err := model.TrainGraph(c, o)
	if err != nil {
		t.Fatal(err)
	}
	for v := range g.Values {
		if g.Values[v].Name == "logits" {
			graph.Edit(g).Output("logits", graph.Value(v))
		}
	}
	p, err := compile.Step(g, compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	load, err := compile.Step(model.RestoreGraph("load", model.StoredStates(g)...), compile.Options{Machine: cost.Laptop2()})
	if err != nil {
		t.Fatal(err)
	}
	j, err := compile.NewJob(mem.Usage{}, p, load)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newRef().Open(j, device.Env{Ledger: mem.NewLedger(mem.Limits{})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := len(tokens)
	positions, sequences, table, targets := make([]int32, n), make([]int32, n), make([]int32, n/o.KVBlock()), make([]int32, n)
	model.FillStatic(o, 0, positions, sequences, table)
	err = s.Run("load", device.Args{Source: fill(c, nil)})
	for name, v := range map[string][]int32{
		model.TokensInput: tokens, model.PositionsInput: positions, model.SequencesInput: sequences, model.TableInput: table, model.TargetsInput: targets,
	} {
		err = errors.Join(err, s.Write(name, 0, bytesOf(v)))
	}
	out := make([]byte, 4*n*c.VocabSize)
	err = errors.Join(err, s.Write(model.LossWeightInput, 0, bytesOf([]float32{1})), s.Run("naive", device.Args{}), s.Read("logits", 0, out))
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]float32, n)
	for i := range rows {
		for k := range c.VocabSize {
			rows[i] = append(rows[i], math.Float32frombits(binary.LittleEndian.Uint32(out[4*(i*c.VocabSize+k):])))
		}
	}
	return rows
}

// TestLikeTraining compares the engine with the forward half of a training step over the whole text, which knows nothing
// of caches, blocks or chunks. On ref both run the same loops, so the numbers are the same to the bit; on cpu a choice may
// differ only where two tokens are within the devices' distance.
func TestLikeTraining(t *testing.T) {
	for _, kind := range []string{model.Llama, model.Mixtral, model.GPT2} {
		c := tiny(kind)
		o := base(c)
		o.BlockSize, o.PrefillChunk = 4, 7
		for _, r := range requests() {
			for _, dev := range []device.Device{newRef(), newCPU(1)} {
				o.MaxSeqs = 1
				got := alone(t, dev, o, r)[r.ID+"/0"]
				logits := trainLogits(t, c, slices.Concat(r.Prompt, got.Tokens))
				s, err := sample.New(c.VocabSize, sample.Scratch{Weights: make([]float32, c.VocabSize), IDs: make([]int32, c.VocabSize), Counts: make([]int32, c.VocabSize)})
				if err != nil {
					t.Fatal(err)
				}
				for i := range got.Tokens {
					want, err := s.Sample(sample.Row{Logits: logits[len(r.Prompt)-1+i], Prompt: r.Prompt, Output: got.Tokens[:i]}, &r.Params)
					if err != nil {
						t.Fatal(err)
					}
					if dev.Name() == "ref" {
						g := sample.Choice{Token: got.Tokens[i], Logprob: got.Logprobs[i], Top: got.Top[i]}
						if diff := gocmp.Diff(want, g); diff != "" {
							t.Fatalf("%s, request %s, token %d on ref (-training +serving):\n%s", kind, r.ID, i, diff)
						}
						continue
					}
					const eps = 1e-3 // of log probabilities: f32 sums of 48 terms through 2 layers, in another order
					gap := want.Top[0].Logprob - want.Top[1].Logprob
					if want.Token != got.Tokens[i] && gap > eps {
						t.Fatalf("%s, request %s, token %d on cpu: got %d, want %d, which leads by %g", kind, r.ID, i, got.Tokens[i], want.Token, gap)
					}
					if d := math.Abs(float64(want.Logprob - got.Logprobs[i])); want.Token == got.Tokens[i] && d > eps {
						t.Fatalf("%s, request %s, token %d on cpu: log probability is off by %g", kind, r.ID, i, d)
					}
				}
			}
		}
	}
}

func TestGenerate(t *testing.T) {
	o := base(tiny(model.Llama))
	r := requests()[1]
	want := alone(t, newCPU(1), o, r)["mid/0"].Tokens
	o.MaxSeqs = 1
	e := open(t, newCPU(1), o, nil)
	var streamed []int32
	got, err := e.Generate(context.Background(), r, func(x Event) error {
		streamed = append(streamed, x.Token)
		return nil
	})
	if err != nil || len(got) != 1 || !slices.Equal(got[0].Tokens, want) || !slices.Equal(streamed, want) {
		t.Fatalf("got %v and streamed %v (%v), want %v", got, streamed, err, want)
	}
	if s := e.Stats(); s.Tokens != int64(len(want)) || s.Rows != int64(len(r.Prompt)+len(want)-1) || s.Passes != int64(len(want)) {
		t.Errorf("stats: got %+v", s)
	}

	// Stopped by the reader, and by the context; the next request finds an idle engine.
	enough := errors.New("enough")
	n := 0
	got, err = e.Generate(context.Background(), r, func(Event) error {
		if n++; n == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(got[0].Tokens) != 3 || !e.Idle() {
		t.Errorf("got %v, %v and idle %v, want the reader's error after 3 tokens", got, err, e.Idle())
	}
	ctx, cancel := context.WithCancel(context.Background())
	got, err = e.Generate(ctx, r, func(Event) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || len(got[0].Tokens) != 1 || !e.Idle() {
		t.Errorf("got %v, %v and idle %v, want a cancelled request with 1 token", got, err, e.Idle())
	}
	if s := e.Stats(); s.Pool.Live != 0 {
		t.Errorf("%d blocks are live in an idle engine", s.Pool.Live)
	}
}

// TestCancel ends requests in the queue and in the middle; the others do not notice.
func TestCancel(t *testing.T) {
	o := base(tiny(model.Llama))
	want := alone(t, newCPU(1), o, requests()[0])
	o.MaxSeqs = 2
	e := open(t, newCPU(1), o, nil)
	add(t, e, requests()...)
	got := drive(t, e, func(step int) {
		switch step {
		case 1:
			if !e.Cancel("long") { // waits: two run
				t.Error("no request to cancel in the queue")
			}
		case 4:
			if !e.Cancel("mid") || e.Cancel("mid") {
				t.Error("want to cancel a running request once")
			}
		}
	})
	delete(got, "mid/0")
	same(t, "beside cancelled requests", got, want)
	if e.Cancel("short") {
		t.Error("cancelled a request that is done")
	}
	if s := e.Stats(); s.Pool.Live != 0 || len(e.active) != 0 {
		t.Errorf("left behind: %d live blocks, requests %v", s.Pool.Live, e.active)
	}
}

func TestStepAllocates(t *testing.T) {
	o := base(tiny(model.Llama))
	o.Context = 512
	e := open(t, newCPU(1), o, nil)
	for _, r := range requests() {
		r.MaxTokens = 300
		add(t, e, r)
	}
	step := func() {
		if _, err := e.Step(); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n > 0 {
		t.Errorf("a step of three decodes allocates %v times, want none", n)
	}
}
