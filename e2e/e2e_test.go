// Package e2e holds the promises end to end, by tests alone: every byte is planned, and the budget never changes the answer.
//
//	timeline_test.go   on ref, what the counting allocator holds is what Timeline says, at every instruction
//	bits_test.go       the loss has the same bits whatever the memory techniques, threads, chunks and division among ranks are
//	matrix_test.go     in every precision and set of kernels, stopped and resumed, and the bytes are those that were planned
//	alloc_test.go      from its second run on, a program allocates nothing on the Go heap
//	poison_test.go     and whether dead memory is overwritten or not
//	generate_test.go   the tokens are the same whatever blocks, chunks, batch-mates and preemption are
//	curve_test.go      every kernel set trains along PyTorch's curves
//	smollm2_test.go    real weights continue texts, and foretell one, as llama.cpp does with them
//	packed_test.go     and as they lie in their file, where llama.cpp agrees with itself
//	tune_test.go       training goes on from quantised weights as in PyTorch, and what it writes is run
//	quantised_test.go  quantised checkpoints run in the bytes of their codes, and as their values say
//	process_test.go    processes stay under their limit, and go on where they were killed
//
// What a single package promises by itself is tested there. Models are tiny: what is tested is that two ways lead to one result.
package e2e

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"loadline/collective"
	"loadline/collective/local"
	"loadline/compile"
	"loadline/data"
	"loadline/data/corpus"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train"
	"loadline/train/checkpoint"
)

// vocab is more than one of the blocks that ZeRO cuts at, times the width of the models.
const vocab = 160

// text is the beginning of the corpus, a token a byte.
var text = sync.OnceValue(func() data.Tokens {
	p := make([]byte, 32<<10)
	if _, err := io.ReadFull(corpus.Text(), p); err != nil {
		panic(err)
	}
	out := make(data.Tokens, len(p))
	for i, b := range p {
		out[i] = int32(b) % vocab
	}
	return out
})

// dense is a Llama that trains in a moment; its largest tensors are more than one block, so that ZeRO cuts them.
func dense(layers int) model.Config {
	return model.Config{
		ModelType: model.Llama, HiddenSize: 32, NumLayers: layers, NumHeads: 4, NumKVHeads: 2, HeadDim: 8, IntermediateSize: 144, VocabSize: vocab,
		MaxPositionEmbeddings: 256, RMSNormEps: 1e-5, RopeTheta: 10000, TieWordEmbeddings: true, HiddenAct: "silu", BOSTokenID: -1,
	}
}

// experts is the same as a mixture of four experts.
func experts(layers int) model.Config {
	c := dense(layers)
	c.ModelType, c.IntermediateSize, c.NumLocalExperts, c.NumExpertsPerTok = model.Mixtral, 48, 4, 2
	return c
}

// gpt2 has LayerNorm, biases, GELU and learned positions.
func gpt2(layers int) model.Config {
	return model.Config{
		ModelType: model.GPT2, HiddenSize: 32, NumLayers: layers, NumHeads: 4, NumKVHeads: 4, HeadDim: 8, IntermediateSize: 144, VocabSize: vocab,
		MaxPositionEmbeddings: 256, LayerNormEps: 1e-5, TieWordEmbeddings: true, HiddenAct: "gelu_new", BOSTokenID: -1,
	}
}

// newCPU is the processor with the best kernels.
func newCPU(threads int) device.Device {
	return cpu.New(cpu.Options{Threads: threads, Set: kernel.Best()})
}

// setup is how a run is made besides its options.
type setup struct {
	device  func(rank int) device.Device // nil is cpu with one thread
	fixed   train.FixedBytes             // reserved before New
	out     string                       // directory of checkpoints; empty saves none
	resume  string
	weights string
	batches func() train.Batches // nil is the corpus
	loose   bool                 // the device reserves bytes of its own: do not compare promise and fact
}

func (s *setup) dev(rank int) device.Device {
	if s.device == nil {
		return newCPU(1)
	}
	return s.device(rank)
}

// result is what a run leaves.
type result struct {
	losses, norms []float32
	vals          []checkpoint.ValLoss
	path          string // of the last checkpoint
}

// plan compiles a run and verifies every program.
func plan(t testing.TB, o train.Options, s setup) *train.Job {
	t.Helper()
	j, err := train.Compile(o, s.dev(0), s.fixed)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	for _, p := range j.Programs {
		if err := compile.Verify(p); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
	}
	return j
}

// execute runs a job to its end on all ranks, as goroutines. All ranks must have the same losses, and each must have kept the promise.
func execute(t testing.TB, j *train.Job, s setup) result {
	t.Helper()
	o := &j.Options
	results, errs := make([]result, o.Ranks), make([]error, o.Ranks)
	if o.Ranks == 1 {
		results[0], errs[0] = rank(t, j, nil, s)
	} else {
		w, err := local.NewWorld(o.Ranks, local.Options{WindowBytes: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for r := range o.Ranks {
			g, err := w.Join(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				results[r], errs[r] = rank(t, j, g, s)
				errs[r] = errors.Join(errs[r], g.Close())
			})
		}
		wg.Wait()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for r := 1; r < o.Ranks; r++ {
		sameBits(t, fmt.Sprintf("losses of rank %d against rank 0's", r), results[r].losses, results[0].losses)
	}
	return results[0]
}

// rank runs a job to its end on one rank.
func rank(t testing.TB, j *train.Job, g collective.Group, s setup) (r result, err error) {
	o := &j.Options
	me := 0
	if g != nil {
		me = g.Rank()
	}
	e := train.Env{Ledger: mem.NewLedger(mem.Limits{}), Group: g, Resume: s.resume, Weights: s.weights, Dir: t.TempDir()}
	for _, f := range []struct {
		p mem.Purpose
		n mem.Bytes
	}{{mem.Runtime, s.fixed.Runtime}, {mem.CommBuffers, s.fixed.Comm}, {mem.Staging, s.fixed.Tokens}} {
		if _, err := e.Ledger.Reserve(mem.Host, f.p, f.n); err != nil {
			return r, err
		}
	}
	if s.out != "" {
		e.Out = &checkpoint.Dir{Path: s.out, Keep: 1}
		if me == 0 {
			lock, err := e.Out.Open()
			if err != nil {
				return r, err
			}
			defer func() { err = errors.Join(err, lock.Close()) }()
		}
	}
	do := data.Options{Batch: o.Batch, Seq: o.Seq, Seed: 7, Rank: me, Ranks: o.Ranks}
	if s.batches != nil {
		e.Train = s.batches()
	} else if e.Train, err = data.NewStream(text(), do); err != nil {
		return r, err
	}
	if o.EvalEvery > 0 {
		if e.Val, err = data.NewSequence(text()[:5*o.Seq+1], do); err != nil {
			return r, err
		}
	}
	tr, err := train.New(j, s.dev(me), e)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, tr.Close()) }()
	if _, err := tr.Run(t.Context(), train.Hooks{Step: func(x train.StepResult) { r.norms = append(r.norms, x.GradNorm) }}); err != nil {
		return r, err
	}
	r.losses, r.vals, r.path = tr.Losses(), tr.ValLosses(), tr.Checkpoint()
	if s.loose {
		return r, nil
	}
	return r, tr.Check()
}

// sameBits fails unless two series are equal to the bit.
func sameBits(t testing.TB, what string, got, want []float32) bool {
	t.Helper()
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%s: got %d values, want %d, and some", what, len(got), len(want))
		return false
	}
	for i := range got {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) || got[i] != got[i] {
			t.Errorf("%s: at %d: got %v, want %v", what, i, got[i], want[i])
			return false
		}
	}
	return true
}

// modelFile is the weights' file of a checkpoint.
func modelFile(t testing.TB, path string) []byte {
	t.Helper()
	p, err := os.ReadFile(filepath.Join(path, checkpoint.ModelName))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// policy reads a recompute policy.
func policy(t testing.TB, s string) compile.Recompute {
	t.Helper()
	r, err := compile.ParseRecompute(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tightest lets recompute auto decide under the least limit that it reaches, as a refusal tells it: on the device where the options limit
// that, and on memory otherwise.
func tightest(t testing.TB, o *train.Options, s setup) {
	t.Helper()
	o.Recompute = compile.Recompute{Policy: compile.Auto}
	limit := &o.Memory
	if o.DeviceMemory > 0 {
		limit = &o.DeviceMemory
	}
	*limit = 1
	_, err := train.Compile(*o, s.dev(0), s.fixed)
	var refused *train.DoesNotFitError
	if !errors.As(err, &refused) {
		t.Fatalf("a byte of memory: got %v, want a refusal", err)
	}
	*limit = refused.Need
}

// halfway lets recompute auto decide under a limit half way between what full and none need.
func halfway(t testing.TB, o *train.Options, s setup) {
	t.Helper()
	var memory, dev mem.Bytes
	for _, r := range []compile.Policy{compile.None, compile.Full} {
		o.Recompute = compile.Recompute{Policy: r}
		peak := plan(t, *o, s).Promise.Peak
		memory, dev = memory+peak.Memory()/2, dev+peak.Total(mem.Device)/2
	}
	o.Recompute = compile.Recompute{Policy: compile.Auto}
	if o.DeviceMemory > 0 {
		o.DeviceMemory = dev
	} else {
		o.Memory = memory
	}
}

// nested tells whether a program computes something more than once again.
func nested(p *compile.Program) bool {
	type key struct {
		layer      int
		part, kind string
	}
	first, again := map[key]int{}, map[key]int{}
	for i := range p.Instrs {
		in := &p.Instrs[i]
		k := key{in.Layer, in.Part, in.Op.Kind()}
		if in.Again {
			again[k]++
		} else {
			first[k]++
		}
	}
	for k, n := range again {
		if n > first[k] {
			return true
		}
	}
	return false
}
