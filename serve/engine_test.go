package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/ref"
	"loadline/mem"
	"loadline/model"
	"loadline/serve/sample"
	"loadline/serve/sched"
	"loadline/tensor/kernel"

	"github.com/google/go-cmp/cmp/cmpopts"

	gocmp "github.com/google/go-cmp/cmp"
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

// fill makes weights large enough for the model to have opinions.
func fill(c model.Config, edit func(name string, w []float32)) Source {
	params := map[string]model.Param{}
	for _, p := range c.Parameters() {
		p.Init.Std *= 12
		params[p.Name] = p
	}
	done := map[string]int{}
	return func(state string, b []byte) error {
		p, ok := params[state]
		if !ok {
			return fmt.Errorf("no weight %q", state)
		}
		w := make([]float32, p.Elems())
		model.Fill(p, 1, 0, w)
		if edit != nil {
			edit(state, w)
		}
		for i := range len(b) / 4 {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(w[done[state]+i]))
		}
		done[state] = (done[state] + len(b)/4) % len(w)
		return nil
	}
}

func newCPU(threads int) device.Device {
	return cpu.New(cpu.Options{Threads: threads, Set: kernel.Best()})
}

func newRef() device.Device { return ref.New(ref.F32) }

// open makes an engine and closes it with the test, checking that the ledger comes back to nothing.
func open(t testing.TB, dev device.Device, o Options, weights Source) *Engine {
	t.Helper()
	j, err := Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	l := mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()}) // not a byte more
	if weights == nil {
		weights = fill(o.Config, nil)
	}
	e, err := New(j, dev, device.Env{Ledger: l}, weights)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if u := l.InUse(); u != (mem.Usage{}) {
			t.Errorf("after Close: %v is still booked", u)
		}
	})
	return e
}

// answer is what a sample got: tokens with the log probabilities that the model gave, to the bit.
type answer struct {
	Tokens   []int32
	Logprobs []float32
	Top      [][]sample.TokenLogprob
	Finished sched.Reason
	Cached   int
}

// drive steps the engine until it is idle. between is called before every step and may be nil.
func drive(t testing.TB, e *Engine, between func(step int)) map[string]*answer {
	t.Helper()
	all := map[string]*answer{}
	for step := 0; !e.Idle(); step++ {
		if step > 5000 {
			t.Fatal("the engine does not come to an end")
		}
		if between != nil {
			between(step)
		}
		events, err := e.Step()
		if err != nil {
			t.Fatal(err)
		}
		if err := e.pool.Check(); err != nil {
			t.Fatal(err)
		}
		for _, x := range events {
			if x.Kind == Failed {
				t.Fatal(x.Err)
			}
			if x.Kind != Token {
				continue
			}
			key := fmt.Sprintf("%s/%d", x.ID, x.Index)
			a := all[key]
			if a == nil {
				a = &answer{}
				all[key] = a
			}
			a.Tokens, a.Logprobs, a.Top = append(a.Tokens, x.Token), append(a.Logprobs, x.Logprob), append(a.Top, slices.Clone(x.Top))
			a.Finished, a.Cached = x.Finished, x.Cached
		}
	}
	return all
}

// prompt is n tokens that look like nothing in particular.
func prompt(n, seed int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32((i*i*7 + i*seed + seed*13) % 61)
	}
	return p
}

// requests are greedy, of lengths on both sides of blocks, chunks and attention's 128 keys.
func requests() []Request {
	greedy := sample.Params{Logprobs: true, TopLogprobs: 5}
	return []Request{
		{ID: "short", Prompt: prompt(3, 1), Params: greedy, MaxTokens: 20},
		{ID: "mid", Prompt: prompt(37, 2), Params: greedy, MaxTokens: 30},
		{ID: "long", Prompt: prompt(129, 3), Params: greedy, MaxTokens: 12},
	}
}

func add(t testing.TB, e *Engine, rs ...Request) {
	t.Helper()
	for _, r := range rs {
		if err := e.Add(r); err != nil {
			t.Fatal(err)
		}
	}
}

func base(c model.Config) Options { return Options{Config: c, Context: 160, MaxSeqs: 3} }

// alone answers every request on an engine of its own.
func alone(t testing.TB, dev device.Device, o Options, rs ...Request) map[string]*answer {
	t.Helper()
	all := map[string]*answer{}
	for _, r := range rs {
		o.MaxSeqs = max(1, r.N)
		e := open(t, dev, o, nil)
		add(t, e, r)
		for k, a := range drive(t, e, nil) {
			all[k] = a
		}
	}
	return all
}

var ignoreCached = cmpopts.IgnoreFields(answer{}, "Cached")

func same(t *testing.T, what string, got, want map[string]*answer) {
	t.Helper()
	if diff := gocmp.Diff(want, got, ignoreCached); diff != "" {
		t.Errorf("%s: answers differ (-want +got):\n%s", what, diff)
	}
}

// TestBudgetNeverChangesTheAnswer runs the same requests under everything that a budget may change, and compares tokens
// and log probabilities to the bit.
func TestBudgetNeverChangesTheAnswer(t *testing.T) {
	for _, dev := range []struct {
		name string
		dev  device.Device
	}{{"ref", newRef()}, {"cpu", newCPU(1)}} {
		for _, kind := range []string{model.Llama, model.Mixtral, model.GPT2} {
			t.Run(dev.name+"/"+kind, func(t *testing.T) {
				o := base(tiny(kind))
				rs := requests()
				want := alone(t, dev.dev, o, rs...)
				seen := map[int32]bool{}
				for _, a := range want {
					for _, tok := range a.Tokens {
						seen[tok] = true
					}
				}
				if len(seen) < 10 {
					t.Errorf("the answers have only %d different tokens, which tests little", len(seen))
				}
				run := func(what string, o Options, between func(*Engine, int), rs ...Request) *Engine {
					t.Helper()
					e := open(t, dev.dev, o, nil)
					add(t, e, rs...)
					var b func(int)
					if between != nil {
						b = func(step int) { between(e, step) }
					}
					same(t, what, drive(t, e, b), want)
					return e
				}
				for _, block := range []int{4, 16, 64} {
					for _, chunk := range []int{1, 7, 128} {
						if chunk == 1 && block != 4 && dev.name == "ref" {
							continue // slow, and the same code
						}
						x := o
						x.BlockSize, x.PrefillChunk = block, chunk
						run(fmt.Sprintf("blocks of %d, chunks of %d", block, chunk), x, nil, rs...)
					}
				}
				run("another order", o, nil, rs[2], rs[0], rs[1])

				e := run("after forced preemptions", o, func(e *Engine, step int) {
					if step%5 == 3 {
						e.sched.ForcePreempt(rs[step/5%3].ID)
					}
				}, rs...)
				if n := e.Stats().Sched.Preemptions; n < 3 {
					t.Errorf("forced preemptions: got %d", n)
				}

				x := o
				x.BlockSize, x.Blocks = 4, x.Context/4+6 // too little for all three
				if e := run("a pool that runs dry", x, nil, rs...); e.Stats().Sched.Preemptions == 0 {
					t.Error("a pool that runs dry: got no preemption")
				}

				x = o
				x.NoCache = true
				run("without prefix cache", x, nil, rs...)

				e = open(t, dev.dev, o, nil)
				add(t, e, rs...)
				drive(t, e, nil)
				add(t, e, rs...)
				again := drive(t, e, nil)
				same(t, "from the prefix cache", again, want)
				if got := again["long/0"].Cached; got != 128 {
					t.Errorf("cached prompt tokens: got %d, want 128", got)
				}
			})
		}
	}
}

func TestThreads(t *testing.T) {
	o := base(tiny(model.Llama))
	want := alone(t, newCPU(1), o, requests()...)
	e := open(t, newCPU(2), o, nil)
	add(t, e, requests()...)
	same(t, "2 threads", drive(t, e, nil), want)
}

// TestSamples forks a request's prompt: greedy samples are all the same, drawn ones differ and depend on nothing else.
func TestSamples(t *testing.T) {
	for _, dev := range []device.Device{newRef(), newCPU(1)} {
		o := base(tiny(model.Llama))
		o.BlockSize = 4
		one := requests()[1]
		want := alone(t, dev, o, one)["mid/0"]
		three := one
		three.N = 3
		e := open(t, dev, o, nil)
		add(t, e, three)
		got := drive(t, e, nil)
		if len(got) != 3 {
			t.Fatalf("got %d samples, want 3", len(got))
		}
		for k, a := range got {
			if diff := gocmp.Diff(want, a, ignoreCached); diff != "" {
				t.Errorf("%s: greedy sample %s differs (-want +got):\n%s", dev.Name(), k, diff)
			}
		}
		if s := e.Stats(); s.Pool.Copied == 0 {
			t.Errorf("%s: no block was copied for writing", dev.Name())
		}

		three.Params.Temperature, three.Params.TopP, three.Params.Seed = 1.2, 0.9, 5
		drawn := alone(t, dev, o, three)
		if slices.Equal(drawn["mid/0"].Tokens, drawn["mid/1"].Tokens) {
			t.Errorf("%s: two drawn samples are the same", dev.Name())
		}
		o.BlockSize, o.PrefillChunk, o.MaxSeqs = 16, 7, 5
		e = open(t, dev, o, nil)
		add(t, e, requests()[2], three, requests()[0])
		got = drive(t, e, func(step int) {
			if step == 25 {
				e.sched.ForcePreempt("mid")
			}
		})
		delete(got, "long/0")
		delete(got, "short/0")
		same(t, dev.Name()+" drawn samples among others", got, drawn)
	}
}

// TestStop ends with a stop token, which is reported.
func TestStop(t *testing.T) {
	o := base(tiny(model.Llama))
	r := requests()[1]
	want := alone(t, newRef(), o, r)["mid/0"]
	r.Stop = []int32{want.Tokens[4]}
	got := alone(t, newRef(), o, r)["mid/0"]
	end := slices.Index(want.Tokens, want.Tokens[4]) + 1
	if !slices.Equal(got.Tokens, want.Tokens[:end]) || got.Finished != sched.Stop || want.Finished != sched.Length {
		t.Errorf("got %v %v, want %v stop", got.Tokens, got.Finished, want.Tokens[:end])
	}
}

// flaky is a device whose third pass fails, once.
type flaky struct{ device.Device }

type flakySession struct {
	device.Session
	runs int
}

var errFlaky = errors.New("the device slipped")

func (f flaky) Open(j *compile.Job, env device.Env) (device.Session, error) {
	s, err := f.Device.Open(j, env)
	return &flakySession{Session: s}, err
}

func (s *flakySession) Run(program string, a device.Args) error {
	if program == passProgram {
		if s.runs++; s.runs == 3 {
			return errFlaky
		}
	}
	return s.Session.Run(program, a)
}

func TestFailedPassIsRunAgain(t *testing.T) {
	o := base(tiny(model.Llama))
	want := alone(t, newCPU(1), o, requests()...)
	e := open(t, flaky{newCPU(1)}, o, nil)
	add(t, e, requests()...)
	for range 2 {
		if _, err := e.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Step(); !errors.Is(err, errFlaky) {
		t.Fatalf("got %v, want the device's error", err)
	}
	got := drive(t, e, nil)
	for k, a := range got {
		w := want[k].Tokens
		if !slices.Equal(a.Tokens, w[len(w)-len(a.Tokens):]) {
			t.Errorf("%s: got %v, want the end of %v", k, a.Tokens, w)
		}
	}
}

// TestFailureIsOneRequests feeds one of two requests a token whose embedding is not a number.
func TestFailureIsOneRequests(t *testing.T) {
	o := base(tiny(model.Llama)) // not tied: the head is clean
	good := requests()[1]
	want := alone(t, newCPU(1), o, good)["mid/0"].Tokens
	var bad int32
	for slices.Contains(good.Prompt, bad) || slices.Contains(want, bad) {
		bad++
	}
	e := open(t, newCPU(1), o, fill(o.Config, func(name string, w []float32) {
		if name == "model.embed_tokens.weight" {
			w[int(bad)*o.Config.HiddenSize] = float32(math.NaN())
		}
	}))
	add(t, e, good, Request{ID: "bad", Prompt: []int32{5, bad, 5}, MaxTokens: 9})
	var tokens []int32
	var failed error
	for !e.Idle() {
		events, err := e.Step()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range events {
			switch {
			case x.Kind == Failed && x.ID == "bad" && failed == nil:
				failed = x.Err
			case x.Kind == Token && x.ID == "mid":
				tokens = append(tokens, x.Token)
			default:
				t.Errorf("unexpected event %+v", x)
			}
		}
	}
	var le *sample.LogitError
	if !errors.As(failed, &le) {
		t.Errorf("got %v, want a *sample.LogitError", failed)
	}
	if !slices.Equal(tokens, want) {
		t.Errorf("the batch-mate got %v, want %v", tokens, want)
	}
}
