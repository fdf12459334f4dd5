package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"loadline/collective"
	"loadline/collective/local"
	"loadline/compile"
	"loadline/data"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train/checkpoint"
)

// goldenDir holds what PyTorch computed.
const goldenDir = "../model/testdata/golden"

// text is a corpus of bytes below 128.
var text = sync.OnceValue(func() data.Tokens {
	p, err := os.ReadFile(filepath.Join(goldenDir, "text.bin"))
	if err != nil {
		panic(err)
	}
	out := make(data.Tokens, len(p))
	for i, b := range p {
		out[i] = int32(b & 127)
	}
	return out
})

// tiny is a model that trains in a moment. Its embedding has more than one block of elements, so that ZeRO cuts it.
func tiny() model.Config {
	return model.Config{
		ModelType: model.Llama, HiddenSize: 48, NumLayers: 2, NumHeads: 4, NumKVHeads: 2, HeadDim: 12, IntermediateSize: 96, VocabSize: 128,
		MaxPositionEmbeddings: 64, RMSNormEps: 1e-5, RopeTheta: 10000, TieWordEmbeddings: true, HiddenAct: "silu", BOSTokenID: -1,
	}
}

func tinyMoE() model.Config {
	c := tiny()
	c.ModelType, c.NumLocalExperts, c.NumExpertsPerTok = model.Mixtral, 4, 2
	return c
}

func tinyGPT2() model.Config {
	return model.Config{
		ModelType: model.GPT2, HiddenSize: 48, NumLayers: 2, NumHeads: 4, NumKVHeads: 4, HeadDim: 12, IntermediateSize: 96, VocabSize: 128,
		MaxPositionEmbeddings: 64, LayerNormEps: 1e-5, TieWordEmbeddings: true, HiddenAct: "gelu_new", BOSTokenID: -1,
	}
}

// options are those of a short run.
func options(c model.Config) Options {
	o := Defaults(c)
	o.Batch, o.Seq, o.Steps, o.Warmup, o.LR = 4, 16, 6, 2, 5e-3
	return o
}

// setup is how a test run differs from the plain one.
type setup struct {
	out    *checkpoint.Dir
	resume string
	weight string
	dir    string
	device device.Device // nil is cpu with one thread
	batch  func(rank int) Batches
	steps  int // after which a run is interrupted; 0 is to the end
}

func (s *setup) dev() device.Device {
	if s.device == nil {
		return cpu.New(cpu.Options{Threads: 1, Set: kernel.Best()})
	}
	return s.device
}

// plans holds what planned has made, by options.
var plans sync.Map

// planned compiles a job without a fixed part.
func planned(t testing.TB, o Options, s setup) *Job {
	t.Helper()
	key := fmt.Sprintf("%+v %v", o, s.device)
	if j, ok := plans.Load(key); ok {
		return j.(*Job)
	}
	j, err := Compile(o, s.dev(), FixedBytes{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range j.Programs {
		if err := compile.Verify(p); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
	}
	plans.Store(key, j)
	return j
}

// onRanks runs f on every rank, as goroutines.
func onRanks(t testing.TB, ranks int, f func(g collective.Group) error) []error {
	t.Helper()
	if ranks == 1 {
		return []error{f(nil)}
	}
	w, err := local.NewWorld(ranks, local.Options{WindowBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, ranks)
	var wg sync.WaitGroup
	for rank := range ranks {
		g, err := w.Join(rank, nil)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			errs[rank] = f(g)
			if err := g.Close(); err != nil && errs[rank] == nil {
				errs[rank] = err
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return errs
}

// open makes a Trainer of one rank.
func open(job *Job, g collective.Group, s setup) (*Trainer, error) {
	o := &job.Options
	rank := 0
	if g != nil {
		rank = g.Rank()
	}
	do := data.Options{Batch: o.Batch, Seq: o.Seq, Seed: 7, Rank: rank, Ranks: o.Ranks}
	e := Env{Ledger: mem.NewLedger(mem.Limits{}), Group: g, Out: s.out, Resume: s.resume, Weights: s.weight, Dir: s.dir}
	if s.batch != nil {
		e.Train = s.batch(rank)
	} else {
		stream, err := data.NewStream(text(), do)
		if err != nil {
			return nil, err
		}
		e.Train = stream
	}
	if o.EvalEvery > 0 {
		val, err := data.NewSequence(text()[:16*11+1], do)
		if err != nil {
			return nil, err
		}
		e.Val = val
	}
	return New(job, s.dev(), e)
}

// result is what a run leaves on one rank.
type result struct {
	losses []float32
	vals   []checkpoint.ValLoss
	norms  []float32
	path   string
}

// train runs to the end and returns rank 0's result; every rank must have the same losses, and have kept its promise.
func train(t testing.TB, o Options, s setup) result {
	t.Helper()
	return trainJob(t, planned(t, o, s), s)
}

// trainJob is train for a job that is planned.
func trainJob(t testing.TB, job *Job, s setup) result {
	t.Helper()
	o := &job.Options
	results := make([]result, o.Ranks)
	for rank, err := range onRanks(t, o.Ranks, func(g collective.Group) error {
		tr, err := open(job, g, s)
		if err != nil {
			return err
		}
		r := &results[tr.group.Rank()]
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		step := func(x StepResult) {
			if r.norms = append(r.norms, x.GradNorm); len(r.norms) == s.steps {
				stop()
			}
		}
		if _, err := tr.Run(ctx, Hooks{Step: step}); err != nil {
			tr.Close()
			return err
		}
		r.losses, r.vals, r.path = tr.Losses(), tr.ValLosses(), tr.Checkpoint()
		if err := tr.Check(); err != nil {
			t.Error(err)
		}
		if err := tr.Close(); err != nil {
			return err
		}
		if u := tr.env.Ledger.InUse(); u != (mem.Usage{}) {
			t.Errorf("after Close: the ledger holds %v", u)
		}
		return nil
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	for _, r := range results[1:] {
		sameBits(t, "a rank's losses", r.losses, results[0].losses)
	}
	return results[0]
}

// sameBits fails unless two series are equal to the bit.
func sameBits(t testing.TB, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d values, want %d", what, len(got), len(want))
		return
	}
	for i := range got {
		if got[i] != want[i] { // NaN has no place here either
			t.Errorf("%s: at %d: got %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}
