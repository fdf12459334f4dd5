package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"loadline/data"
	"loadline/mem"
	"loadline/train"
)

// benchDropped are flags of train that mean nothing where nothing is read and nothing is kept.
var benchDropped = []string{"data", "val-data", "data-field", "eval-every", "out", "resume", "save-every", "keep", "ranks", "zero"}

// benchTrainFlags are those of bench train besides train's own.
type benchTrainFlags struct {
	train   trainFlags
	profile string
}

func (a *app) benchTrainCommand() *cobra.Command {
	b := &benchTrainFlags{}
	c := &cobra.Command{
		Use:   "train",
		Short: "Measure training steps",
		Long: `bench train measures training steps on random tokens: the same programs as loadline train runs, forward, backward and update. The first two steps
are not counted. Speed, promise and peak RSS are of one run; nothing is written.`,
		Example: `  loadline bench train --preset bench-20m
  loadline bench train --preset bench-20m --precision bf16 --threads 2 --steps 20 --json
  loadline bench train --preset bench-90m --recompute full --memory 1GiB
  loadline bench train --preset bench-20m --cpuprofile step.prof`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.benchTrain(c, b) },
	}
	b.train.register(c)
	f := c.Flags()
	for _, n := range benchDropped {
		f.Lookup(n).Hidden = true
	}
	steps := f.Lookup("steps")
	steps.DefValue, steps.Usage = "8", "`N` measured steps"
	b.train.steps = 8
	f.StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of the measured steps to `FILE`, for go tool pprof")
	return c
}

// benchTrainDocument is the document of bench train.
type benchTrainDocument struct {
	memoryReport
	Results     []benchResult `json:"results"`
	StepSeconds float64       `json:"step_seconds"`
	Kernels     string        `json:"kernels"`
	Precision   string        `json:"precision"`
	Recompute   string        `json:"recompute"`
	Attention   string        `json:"attention"`
	Saved       mem.Bytes     `json:"saved_activation_bytes"`
	Modelled    float64       `json:"modelled_step_seconds"`
	Parameters  int64         `json:"parameters"`
	Steps       int           `json:"steps"`
}

func (a *app) benchTrain(c *cobra.Command, b *benchTrainFlags) error {
	for _, n := range benchDropped {
		if c.Flags().Changed(n) {
			return usage("leave it out", "bench train has no --%s: it trains on random tokens, on one rank, and keeps nothing", n)
		}
	}
	if b.train.preset == "" && b.train.model == "" {
		b.train.preset = "bench-20m"
	}
	r, err := b.train.resolve(a, c, nil)
	if err != nil {
		return err
	}
	if r.Options.Steps < 1 {
		return usage("--steps 8", "--steps %d: want at least 1", r.Options.Steps)
	}
	r.Weights, r.Options.SaveEvery = "", 0
	planHeap(r.Options.Memory)
	done := a.planning(&r.Options)
	job, err := r.plan()
	done()
	if err != nil {
		return a.refuse(r, err)
	}
	profile, err := openProfile(b.profile)
	if err != nil {
		return err
	}
	defer profile.discard()
	job.Seal()
	settle(job.Runtime)
	ctx, stop := a.interruptible("finishing the step; once more to stop at once")
	defer stop()
	d, err := a.benchSteps(ctx, r, job, profile)
	if err != nil {
		return err
	}
	d.Kernels = r.Kernels
	d.Seconds = a.seconds()
	t := a.text()
	fmt.Fprintf(t, "%s, %s, %s kernels: %s\n", d.Results[0].Test, count(r.Threads, "thread"), r.Kernels, d.Results[0].speed())
	fmt.Fprintf(t, "step %.3f s, modelled %.3f s; saved activations %v\n", d.StepSeconds, d.Modelled, d.Saved)
	d.print(t)
	if a.json {
		if err := a.document(d); err != nil {
			return err
		}
	}
	return d.check()
}

// benchSteps runs two steps and then those that count.
func (a *app) benchSteps(ctx context.Context, r *trainRun, job *train.Job, profile *profileFile) (_ *benchTrainDocument, err error) {
	limits := mem.Limits{Memory: r.Options.Memory}
	limits.Tier[mem.Device], limits.Tier[mem.Disk] = r.Options.DeviceMemory, r.TierBytes
	ledger := mem.NewLedger(limits)
	if _, err := ledger.Reserve(mem.Host, mem.Runtime, job.Runtime); err != nil {
		return nil, err
	}
	dir := r.TierDir
	if dir == "" {
		dir = os.TempDir()
	}
	t, err := train.New(job, r.device(), train.Env{Ledger: ledger, Dir: dir, Train: &randomBatches{r.Options.Config.VocabSize, rand.NewPCG(a.seed, 1)}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	seconds, err := a.timeSteps(ctx, t, r.Options.Steps, profile, func() string { return fmt.Sprintf("memory %v / %v", ledger.InUse().Memory(), r.Options.Memory) })
	if err != nil {
		return nil, err
	}
	o := &r.Options
	d := &benchTrainDocument{
		Precision: o.Precision, Recompute: o.Recompute.String(), Attention: o.Attention, Saved: job.SavedActivationBytes(), Modelled: job.Seconds(),
		Parameters: o.Config.Params(), Steps: len(seconds),
	}
	for _, s := range seconds {
		d.StepSeconds += s / float64(len(seconds))
	}
	mean, stddev := rates(float64(o.Sequences()*o.Seq), seconds)
	d.Results = []benchResult{{Test: fmt.Sprintf("train %s %s", r.Name, o.Precision), Threads: r.Threads, TokensPerSecond: mean, Stddev: stddev}}
	if d.memoryReport, err = reportMemory(o.Memory, job.Promise.Peak, ledger.Peak()); err != nil {
		return nil, err
	}
	return d, t.Check()
}

// benchWarm is how many steps come before those that are measured: they touch all memory for the first time.
const benchWarm = 2

// timeSteps is the wall time of n steps; held tells of the memory for the progress.
func (a *app) timeSteps(ctx context.Context, t *train.Trainer, n int, profile *profileFile, held func() string) (seconds []float64, failed error) {
	bar := a.newProgress("step", int64(n), 0)
	defer bar.close()
	for i := range n + benchWarm {
		if ctx.Err() != nil && len(seconds) > 0 {
			return seconds, nil
		}
		if i == benchWarm && profile != nil {
			stop, err := startProfile(profile)
			if err != nil {
				return nil, err
			}
			defer func() { failed = errors.Join(failed, stop(failed == nil)) }()
		}
		s, err := t.Step()
		if err != nil {
			return nil, err
		}
		if i < benchWarm {
			continue
		}
		seconds = append(seconds, s.Seconds)
		bar.set(int64(len(seconds)), time.Duration(s.Seconds*float64(time.Second)), fmt.Sprintf("%s tokens/s", grouped(int64(float64(s.Tokens)/s.Seconds))), held())
	}
	return seconds, nil
}

// randomBatches is a source of random tokens without an end.
type randomBatches struct {
	vocab int
	rng   *rand.PCG
}

// Next implements train.Batches.
func (b *randomBatches) Next(tokens, targets []int32) error {
	for i := range tokens {
		tokens[i] = int32(b.rng.Uint64() % uint64(b.vocab))
		if i > 0 {
			targets[i-1] = tokens[i]
		}
	}
	targets[len(targets)-1] = 0
	return nil
}

// Position implements train.Batches.
func (b *randomBatches) Position() data.Position { return data.Position{} }

// Seek implements train.Batches.
func (b *randomBatches) Seek(data.Position) error { return nil }
