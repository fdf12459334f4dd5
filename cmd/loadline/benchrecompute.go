package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/cost"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/model"
	"loadline/planner/probe"
	"loadline/tensor/kernel"
	"loadline/train"
)

// benchRecomputeFlags are those of bench recompute.
type benchRecomputeFlags struct {
	preset, machine, policies string
	kernels                   string
	precision, attention      choiceFlag
	given                     choiceFlag
	batch, seq, repeat        int

	set kernel.Set // that kernels names
}

func (a *app) benchRecomputeCommand() *cobra.Command {
	b := &benchRecomputeFlags{precision: choiceFlag{"fp32", []string{"fp32", "bf16", "fp16"}}, attention: choiceFlag{"both", []string{"both", "standard", "flash"}},
		given: choiceFlag{"saved", []string{"saved", "memory"}}}
	c := &cobra.Command{
		Use:   "recompute",
		Short: "Measure what recomputing activations saves and costs",
		Long: `bench recompute compares recompute policies: the bytes of activations that are saved for the backward half, and the time of a step. After
each policy comes auto, given the saved bytes of that policy, or with --given memory its peak. All policies are open at once over the same weights and take turns, so what else
happens on the machine meets all alike; where auto is the very program of a policy, that program is measured once. A step's time is the step undisturbed:
of each instruction what a tenth of its times are below, the least of ten and fewer. The median of whole steps stands beside it.`,
		Example: `  loadline bench recompute
  loadline bench recompute --attention flash --repeat 15 --json
  loadline bench recompute --preset bench-20m --policies none,full,norm+mlp.act`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.benchRecompute(b) },
	}
	f := c.Flags()
	f.StringVar(&b.preset, "preset", "bench-recompute", "`NAME` of the model")
	f.IntVar(&b.batch, "batch", 0, "sequences (default: the preset's)")
	f.IntVar(&b.seq, "seq", 0, "tokens of a sequence (default: the preset's)")
	f.Var(&b.precision, "precision", "number format of training")
	f.Var(&b.attention, "attention", "how attention is computed")
	f.StringVar(&b.policies, "policies", "none,full,attn.core,norm+mlp.act", "`LIST` of policies to compare with the first; + joins tags")
	f.Var(&b.given, "given", "what of a policy auto is held to: its saved activations, or its memory at the peak")
	registerKernels(f, &b.kernels)
	f.StringVar(&b.machine, "machine", measureNow, "`MACHINE` that auto decides by, as train has it")
	f.IntVar(&b.repeat, "repeat", 9, "turns")
	return c
}

// recomputeResult is one policy's bytes and time.
type recomputeResult struct {
	Test      string    `json:"test"` // the policy, or auto and whose bytes it has
	Attention string    `json:"attention"`
	Threads   int       `json:"threads"`
	Saved     mem.Bytes `json:"saved_activation_bytes"`
	Peak      mem.Bytes `json:"peak_bytes"`       // of the job, without the Go runtime
	Seconds   float64   `json:"step_seconds"`     // undisturbed: see probe.Times
	Low       float64   `json:"low_step_seconds"` // of whole steps, the quantile
	Median    float64   `json:"median_step_seconds"`
	Modelled  float64   `json:"modelled_step_seconds"`
	BytesLess float64   `json:"bytes_saved"` // of the first policy's saved activations
	TimeMore  float64   `json:"time_added"`  // of the first policy's step
	// Of auto: its time over that of the policy whose bytes it has.
	Ratio         float64 `json:"time_of_policy,omitempty"`
	ModelledRatio float64 `json:"modelled_time_of_policy,omitempty"`
	Chosen        string  `json:"chosen,omitempty"`
	// The row before that is the same program, instruction for instruction and place for place: measured once, so its times are these.
	Same string `json:"same_program_as,omitempty"`
}

// benchRecompute is the verb.
func (a *app) benchRecompute(b *benchRecomputeFlags) error {
	if b.repeat < 1 {
		return usage("--repeat 9", "--repeat %d: want at least 1", b.repeat)
	}
	c, d, err := model.Preset(b.preset)
	if err != nil {
		return usage(didYouMean(b.preset, model.Presets(), "--preset ", "loadline train --preset list"), "there is no preset %q: want %s", b.preset, orList(model.Presets()))
	}
	o := train.Defaults(c)
	o.Batch, o.Seq, o.Precision = d.Batch, d.Seq, b.precision.value
	if b.batch > 0 {
		o.Batch = b.batch
	}
	if b.seq > 0 {
		o.Seq = b.seq
	}
	if b.set, err = kernelSet(b.kernels); err != nil {
		return err
	}
	threads := a.computeThreads(1)
	if o.Machine, err = a.machine(b.machine, threads, b.set, true); err != nil {
		return err
	}
	kinds := []string{"standard", "flash"}
	if b.attention.value != "both" {
		kinds = []string{b.attention.value}
	}
	results := []recomputeResult{}
	for _, kind := range kinds {
		o.Attention = kind
		rs, err := a.recomputeTable(o, b, threads)
		if err != nil {
			return err
		}
		results = append(results, rs...)
	}
	if !a.json {
		return nil
	}
	return a.document(map[string]any{
		"results": results, "preset": b.preset, "batch": o.Batch, "seq": o.Seq, "precision": o.Precision, "machine": o.Machine.Name, "turns": b.repeat, "quantile": probe.Quantile,
		"kernels": b.set.Name(), "seconds": a.seconds(),
	})
}

// recomputeTable measures the policies with one kind of attention.
func (a *app) recomputeTable(o train.Options, b *benchRecomputeFlags, threads int) (_ []recomputeResult, err error) {
	dev := cpu.New(cpu.Options{Threads: threads, Set: b.set})
	var all []train.Options
	var results []recomputeResult
	for _, name := range strings.Split(b.policies, ",") {
		p := o
		if p.Recompute, err = compile.ParseRecompute(strings.ReplaceAll(name, "+", ",")); err != nil || p.Recompute.Policy == compile.Auto {
			return nil, usage("--policies none,full,attn.core,norm+mlp.act", "--policies %s: %q is no policy to compare auto with", b.policies, name)
		}
		j, err := train.Compile(p, dev, train.FixedBytes{})
		if err != nil {
			return nil, err
		}
		auto := o
		auto.Recompute = compile.Recompute{Policy: compile.Auto}
		if b.given.value == "memory" {
			auto.Memory = j.Promise.Memory()
		} else {
			auto.SavedActivations = j.SavedActivationBytes()
		}
		all = append(all, p, auto)
		results = append(results, recomputeResult{Test: name}, recomputeResult{Test: "auto, bytes of " + name})
	}
	rig, err := probe.Open(dev, os.TempDir(), all...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	first := make([]int, len(all)) // the first setting that is the same program
	for i := range all {
		for !rig.Same(first[i], i) {
			first[i]++
		}
	}
	times, err := a.turns(rig, first, b.repeat)
	if err != nil {
		return nil, err
	}
	for i := range results {
		r, j, t := &results[i], rig.Job(i), &times[first[i]]
		r.Attention, r.Threads, r.Saved, r.Peak, r.Modelled = o.Attention, threads, j.SavedActivationBytes(), j.Promise.Memory(), j.Seconds()
		r.Seconds, r.Low, r.Median = t.Undisturbed(), probe.Low(t.Steps), middle(t.Steps)
		r.BytesLess = 1 - float64(r.Saved)/float64(results[0].Saved)
		r.TimeMore = r.Seconds/results[0].Seconds - 1
		if first[i] != i {
			r.Same = results[first[i]].Test
		}
		if i%2 == 1 {
			r.Ratio, r.ModelledRatio, r.Chosen = r.Seconds/results[i-1].Seconds, r.Modelled/results[i-1].Modelled, strings.Join(j.Step.Notes, "; ")
		}
	}
	a.printRecompute(results, o.Machine)
	return results, nil
}

// turns makes n steps of each setting that is the first of its program, one of each in turn, after one that is not counted. Every other
// turn goes from the last to the first, so that neither of two has the better place, and what rises or falls slowly meets both alike.
func (a *app) turns(rig *probe.Rig, first []int, n int) ([]probe.Times, error) {
	bar := a.newProgress("turn", int64(n+1), 0)
	defer bar.close()
	times := make([]probe.Times, len(first))
	for turn := range n + 1 {
		begin := time.Now()
		for k := range first {
			i := k
			if turn%2 == 1 {
				i = len(first) - 1 - k
			}
			var err error
			switch {
			case first[i] != i:
			case turn == 0:
				_, err = rig.Step(i)
			default:
				err = times[i].Add(rig, i)
			}
			if err != nil {
				return nil, err
			}
		}
		bar.set(int64(turn+1), time.Since(begin), "", "")
	}
	return times, nil
}

// printRecompute prints the table for people.
func (a *app) printRecompute(results []recomputeResult, m cost.Machine) {
	rows := [][]string{{"recompute", "attention", "saved activations", "bytes saved", "step", "time added", "modelled", "of the policy's time", "modelled", "median"}}
	for i, r := range results {
		row := []string{
			r.Test, r.Attention, r.Saved.String(), fmt.Sprintf("%.1f%%", 100*r.BytesLess), milliseconds(r.Seconds), fmt.Sprintf("%+.1f%%", 100*r.TimeMore),
			fmt.Sprintf("%+.1f%%", 100*(r.Modelled/results[0].Modelled-1)), "", "", milliseconds(r.Median),
		}
		if i%2 == 1 {
			row[7], row[8] = fmt.Sprintf("%.3f", r.Ratio), fmt.Sprintf("%.3f", r.ModelledRatio)
		}
		if r.Same == results[i/2*2].Test {
			row[7] += ", the same program"
		}
		rows = append(rows, row)
	}
	table(a.text(), rows)
	fmt.Fprintf(a.text(), "times modelled for a %s machine; %s\n", m.Name, count(results[0].Threads, "thread"))
}
