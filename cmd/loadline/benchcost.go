package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/cost"
	"loadline/device/cpu"
	"loadline/model"
	"loadline/planner/probe"
	"loadline/tensor/kernel"
	"loadline/train"
)

// benchCostFlags are those of bench cost.
type benchCostFlags struct {
	machine, write, only, kernels string
	repeat, passes                int
	kinds                         bool
}

func (a *app) benchCostCommand() *cobra.Command {
	b := &benchCostFlags{}
	c := &cobra.Command{
		Use:   "cost",
		Short: "Compare modelled step times with measured ones",
		Long: `bench cost measures this machine as recompute auto does, models the step time of twenty settings by it, and measures them. The settings differ in
model, recompute policy, kind of attention, precision and threads. Settings and the small models that the machine is measured by take turns, a few steps of each
at a time, in several passes, so that what changes on a shared machine meets both sides alike. What counts is what the machine does undisturbed, on both sides:
of each instruction what a tenth of its times are below, the least of ten and fewer. A step measured is the sum of these; beside it stand the same
of whole steps, and their median: where these lie far above, something else ran.`,
		Example: `  loadline bench cost
  loadline bench cost --passes 16 --json
  loadline bench cost --only "bench-20m bf16" --passes 1 --kinds
  loadline bench cost --kernels avx2 --threads 1
  loadline bench cost --machine this --write machine.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.benchCost(b) },
	}
	f := c.Flags()
	f.StringVar(&b.machine, "machine", measureNow, "`MACHINE` to model with, as train has it")
	f.StringVar(&b.write, "write", "", "write the machine, measured with the most threads, to `FILE`, for --machine")
	f.StringVar(&b.only, "only", "", "the settings that have `TEXT` in their name")
	registerKernels(f, &b.kernels)
	f.BoolVar(&b.kinds, "kinds", false, "show for each setting which kinds of operation take other than modelled, largest difference first")
	f.IntVar(&b.repeat, "repeat", 1, "least `N` steps of each setting in a pass, after the first")
	f.IntVar(&b.passes, "passes", 8, "`N` passes over all settings, and all of the machine's measurement where --machine is again")
	return c
}

// costSetting is a step that is modelled and measured.
type costSetting struct {
	preset     string
	batch, seq int // 0 is the preset's
	precision  string
	attention  string
	recompute  string
	threads    int // 0 is all
}

// costSettings are twenty steps that differ in all that a step's time depends on.
func costSettings() []costSetting {
	return []costSetting{
		{"llama-tiny", 0, 0, "fp32", "flash", "none", 1},
		{"llama-tiny", 0, 0, "fp32", "flash", "full", 0},
		{"llama-tiny", 0, 0, "bf16", "standard", "none", 0},
		{"llama-tiny", 0, 0, "fp16", "flash", "none", 0},
		{"gpt2-tiny", 0, 0, "fp32", "flash", "none", 1},
		{"gpt2-tiny", 0, 0, "bf16", "standard", "norm,mlp.act", 0},
		{"moe-tiny", 0, 0, "fp32", "flash", "none", 0},
		{"moe-tiny", 0, 0, "bf16", "flash", "full", 1},
		{"bench-20m", 0, 0, "fp32", "flash", "none", 1},
		{"bench-20m", 0, 0, "fp32", "flash", "none", 0},
		{"bench-20m", 0, 0, "bf16", "flash", "none", 0},
		{"bench-20m", 0, 0, "fp32", "flash", "full", 0},
		{"bench-20m", 0, 0, "bf16", "flash", "norm,mlp.act", 1},
		{"bench-20m", 0, 0, "fp32", "standard", "attn.core", 0},
		{"bench-20m", 1, 1024, "bf16", "standard", "none", 0},
		{"bench-90m", 1, 512, "fp32", "flash", "none", 0},
		{"bench-90m", 1, 512, "bf16", "flash", "full", 0},
		{"bench-90m", 2, 256, "fp32", "standard", "norm", 1},
		{"bench-recompute", 1, 1024, "fp32", "flash", "mlp.act", 0},
		{"bench-recompute", 1, 512, "bf16", "standard", "attn.core", 0},
	}
}

// costResult is a setting's times.
type costResult struct {
	Test      string  `json:"test"`
	Threads   int     `json:"threads"`
	Modelled  float64 `json:"modelled_step_seconds"`
	Measured  float64 `json:"measured_step_seconds"` // undisturbed: see probe.Times
	Low       float64 `json:"low_step_seconds"`      // of whole steps, the quantile
	Median    float64 `json:"median_step_seconds"`   // of whole steps
	Error     float64 `json:"error"`                 // modelled over measured, less 1
	Described float64 `json:"described_error"`       // the same of the machine that is described and not measured
	Steps     int     `json:"steps"`                 // that were measured

	Kinds []kindResult `json:"kinds,omitempty"` // with --kinds, by size of the difference
}

// kindResult is what operations of one kind and type take in one step.
type kindResult struct {
	Kind     string  `json:"kind"`
	Modelled float64 `json:"modelled_seconds"`
	Measured float64 `json:"measured_seconds"`
}

// costBound is how far modelled times may be from measured ones.
const costBound = 0.15

// benchCost is the verb.
func (a *app) benchCost(b *benchCostFlags) error {
	if b.repeat < 1 || b.passes < 1 {
		return usage("--repeat 1 --passes 8", "--repeat %d, --passes %d: want at least 1", b.repeat, b.passes)
	}
	all := slices.DeleteFunc(costSettings(), func(s costSetting) bool { return !strings.Contains(s.String(), b.only) })
	if len(all) == 0 {
		return usage("--only bench-20m", "--only %s: no setting has that in its name", b.only)
	}
	set, err := kernelSet(b.kernels)
	if err != nil {
		return err
	}
	most := a.computeThreads(1)
	machines, meters, err := a.costMachines(all, most, b.machine, set)
	if err != nil {
		return err
	}
	runs := make([]costRun, len(all))
	bar := a.newProgress("setting", int64(b.passes*len(all)), 0)
	defer bar.close()
	for pass := range b.passes {
		for i := range all {
			begin := time.Now()
			if err := runs[i].add(&all[i], b.repeat, set); err != nil {
				return fmt.Errorf("%s: %w", all[i], err)
			}
			for _, m := range meters { // some models between any two settings
				for j := i * m.Models() / len(all); j < (i+1)*m.Models()/len(all); j++ {
					if err := m.Visit(j, costVisit); err != nil {
						return err
					}
				}
			}
			bar.set(int64(pass*len(all)+i+1), time.Since(begin), all[i].String(), "")
		}
	}
	for n, m := range meters {
		if machines[n], err = m.Machine(); err != nil {
			return err
		}
	}
	if b.write != "" {
		if err := probe.Store(b.write, &probe.File{Key: probeKey(most, set), Machine: machines[most]}); err != nil {
			return advise(err, "name a file that can be written with --write")
		}
	}
	results := []costResult{}
	for i := range all {
		results = append(results, runs[i].result(&all[i], machines[all[i].threads], b.kinds))
	}
	return a.costTable(results, machines[most].Name, set)
}

// About what a visit takes: to a model of the machine's measurement, and to a setting.
const (
	costVisit = 200 * time.Millisecond
	costTime  = 500 * time.Millisecond
)

// costMachines sets the settings' threads, most where they have none, and finds the machine for each number: one that is known, or a meter
// that will tell.
func (a *app) costMachines(all []costSetting, most int, machine string, set kernel.Set) (map[int]cost.Machine, map[int]*probe.Meter, error) {
	machines, meters := map[int]cost.Machine{}, map[int]*probe.Meter{}
	for i := range all {
		if all[i].threads == 0 {
			all[i].threads = most
		}
	}
	for _, n := range []int{1, most} {
		if machine == measureNow {
			meters[n] = probe.NewMeter(cpu.New(cpu.Options{Threads: n, Set: set}), probeOptions(n, set, os.TempDir()))
			continue
		}
		var err error
		if machines[n], err = a.machine(machine, n, set, true); err != nil {
			return nil, nil, err
		}
	}
	return machines, meters, nil
}

// costTable prints what all settings took.
func (a *app) costTable(results []costResult, machine string, set kernel.Set) error {
	rows := [][]string{{"setting", "threads", "modelled", "measured", "error", "step, lowest", "median"}}
	within, worst, sum := 0, 0.0, 0.0
	for _, r := range results {
		rows = append(rows, []string{r.Test, fmt.Sprint(r.Threads), milliseconds(r.Modelled), milliseconds(r.Measured), fmt.Sprintf("%+.1f%%", 100*r.Error), milliseconds(r.Low), milliseconds(r.Median)})
		for _, k := range r.Kinds[:min(6, len(r.Kinds))] {
			rows = append(rows, []string{"  " + k.Kind, "", milliseconds(k.Modelled), milliseconds(k.Measured), fmt.Sprintf("%+.1f%%", 100*(k.Modelled/k.Measured-1)), "", ""})
		}
		e := math.Abs(r.Error)
		if worst, sum = max(worst, e), sum+e; e <= costBound {
			within++
		}
	}
	table(a.text(), rows)
	mean := sum / float64(len(results))
	fmt.Fprintf(a.text(), "within %.0f%%: %d of %d; mean error %.1f%%, largest %.1f%%\n", 100*costBound, within, len(results), 100*mean, 100*worst)
	if !a.json {
		return nil
	}
	return a.document(map[string]any{
		"results": results, "machine": machine, "kernels": set.Name(), "within": within, "bound": costBound, "quantile": probe.Quantile, "mean_error": mean, "largest_error": worst,
		"seconds": a.seconds(),
	})
}

// String names the setting.
func (s costSetting) String() string {
	name := s.preset
	if s.seq > 0 {
		name += fmt.Sprintf(" %d × %d", s.batch, s.seq)
	}
	return strings.Join([]string{name, s.precision, s.attention, s.recompute}, " ")
}

// options is the training of a setting.
func (s costSetting) options(m cost.Machine) (train.Options, error) {
	c, d, err := model.Preset(s.preset)
	if err != nil {
		return train.Options{}, err
	}
	o := train.Defaults(c)
	if s.seq > 0 {
		d = model.TrainDefaults{Batch: s.batch, Seq: s.seq}
	}
	o.Batch, o.Seq, o.Precision, o.Attention, o.Machine = d.Batch, d.Seq, s.precision, s.attention, m
	o.Recompute, err = compile.ParseRecompute(s.recompute)
	return o, err
}

// costRun is a setting in all passes.
type costRun struct {
	rig     *probe.Rig // open while it is measured
	samples []cost.Sample
	times   probe.Times
}

// add measures the setting once more. What it runs is compiled once, for the machine that is described.
func (x *costRun) add(s *costSetting, repeat int, set kernel.Set) (err error) {
	dev := cpu.New(cpu.Options{Threads: s.threads, Set: set})
	if x.rig == nil {
		o, err := s.options(cost.Laptop2())
		if err != nil {
			return err
		}
		if x.rig, err = probe.Compile(dev, o); err != nil {
			return err
		}
		x.samples = x.rig.Samples(0)
	}
	if err := x.rig.Open(dev, os.TempDir()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.rig.Close()) }()
	for begin, n := time.Now(), 0; n <= repeat || time.Since(begin) < costTime; n++ { // the first step touches memory, and is seldom the lowest
		if err := x.times.Add(x.rig, 0); err != nil {
			return err
		}
	}
	return nil
}

// result is what all passes say, beside what m says.
func (x *costRun) result(s *costSetting, m cost.Machine, kinds bool) costResult {
	r := costResult{Test: s.String(), Threads: s.threads, Measured: x.times.Undisturbed(), Low: probe.Low(x.times.Steps), Median: middle(x.times.Steps), Steps: len(x.times.Steps)}
	described, measured := cost.Laptop2(), x.times.Instrs()
	for j, i := range x.samples {
		seconds := m.Of(i.Key, i.Work)
		r.Modelled += seconds
		r.Described += described.Of(i.Key, i.Work)
		key := i.Key.String()
		at := slices.IndexFunc(r.Kinds, func(k kindResult) bool { return k.Kind == key })
		if at < 0 {
			at, r.Kinds = len(r.Kinds), append(r.Kinds, kindResult{Kind: key})
		}
		r.Kinds[at].Modelled += seconds
		r.Kinds[at].Measured += measured[j]
	}
	r.Error, r.Described = r.Modelled/r.Measured-1, r.Described/r.Measured-1
	slices.SortStableFunc(r.Kinds, func(x, y kindResult) int {
		return cmp.Compare(math.Abs(y.Modelled-y.Measured), math.Abs(x.Modelled-x.Measured))
	})
	if !kinds {
		r.Kinds = nil
	}
	return r
}

// middle is the median.
func middle(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
