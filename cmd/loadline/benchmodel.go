package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/serve"
)

// benchModelFlags are the flags of bench itself, which measures a model.
type benchModelFlags struct {
	model                  string
	prompt, generate       []int
	depth                  []int
	repeat                 int
	blockSize, prefillRows int
	kernels, kvType        string
	profile                string
	memory                 sizeFlag
}

func (b *benchModelFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&b.model, "model", "", "model at `PATH`, as of generate")
	f.IntSliceVarP(&b.prompt, "n-prompt", "p", []int{512}, "lengths of prompts, with commas between; 0 is none")
	f.IntSliceVarP(&b.generate, "n-gen", "n", []int{128}, "numbers of generated tokens, with commas between; 0 is none")
	f.IntSliceVarP(&b.depth, "depth", "d", []int{0}, "tokens that come before what is measured, with commas between")
	for _, name := range []string{"n-prompt", "n-gen", "depth"} {
		x := f.Lookup(name)
		x.Value = lastList{x.Value, x.Value.(pflag.SliceValue)}
	}
	f.IntVarP(&b.repeat, "repeat", "r", 5, "`N` measurements of each")
	f.IntVar(&b.prefillRows, "prefill-chunk", serve.DefaultPrefillChunk, "prompt tokens that are computed at once")
	f.IntVar(&b.blockSize, "block-size", serve.DefaultBlockSize, "tokens of a block of keys and values")
	f.StringVar(&b.kvType, "kv-type", plainKV, kvTypesHelp)
	registerKernels(f, &b.kernels)
	f.StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of the tests to `FILE`, for go tool pprof")
	f.Var(&b.memory, "memory", "peak resident memory, such as 512MiB (default: 80% of what is available)")
}

// maxBenchChunk bounds --prefill-chunk.
const maxBenchChunk = 4096

// modelTest is one thing that is measured: a prompt, or single tokens, behind depth tokens.
type modelTest struct {
	tokens, depth int
	single        bool
}

// String is the test's name, as llama-bench has it.
func (t modelTest) String() string {
	name := fmt.Sprintf("pp%d", t.tokens)
	if t.single {
		name = fmt.Sprintf("tg%d", t.tokens)
	}
	if t.depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.depth)
	}
	return name
}

// tests lists what is to be measured, in llama-bench's order.
func (b *benchModelFlags) tests() (tests []modelTest, err error) {
	for _, list := range []struct {
		flag string
		ns   []int
	}{{"n-prompt", b.prompt}, {"n-gen", b.generate}, {"depth", b.depth}} {
		for _, n := range list.ns {
			if n < 0 || n > maxTokens {
				return nil, usage("loadline bench --help", "--%s %d: want 0 to %d", list.flag, n, maxTokens)
			}
		}
	}
	for _, d := range b.depth {
		for _, n := range b.prompt {
			tests = append(tests, modelTest{n, d, false})
		}
		for _, n := range b.generate {
			tests = append(tests, modelTest{n, d, true})
		}
	}
	tests = slices.DeleteFunc(tests, func(t modelTest) bool { return t.tokens == 0 })
	switch {
	case len(tests) == 0:
		return nil, usage("leave --n-prompt, --n-gen and --depth out", "there is nothing to measure")
	case b.repeat < 1 || b.repeat > maxRepeat:
		return nil, usage("--repeat 5", "--repeat %d: want 1 to %d", b.repeat, maxRepeat)
	case b.prefillRows < 1 || b.prefillRows > maxBenchChunk:
		return nil, usage("--prefill-chunk 128", "--prefill-chunk %d: want 1 to %d", b.prefillRows, maxBenchChunk)
	case b.blockSize < 1:
		return nil, usage("--block-size 16", "--block-size %d: want at least 1", b.blockSize)
	}
	return tests, nil
}

// benchModelDocument is the document of bench with a model.
type benchModelDocument struct {
	memoryReport
	streamReport
	Results     []benchResult `json:"results"`
	Kernels     string        `json:"kernels"`
	Parameters  int64         `json:"parameters"`
	Repeat      int           `json:"repeat"`
	Interrupted bool          `json:"interrupted"`
}

// benchModel measures a model.
func (a *app) benchModel(b *benchModelFlags) (err error) {
	tests, err := b.tests()
	if err != nil {
		return err
	}
	set, err := kernelSet(b.kernels)
	if err != nil {
		return err
	}
	m, limit, err := openServed(b.model, b.memory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	kv, err := kvTypes(b.kvType)
	if err != nil {
		return err
	}
	o := serve.Options{
		Config: m.Config, Types: m.Types, KVTypes: kv, Memory: limit, PrefillChunk: 1, BlockSize: b.blockSize, Runtime: serve.DefaultRuntime + m.HeapBytes(), NoCache: true,
	}
	if err := b.checkPositions(tests, m.Config.MaxPositionEmbeddings); err != nil {
		return err
	}
	for _, t := range tests {
		o.Context = max(o.Context, t.depth+t.tokens)
		if !t.single || t.depth > 0 {
			o.PrefillChunk = b.prefillRows
		}
	}
	if err := o.Validate(); err != nil {
		return usage("loadline bench --help lists the settings", "%s", strings.TrimPrefix(err.Error(), "serve: "))
	}
	threads := a.computeThreads(1)
	dev := cpu.New(cpu.Options{Threads: threads, Set: set})
	job, err := serve.Plan(o, dev)
	if err != nil {
		return a.refuseEngine(err, b.within)
	}
	profile, err := openProfile(b.profile)
	if err != nil {
		return err
	}
	defer profile.discard()
	a.notes(m, job)
	settle(job.Options.Runtime)
	ledger := mem.NewLedger(mem.Limits{Memory: limit})
	reads := newMeter(a, job, m.Source)
	r, err := serve.NewRunner(job, dev, device.Env{Ledger: ledger}, reads.source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d := &benchModelDocument{Results: []benchResult{}, Kernels: set.Name(), Parameters: m.Config.Params(), Repeat: b.repeat}
	reads.reset()
	err = profiled(profile, func() error {
		return a.timeModel(r, tests, threads, d, fmt.Sprintf("memory %v / %v", job.Promise.Memory(), limit))
	})
	if err != nil {
		return err
	}
	d.streamReport = reads.report()
	if d.memoryReport, err = reportMemory(limit, job.Promise.Peak, ledger.Peak()); err != nil {
		return err
	}
	d.Seconds = a.seconds()
	if err := errors.Join(a.printModelBench(d), r.Check()); err != nil {
		return err
	}
	return d.check()
}

// printModelBench prints the results.
func (a *app) printModelBench(d *benchModelDocument) error {
	t := a.text()
	rows := [][]string{{"test", "threads", "tokens/s", "±"}}
	for _, x := range d.Results {
		rows = append(rows, []string{x.Test, fmt.Sprint(x.Threads), fmt.Sprintf("%.2f", x.TokensPerSecond), fmt.Sprintf("%.2f", x.Stddev)})
	}
	table(t, rows)
	fmt.Fprintf(t, "%s parameters, %s kernels%s\n", grouped(d.Parameters), d.Kernels, d.streamReport.words())
	d.print(t)
	if a.json {
		return a.document(d)
	}
	return nil
}

// timeModel runs the tests. Each begins with one run that is not measured; what is measured has neither tokenizing nor sampling in it.
// held tells of the memory for the progress.
func (a *app) timeModel(r *serve.Runner, tests []modelTest, threads int, d *benchModelDocument, held string) error {
	ctx, stop := a.interruptible("finishing the test; once more to stop at once")
	defer stop()
	bar := a.newProgress("test", int64(len(tests)*d.Repeat), 0)
	defer bar.close()
	x := &modelBench{ctx, r, rand.New(rand.NewPCG(a.seed, 1))}
	for i, t := range tests {
		var seconds []float64
		for n := range d.Repeat + 1 {
			whole := time.Now()
			s, err := x.measure(t, n == 0)
			if errors.Is(err, context.Canceled) {
				if d.Interrupted = true; len(d.Results) > 0 {
					return nil
				}
				return advise(errors.New("interrupted"), "the same command again")
			}
			if err != nil {
				return err
			}
			if n > 0 {
				seconds = append(seconds, s)
				bar.set(int64(i*d.Repeat+n), time.Since(whole), fmt.Sprintf("%s %.1f tokens/s", t, float64(t.tokens)/s), held)
			}
		}
		mean, stddev := rates(float64(t.tokens), seconds)
		d.Results = append(d.Results, benchResult{Test: t.String(), Threads: threads, TokensPerSecond: mean, Stddev: stddev})
		if err := a.log.write("test", map[string]any{"test": t.String(), "threads": threads, "tokens_per_second": mean, "stddev": stddev}); err != nil {
			return err
		}
	}
	return nil
}

// profiled calls f and writes a CPU profile of it to a file; no file takes none.
func profiled(file *profileFile, f func() error) (err error) {
	if file == nil {
		return f()
	}
	stop, err := startProfile(file)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, stop(false))
	}
	return stop(true)
}

// startProfile begins a CPU profile, which stop ends; it tells what of the profile got lost, which pprof does not, and leaves none that is not to be kept.
func startProfile(file *profileFile) (stop func(keep bool) error, err error) {
	w := &checked{w: file}
	if err := pprof.StartCPUProfile(w); err != nil {
		return nil, fmt.Errorf("--cpuprofile: %w", err)
	}
	return func(keep bool) error {
		pprof.StopCPUProfile()
		err := w.failed
		if keep && err == nil {
			err = file.commit()
		}
		if err != nil {
			return fmt.Errorf("--cpuprofile: %w", err)
		}
		return nil
	}, nil
}

// modelBench runs tests on random tokens.
type modelBench struct {
	ctx context.Context
	r   *serve.Runner
	rng *rand.Rand
}

// measure is how long a test takes. A run that only warms up computes one token where single ones are measured, and leaves depth out.
func (x *modelBench) measure(t modelTest, warm bool) (seconds float64, err error) {
	x.r.Reset()
	if !warm {
		if err := x.forward(t.depth, x.r.Job().Options.PrefillChunk, 0); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	switch {
	case !t.single:
		err = x.forward(t.tokens, x.r.Job().Options.PrefillChunk, 1)
	case warm:
		err = x.forward(1, 1, 1)
	default:
		err = x.forward(t.tokens, 1, 1)
	}
	return time.Since(began).Seconds(), err
}

// forward computes n random tokens, chunk in a pass. outs of the rows of a chunk have logits: with prompts only the last needs them, but the
// head runs on one row of every chunk.
func (x *modelBench) forward(n, chunk, outs int) error {
	vocab := int32(x.r.Job().Options.Config.VocabSize)
	var room [maxBenchChunk]int32
	for n > 0 {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		tokens := room[:min(n, chunk, len(room))]
		for i := range tokens {
			tokens[i] = x.rng.Int32N(vocab)
		}
		if err := x.r.Forward(tokens, min(outs, len(tokens))); err != nil {
			return err
		}
		n -= len(tokens)
	}
	return nil
}
