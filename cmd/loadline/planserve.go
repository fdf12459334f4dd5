package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"loadline/mem"
	"loadline/serve"
)

// serveFlags are the flags with which plan plans an engine.
type serveFlags struct {
	context, concurrency, blockSize, prefillChunk int
	kvType                                        string // hardwareFlags has its flag, which the planner takes too
}

func (s *serveFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.context, "context", 0, "tokens of a served sequence, prompt and answer; without --hardware it plans the engine of generate, for `N` tokens, in place of training")
	f.IntVar(&s.concurrency, "concurrency", 1, "with --context or --task serve: sequences at a time")
	f.IntVar(&s.blockSize, "block-size", serve.DefaultBlockSize, "with --context: tokens of a block of keys and values")
	f.IntVar(&s.prefillChunk, "prefill-chunk", serve.DefaultPrefillChunk, "with --context: prompt tokens that are computed at once")
}

// check refuses flags that say nothing about what is planned: training's with --context, and an engine's without.
func (s *serveFlags) check(c *cobra.Command) error {
	if s.context < 1 && c.Flags().Changed("context") {
		return usage("--context 2048", "--context %d: want at least 1", s.context)
	}
	training := &cobra.Command{}
	(&trainFlags{}).register(training)
	for _, name := range typed(c) {
		switch {
		case s.context == 0 && slices.Contains([]string{"concurrency", "block-size", "prefill-chunk"}, name):
			return usage("--context 2048, or leave it out", "--%s is of an engine: without --context, plan describes training", name)
		case s.context > 0 && training.Flags().Lookup(name) != nil && !slices.Contains([]string{"preset", "model", "resume", "memory", "machine", "kernels"}, name):
			return usage("leave it out, or --context", "--%s is of training: with --context, plan describes an engine", name)
		}
	}
	return nil
}

// planServing plans the engine of generate for the model of r. The tokenizer's bytes, which generate adds to the Runtime line, are those
// of the model's tokenizer.json where there is one.
func (a *app) planServing(r *trainRun, s *serveFlags, program string, text bool) error {
	o := serve.Options{
		Config: r.Options.Config, Memory: r.Options.Memory, Context: s.context, MaxSeqs: s.concurrency, BlockSize: s.blockSize, PrefillChunk: s.prefillChunk,
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"context", s.context}, {"concurrency", s.concurrency}, {"block-size", s.blockSize}, {"prefill-chunk", s.prefillChunk}} {
		if f.n < 1 {
			return usage("--"+f.name+" 1", "--%s %d: want at least 1", f.name, f.n)
		}
	}
	if err := checkContext(s.context, o.Config.MaxPositionEmbeddings); err != nil {
		return err
	}
	var err error
	if o.KVTypes, err = kvTypes(cmp.Or(s.kvType, plainKV)); err != nil {
		return err
	}
	if err := takeFiles(&o, r.Weights); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return usage("loadline plan --help lists the settings", "%v", err)
	}
	d := &planDocument{Limit: o.Memory, Plans: []planEntry{}, Least: []leastEntry{}, Largest: []leastLine{}}
	job, failure := serve.Plan(o, r.device())
	var no *serve.DoesNotFitError
	switch {
	case errors.As(failure, &no):
		d.Nearest = no.Ways(nil)[0]
		free := no.Wanted
		free.Memory = 0
		if job, err = serve.Plan(free, r.device()); err != nil {
			return failure // it says the numbers itself
		}
	case failure != nil:
		return failure
	default:
		d.Fits = true
	}
	for _, l := range job.Promise.Peak.Lines() {
		d.Largest = append(d.Largest, leastLine{l.Purpose.String(), l.Tier.String(), l.Bytes})
	}
	d.Plans = append(d.Plans, servingEntry(r, job, o.Memory))
	w := a.text()
	fmt.Fprintf(w, "%s: %s parameters, %s of %d tokens, %s of %d in %s\n", r.Name, grouped(o.Config.Params()),
		count(job.Options.MaxSeqs, "sequence"), job.Options.Context, count(job.Options.Blocks, "KV block"), job.Options.BlockSize, kvWords(job.Options.KVTypes))
	fmt.Fprintf(w, "limit %v: %s\n", o.Memory, r.LimitFrom)
	printPeak(w, job.Promise)
	for _, n := range job.Notes() {
		fmt.Fprintln(w, n)
	}
	if d.Fits {
		fmt.Fprintf(w, "fits: %v of %v\n", job.Promise.Memory(), o.Memory)
	}
	pass := job.Programs[0].Text()
	if text {
		fmt.Fprintf(w, "\n%s", pass)
	}
	if program != "" && d.Fits {
		if err := replaceFile(program, []byte(pass)); err != nil {
			return advise(fmt.Errorf("--program: %w", err), "name a file that can be written")
		}
	}
	if failure != nil {
		return a.refusal(failure, d)
	}
	if a.json {
		return a.document(d)
	}
	return nil
}

// servingEntry describes an engine.
func servingEntry(r *trainRun, job *serve.Job, limit mem.Bytes) planEntry {
	o, pass := job.Options, job.Programs[0]
	e := planEntry{
		Peak: job.Promise.Memory(), ByPurpose: byPurpose(job.Promise), Ranks: 1, StepSeconds: job.PassSeconds(),
		Options: map[string]any{
			"model": r.Name, "context": o.Context, "concurrency": o.MaxSeqs, "block-size": o.BlockSize, "prefill-chunk": o.PrefillChunk, "kv-type": kvWords(o.KVTypes),
			"memory": limit, "threads": r.Threads, "kernels": r.Kernels,
		},
		Why: fmt.Sprintf("as asked for, with %d KV blocks; the time is that of a pass of %d rows", o.Blocks, pass.Bounds.Rows),
	}
	for _, n := range job.Notes() {
		e.Why += "; " + n
	}
	e.Range = [2]mem.Bytes{e.Peak, e.Peak}
	if e.Peak > limit {
		e.OOMChance = 1
	}
	if e.StepSeconds > 0 {
		e.TokensPerSecond = float64(pass.Bounds.Rows) / e.StepSeconds
	}
	return e
}
