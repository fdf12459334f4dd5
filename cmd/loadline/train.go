package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"loadline/collective/local"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/model"
	"loadline/train"
	"loadline/train/checkpoint"
)

func (a *app) trainCommand() *cobra.Command {
	t := &trainFlags{}
	c := &cobra.Command{
		Use:   "train [MODEL]",
		Short: "Train a model inside a memory limit",
		Long: `train plans every branch of a run (step, evaluation, save, resume), refuses what does not fit with the setting that
would, trains, and ends with promise against fact. A byte-level BPE of the model's vocabulary is trained on the text
first, unless the model has a tokenizer.`,
		Example: `  loadline train --preset llama-tiny --data book.txt --memory 96MiB --recompute auto --out run
  loadline train --resume run --data book.txt --memory 96MiB --recompute auto --steps 500
  loadline train --model run --data more.txt --lr 1e-4 --out tuned
  loadline train --preset llama-tiny --data book.txt --ranks 2 --zero 1 --json --events log.jsonl
  loadline train --config run.yaml --steps 20`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			if t.preset == "list" {
				return a.listPresets()
			}
			if t.out != "" && t.resume == "" && exists(t.out) {
				return (&trainRun{Out: t.out}).taken()
			}
			if err := t.textsPresent(); err != nil {
				return err
			}
			r, err := t.resolve(a, c, args)
			if err != nil {
				return err
			}
			return a.train(r)
		},
	}
	t.register(c)
	return c
}

// listPresets prints the presets.
func (a *app) listPresets() error {
	type entry struct {
		Name       string `json:"name"`
		Parameters int64  `json:"parameters"`
		Batch      int    `json:"batch"`
		Seq        int    `json:"seq"`
	}
	all := []entry{}
	rows := [][]string{{"preset", "parameters", "batch", "seq"}}
	for _, n := range model.Presets() {
		c, d, err := model.Preset(n)
		if err != nil {
			return err
		}
		all = append(all, entry{n, c.Params(), d.Batch, d.Seq})
		rows = append(rows, []string{n, grouped(c.Params()), strconv.Itoa(d.Batch), strconv.Itoa(d.Seq)})
	}
	table(a.text(), rows)
	if a.json {
		return a.document(map[string]any{"presets": all})
	}
	return nil
}

// device is what computes.
func (r *trainRun) device() *cpu.Device {
	return cpu.New(cpu.Options{Threads: r.Threads, Set: r.set})
}

// fixed is what a rank holds besides what the job reserves.
func (r *trainRun) fixed() train.FixedBytes {
	f := train.FixedBytes{Runtime: train.RuntimeBytes}
	if r.Options.Ranks > 1 {
		f.Comm = local.SegmentBytes(r.Options.Ranks, 0)
	}
	return f
}

// plan compiles the run, within its limits.
func (r *trainRun) plan() (*train.Job, error) {
	job, err := r.planWith(train.Compile)
	if no := new(train.DoesNotFitError); r.TierBytes > 0 && errors.As(err, &no) {
		no.Besides(r.moreTier)
	}
	return job, err
}

// planWith is plan by train.Compile or train.Attempt.
func (r *trainRun) planWith(compile func(train.Options, device.Device, train.FixedBytes) (*train.Job, error)) (*train.Job, error) {
	job, err := compile(r.Options, r.device(), r.fixed())
	if err != nil {
		return nil, err
	}
	if need := job.Promise.Peak.Total(mem.Disk); r.TierBytes > 0 && need > r.TierBytes {
		return nil, &tierError{job, need, r.TierBytes, r.TierDir}
	}
	return job, nil
}

// moreTier is the --tier that the run wants besides the flags that it is advised, which make its options o; empty where what it has is enough.
func (r *trainRun) moreTier(o train.Options) string {
	if o.OffloadOptimizer {
		o.Lower = 0
	}
	job, err := train.Attempt(o, r.device(), r.fixed())
	if err != nil || job.Promise.Peak.Total(mem.Disk) <= r.TierBytes {
		return ""
	}
	return " " + tierFlag(r.TierDir, job.Promise.Peak.Total(mem.Disk))
}

// tierFlag gives a file in dir n bytes, in whole MiB.
func tierFlag(dir string, n mem.Bytes) string {
	return fmt.Sprintf("--tier file:%s=%dMiB", dir, (n+mem.MiB-1)/mem.MiB)
}

// tierError says that the lower tier is too small.
type tierError struct {
	job        *train.Job
	need, have mem.Bytes
	dir        string
}

// Error returns one line.
func (e *tierError) Error() string {
	return fmt.Sprintf("does not fit: the file of the lower tier needs %v, --tier gives it %v", e.need, e.have)
}

// Advice returns one line: what to do.
func (e *tierError) Advice() string {
	return tierFlag(e.dir, e.need)
}

// train is the verb.
func (a *app) train(r *trainRun) error {
	if err := r.place(); err != nil {
		return err
	}
	planHeap(r.Options.Memory)
	if err := r.readable(context.Background()); err != nil {
		return err
	}
	job, least, err := a.planRun(r)
	if err != nil {
		return a.refuse(r, err)
	}
	a.printPlan(r, job, least)
	ctx, stop := a.interruptible("finishing the step; once more to stop at once")
	defer stop()
	if err := r.claim(); err != nil {
		return err
	}
	dir := &checkpoint.Dir{Path: r.Out, Keep: r.Options.Keep}
	lock, err := dir.Open()
	var locked *checkpoint.LockedError
	if errors.As(err, &locked) {
		return err // what is there is another's
	}
	if err != nil {
		return r.undo(err)
	}
	a.interrupts.then("--resume " + r.Out + " goes on from the last checkpoint")
	defer lock.Close() // the process ends next, and the kernel takes the lock back whatever Close says
	eos, err := r.prepare(ctx, a)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			err = advise(errors.New("interrupted before the first step"), "the same command again")
		}
		return r.undo(err)
	}
	r.Options.Config.EOSTokenIDs, job.Options.Config.EOSTokenIDs = eos, eos

	job.Seal()
	v := a.newTrainView(r)
	var report *workReport
	if r.Options.Ranks > 1 {
		job = nil
		settle(train.RuntimeBytes)
		_, v.begun = a.busy("starting ranks")
		report, err = a.runRanks(ctx, r, v, a.rankErrors(v.start))
	} else {
		settle(job.Runtime)
		report, err = r.work(ctx, job, nil, v)
	}
	v.close()
	if err != nil {
		return r.undo(err)
	}
	return a.finishTraining(r, report, v)
}

// place decides where checkpoints go, and refuses to overwrite.
func (r *trainRun) place() error {
	if r.Resume != "" && r.Out == "" {
		r.Out = r.Resume
		if exists(filepath.Join(r.Resume, checkpoint.TrainerName)) {
			r.Out = filepath.Dir(filepath.Clean(r.Resume)) // a checkpoint itself: beside it
		}
	}
	if r.Out == "" {
		r.unnamed = true
		r.firstFree()
	}
	if exists(r.Out) && r.Resume == "" {
		return r.taken()
	}
	if s, err := os.Stat(r.Out); err == nil && !s.IsDir() {
		return usage("name a directory", "--out %s is not a directory", r.Out)
	}
	if r.Resume != "" && !exists(r.Resume) && filepath.Clean(r.Resume) != filepath.Clean(r.Out) {
		return absent("--resume", r.Resume, "check the path")
	}
	return output{directory: true, makes: true}.check("--out", r.Out)
}

// firstFree names Out after the model.
func (r *trainRun) firstFree() {
	base := filepath.Join("runs", filepath.Base(r.Name))
	r.Out = base + "-1"
	for n := 2; exists(r.Out); n++ {
		r.Out = fmt.Sprintf("%s-%d", base, n)
	}
}

// taken says that Out is there.
func (r *trainRun) taken() error {
	return usage("--resume "+r.Out+" to go on from it, or another --out", "--out %s exists", r.Out)
}

// claim makes Out unless it is there to be resumed. Of two runs that want the same name one gets it.
func (r *trainRun) claim() error {
	if err := os.MkdirAll(filepath.Dir(r.Out), 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for {
		err := os.Mkdir(r.Out, 0o755)
		switch {
		case err == nil:
			r.created = true
			return nil
		case !errors.Is(err, fs.ErrExist):
			return fmt.Errorf("--out: %w", err)
		case r.Resume != "":
			return nil
		case !r.unnamed:
			return r.taken()
		}
		r.firstFree()
	}
}

// undo removes Out if this run has made it and failed before its first checkpoint, so that the same command may be tried again. It
// returns err.
func (r *trainRun) undo(err error) error {
	if _, e := checkpoint.Latest(r.Out); r.created && errors.Is(e, checkpoint.ErrNone) {
		return errors.Join(err, os.RemoveAll(r.Out))
	}
	return err
}
