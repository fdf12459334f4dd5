package train

import (
	"errors"
	"math"
	"strings"
	"testing"

	"loadline/collective"
	"loadline/compile"
	"loadline/device/ref"
	"loadline/mem"
	"loadline/model"
	"loadline/train/checkpoint"
)

// Rates against values worked out by hand.
func TestRate(t *testing.T) {
	base := Options{LR: 0.01, MinLR: 0.1, Steps: 100, Warmup: 10}
	for _, c := range []struct {
		schedule Schedule
		decay    int
		want     map[int64]float64
	}{
		{Constant, 0, map[int64]float64{0: 0.001, 4: 0.005, 9: 0.01, 10: 0.01, 99: 0.01}},
		// At the middle of the fall, step 55, the cosine is 0: 0.01·(0.1+0.9·½); at 32.5+… a quarter in, step 40 has cos(π/3) = ½.
		{Cosine, 0, map[int64]float64{0: 0.001, 9: 0.01, 10: 0.01, 40: 0.01 * (0.1 + 0.9*0.75), 55: 0.0055, 70: 0.01 * (0.1 + 0.9*0.25), 100: 0.001}},
		{WSD, 20, map[int64]float64{0: 0.001, 10: 0.01, 79: 0.01, 80: 0.01 * (1 - 0.9/20), 89: 0.0055, 99: 0.001}},
	} {
		o := base
		o.Schedule, o.Decay = c.schedule, c.decay
		for step, want := range c.want {
			if got := o.Rate(step); math.Abs(got-want) > 1e-15 {
				t.Errorf("%s step %d: got %v, want %v", c.schedule, step, got, want)
			}
		}
	}
}

// Each wrong setting is named by its flag.
func TestValidate(t *testing.T) {
	good := options(tiny())
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, change := range map[string]func(o *Options){
		"precision": func(o *Options) { o.Precision = "fp8" }, "attention": func(o *Options) { o.Attention = "linear" },
		"accumulate": func(o *Options) { o.Accumulate = 0 }, "steps": func(o *Options) { o.Steps = 0 }, "ranks": func(o *Options) { o.Ranks = 0 },
		"lr": func(o *Options) { o.LR = math.NaN() }, "min-lr": func(o *Options) { o.MinLR = 2 }, "schedule": func(o *Options) { o.Schedule = "linear" },
		"warmup": func(o *Options) { o.Schedule, o.Warmup, o.Decay = WSD, 4, 4 }, "clip": func(o *Options) { o.Clip = -1 },
		"weight-decay": func(o *Options) { o.WeightDecay = math.Inf(1) }, "head-chunk": func(o *Options) { o.HeadChunk = 100 },
		"zero": func(o *Options) { o.Zero = 1 }, "optimizer": func(o *Options) { o.Beta2 = 1 }, "memory": func(o *Options) { o.Memory = -1 },
		"clip ": func(o *Options) { o.Clip = 1e-46 }, "lr ": func(o *Options) { o.LR = 1e39 }, "lr  ": func(o *Options) { o.LR = 1e-60 },
		"ranks ": func(o *Options) { o.Ranks = 1025 }, "accumulate ": func(o *Options) { o.Accumulate = 1 << 50 },
		"accumulate  ": func(o *Options) { o.Accumulate, o.Batch = math.MaxInt, 1 }, "steps ": func(o *Options) { o.Steps = math.MaxInt },
		"warmup ":   func(o *Options) { o.Schedule, o.Warmup, o.Decay = WSD, math.MaxInt, 4 },
		"recompute": func(o *Options) { o.Recompute = compile.Recompute{Policy: compile.Tags, Tags: []string{"head"}} },
		"offload":   func(o *Options) { o.Offload, o.Machine.Link = true, [4]float64{} }, "keep": func(o *Options) { o.Keep = -1 },
		"optimizer ": func(o *Options) { o.Optimizer, o.Beta1 = compile.Lion, -1 }, "master": func(o *Options) { o.Precision, o.NoMaster = "fp16", true },
		"label-smoothing": func(o *Options) { o.LabelSmoothing = 1 }, "z-loss": func(o *Options) { o.ZLoss = -1 },
		"nesterov": func(o *Options) { o.Optimizer, o.Nesterov = compile.SGD, true }, "momentum": func(o *Options) { o.Optimizer, o.Momentum = compile.SGD, 1 },
		"precision ": func(o *Options) { o.Precision, o.LossScale.Start = "fp16", 3 },
	} {
		o := good
		change(&o)
		var bad *OptionError
		if _, err := Compile(o, ref.New(ref.F32), FixedBytes{}); !errors.As(err, &bad) || bad.Option != strings.TrimSpace(flag) {
			t.Errorf("%s: got %v, want an *OptionError about it", flag, err)
		}
	}
	o := good
	o.Dropout = 1
	if err := o.Validate(); err == nil {
		t.Error("dropout 1: got no error")
	}
}

// The automatic chunk of the loss head keeps logits within 2 MiB, in whole blocks of 128 rows.
func TestChunk(t *testing.T) {
	for vocab, want := range map[int]int{1024: 512, 1000: 512, 128: 4096, 4096: 128, 151936: 128} {
		o := Options{Config: model.Config{VocabSize: vocab}}
		if got := o.chunk(); got != want {
			t.Errorf("vocabulary of %d: got %d rows, want %d", vocab, got, want)
		}
	}
}

// A loss that is no number stops the run with the newest checkpoint's name, and nothing is saved after it.
func TestNonFinite(t *testing.T) {
	o := options(tiny())
	o.LR, o.Clip, o.Warmup, o.Schedule, o.SaveEvery, o.WeightDecay = 1e30, 0, 0, Constant, 1, 0
	dir := t.TempDir()
	s := setup{out: &checkpoint.Dir{Path: dir}}
	tr, err := open(planned(t, o, s), nil, s)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	_, err = tr.Run(t.Context(), Hooks{})
	var bad *NonFiniteError
	if !errors.As(err, &bad) || bad.Step != 2 || finite(bad.Value) || bad.What != "loss" || bad.Checkpoint != tr.Checkpoint() {
		t.Fatalf("got %v, want a *NonFiniteError of step 2", err)
	}
	if _, err := tr.Save(); !errors.As(err, &bad) {
		t.Errorf("saving afterwards: got %v, want the same error", err)
	}
	if e, err := checkpoint.Latest(dir); err != nil || e.Step != 1 {
		t.Errorf("got newest checkpoint %v, %v, want step 1", e, err)
	}
}

// What is found first is the same where values lie below in between.
func TestNonFiniteBelow(t *testing.T) {
	var want NonFiniteError
	for i, way := range []func(o *Options){
		func(*Options) {}, func(o *Options) { o.Offload = true }, func(o *Options) { o.Offload, o.DeviceMemory = true, mem.GiB },
		func(o *Options) { o.OffloadOptimizer, o.piece = true, 1 }, func(o *Options) { o.Offload, o.OffloadOptimizer, o.piece = true, true, 1 },
	} {
		o := options(tiny())
		o.LR, o.Clip, o.Warmup, o.Schedule, o.WeightDecay, o.Batch, o.Accumulate = 1e30, 0, 0, Constant, 0, 16, 2
		way(&o)
		s := setup{dir: t.TempDir()}
		job := planned(t, o, s)
		if u := job.Promise.Peak[o.OffloadTier()]; o.Offload && u[mem.Activations] == 0 {
			t.Fatalf("%v: no activations lie below", o.Offloads())
		}
		tr, err := open(job, nil, s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tr.Run(t.Context(), Hooks{})
		bad, ok := err.(*NonFiniteError) // and nothing beside it
		if !ok || bad.Computed == "" {
			t.Fatalf("%v: got %v, want a *NonFiniteError with what was computed", o.Offloads(), err)
		}
		if i == 0 {
			want = *bad
		}
		if bad.Computed != want.Computed || bad.Step != want.Step {
			t.Errorf("%v: got %v, want %v", o.Offloads(), bad, &want)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Ranks with different programs are told apart before anything runs.
func TestDifferentPrograms(t *testing.T) {
	o := options(tiny())
	o.Batch, o.Ranks = 2, 2
	other := o
	other.Recompute.Policy = compile.Full
	jobs := []*Job{planned(t, o, setup{}), planned(t, other, setup{})}
	for rank, err := range onRanks(t, 2, func(g collective.Group) error {
		tr, err := open(jobs[g.Rank()], g, setup{})
		if tr != nil {
			return errors.Join(err, tr.Close())
		}
		return err
	}) {
		if err == nil || err.Error() != "train: rank 1 has another program than rank 0: the same binary, settings and checkpoint are wanted on all ranks" {
			t.Errorf("rank %d: got %v", rank, err)
		}
	}
}

// The reference device keeps the promise too, and its losses are cpu's within 1e-5.
func TestReferenceDevice(t *testing.T) {
	for _, c := range []model.Config{tiny(), tinyMoE(), tinyGPT2()} {
		o := options(c)
		o.Steps = 3
		want := train(t, o, setup{device: ref.New(ref.F32)})
		got := train(t, o, setup{})
		for i := range want.losses {
			if d := math.Abs(float64(got.losses[i] - want.losses[i])); d > 1e-5 {
				t.Errorf("%s step %d: got %v on cpu, %v on ref", c.ModelType, i+1, got.losses[i], want.losses[i])
			}
		}
	}
}

// A step allocates no more than a few small objects, whatever the batch.
func TestStepAllocations(t *testing.T) {
	o := options(tiny())
	for _, o.Precision = range precisions {
		tr, err := open(planned(t, o, setup{}), nil, setup{})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		tr.losses = make([]float32, 0, 1000)
		if n := testing.AllocsPerRun(20, func() {
			if _, err := tr.Step(); err != nil {
				t.Fatal(err)
			}
		}); n > 10 {
			t.Errorf("%s: got %v allocations a step, want at most 10", o.Precision, n)
		} else {
			t.Logf("%s: %v allocations a step", o.Precision, n)
		}
	}
}
