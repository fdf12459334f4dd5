package main

import (
	"context"
	"errors"
	"fmt"

	"loadline/collective"
	"loadline/data"
	"loadline/mem"
	"loadline/train"
	"loadline/train/checkpoint"
)

// watcher is told how a run goes, in the process that computes or, with ranks, in the one that started them.
type watcher interface {
	begin(step int64)                        // steps that are done before the first one here
	step(s train.StepResult, held mem.Bytes) // after every step, with what the ledger holds
	eval(step int64, loss float32)
	save(step int64, path string)
}

// workReport is what a rank tells at the end of its work.
type workReport struct {
	Memory      memoryReport         `json:"memory"`
	Done        bool                 `json:"done"` // false if the run was interrupted
	Steps       int64                `json:"steps"`
	Losses      []float32            `json:"losses"`
	ValLosses   []checkpoint.ValLoss `json:"val_losses"`
	StepSeconds float64              `json:"step_seconds"`
	Skipped     int64                `json:"skipped_steps"`
	Saved       mem.Bytes            `json:"saved_activation_bytes"`
	Checkpoint  string               `json:"checkpoint"`
}

// work trains: it reserves everything, runs the job to its end or until ctx is done, and reports. join gives the rank its group; nil is
// a run of one rank.
func (r *trainRun) work(ctx context.Context, job *train.Job, join func(*mem.Ledger) (collective.Group, error), w watcher) (_ *workReport, err error) {
	limits := mem.Limits{Memory: r.Options.Memory}
	limits.Tier[mem.Device], limits.Tier[mem.Disk] = r.Options.DeviceMemory, r.TierBytes
	ledger := mem.NewLedger(limits)
	if _, err := ledger.Reserve(mem.Host, mem.Runtime, job.Runtime); err != nil {
		return nil, err
	}
	env := train.Env{
		Ledger: ledger, Out: &checkpoint.Dir{Path: r.Out, Keep: r.Options.Keep}, Dir: r.TierDir,
		Resume: r.Resume, Weights: r.Weights, Files: r.files(), Kernels: r.Kernels,
	}
	if join != nil {
		if env.Group, err = join(ledger); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, env.Group.Close()) }()
	}
	closeData, err := r.openData(&env)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeData()) }()
	t, err := train.New(job, r.device(), env)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return r.drive(ctx, job, t, ledger, w)
}

// drive runs the trainer and reports.
func (r *trainRun) drive(ctx context.Context, job *train.Job, t *train.Trainer, ledger *mem.Ledger, w watcher) (*workReport, error) {
	w.begin(t.StepsDone())
	var first, rest float64 // seconds; the first step touches all memory for the first time
	steps := 0
	done, err := t.Run(ctx, train.Hooks{
		Step: func(s train.StepResult) {
			if steps++; steps == 1 {
				first = s.Seconds
			} else {
				rest += s.Seconds
			}
			w.step(s, ledger.InUse().Memory())
		},
		Eval: w.eval, Save: w.save,
	})
	if err != nil {
		return nil, err
	}
	m, err := reportMemory(r.Options.Memory, job.Promise.Peak, ledger.Peak())
	if err != nil {
		return nil, err
	}
	rep := &workReport{
		Memory: m, Done: done, Steps: t.StepsDone(), Losses: t.Losses(), ValLosses: t.ValLosses(),
		Saved: job.SavedActivationBytes(), Checkpoint: t.Checkpoint(), Skipped: t.Skipped(),
	}
	if rep.StepSeconds = first; steps > 1 {
		rep.StepSeconds = rest / float64(steps-1)
	}
	return rep, t.Check()
}

// openData opens the token files as this rank's streams.
func (r *trainRun) openData(env *train.Env) (func() error, error) {
	o := data.Options{Batch: r.Options.Batch, Seq: r.Options.Seq, Seed: r.DataSeed, Ranks: r.Options.Ranks}
	if env.Group != nil {
		o.Rank = env.Group.Rank()
	}
	var files []*data.File
	closeAll := func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	open := func(path string, use func(f *data.File) error) error {
		f, err := data.Open(path)
		if err != nil {
			return err
		}
		files = append(files, f)
		return use(f)
	}
	err := open(r.Tokens, func(f *data.File) (err error) {
		s, err := data.NewStream(f, o)
		env.Train = s
		return err
	})
	if err == nil && r.ValTokens != "" {
		err = open(r.ValTokens, func(f *data.File) (err error) {
			s, err := data.NewSequence(f, o)
			env.Val = s
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data: %w", err), closeAll())
	}
	return closeAll, nil
}
