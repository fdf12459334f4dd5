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
	"loadline/graph"
	"loadline/model"
	"loadline/planner/probe"
	"loadline/tensor/kernel"
	"loadline/train"
)

// benchCostFlags are those of bench cost.
type benchCostFlags struct {
	machine, write string
	repeat, passes int
	kinds          bool
}

func (a *app) benchCostCommand() *cobra.Command {
	b := &benchCostFlags{}
	c := &cobra.Command{
		Use:   "cost",
		Short: "Compare modelled step times with measured ones",
		Long: `bench cost measures this machine as recompute auto does, models the step time of twenty settings by it, and measures them. The settings differ in
model, recompute policy, kind of attention, precision and threads. All that is done in several passes, so that what changes on a shared machine from minute to
minute meets both sides: of an instruction's modelled times too, one of each pass, what counts is the one that a third are below. What is compared with the model, which knows of nothing else that runs, is the
step undisturbed: of each instruction what a third of its times are below. The median of whole steps stands beside it.`,
		Example: `  loadline bench cost
  loadline bench cost --repeat 9 --json
  loadline bench cost --machine this --write machine.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.benchCost(b) },
	}
	f := c.Flags()
	f.StringVar(&b.machine, "machine", measureNow, "`MACHINE` to model with, as train has it")
	f.StringVar(&b.write, "write", "", "write the machine, measured with the most threads, to `FILE`, for --machine")
	f.BoolVar(&b.kinds, "kinds", false, "show for each setting which kinds of operation take other than modelled, largest difference first")
	f.IntVar(&b.repeat, "repeat", 3, "least `N` measured steps of each setting in a pass")
	f.IntVar(&b.passes, "passes", 4, "`N` passes over all settings, each with a measurement of the machine where --machine is again")
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
	Median    float64 `json:"median_step_seconds"`   // of whole steps
	Error     float64 `json:"error"`                 // modelled over measured, less 1
	Described float64 `json:"described_error"`       // the same of the machine that is described and not measured

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
		return usage("--repeat 3 --passes 4", "--repeat %d, --passes %d: want at least 1", b.repeat, b.passes)
	}
	all, most := costSettings(), a.computeThreads(1)
	runs := make([]costRun, len(all))
	bar := a.newProgress("setting", int64(b.passes*len(all)), 0)
	defer bar.close()
	machines := map[int]cost.Machine{}
	for pass := range b.passes {
		for _, n := range []int{1, most} {
			if pass > 0 && b.machine != measureNow {
				continue
			}
			var err error
			if machines[n], err = a.machine(b.machine, n, true); err != nil {
				return err
			}
		}
		for i := range all {
			begin, s := time.Now(), &all[i]
			if s.threads == 0 {
				s.threads = most
			}
			if err := runs[i].add(s, machines[s.threads], b); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
			bar.set(int64(pass*len(all)+i+1), time.Since(begin), s.String(), "")
		}
	}
	if b.write != "" {
		if err := probe.Store(b.write, &probe.File{Key: probeKey(most), Machine: machines[most]}); err != nil {
			return advise(err, "name a file that can be written with --write")
		}
	}
	results := []costResult{}
	rows := [][]string{{"setting", "threads", "modelled", "measured", "error", "median"}}
	within, worst, sum := 0, 0.0, 0.0
	for i := range all {
		r := runs[i].result(&all[i], b.kinds)
		results = append(results, r)
		rows = append(rows, []string{r.Test, fmt.Sprint(r.Threads), milliseconds(r.Modelled), milliseconds(r.Measured), fmt.Sprintf("%+.1f%%", 100*r.Error), milliseconds(r.Median)})
		for _, k := range r.Kinds[:min(4, len(r.Kinds))] {
			rows = append(rows, []string{"  " + k.Kind, "", milliseconds(k.Modelled), milliseconds(k.Measured), fmt.Sprintf("%+.1f%%", 100*(k.Modelled/k.Measured-1)), ""})
		}
		e := math.Abs(r.Error)
		if worst, sum = max(worst, e), sum+e; e <= costBound {
			within++
		}
	}
	table(a.text(), rows)
	fmt.Fprintf(a.text(), "within %.0f%%: %d of %d; mean error %.1f%%, largest %.1f%%\n", 100*costBound, within, len(all), 100*sum/float64(len(all)), 100*worst)
	if !a.json {
		return nil
	}
	return a.document(map[string]any{
		"results": results, "machine": machines[most].Name, "within": within, "bound": costBound, "mean_error": sum / float64(len(all)), "largest_error": worst,
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
	times     probe.Times
	modelled  probe.Times // one step of each pass
	kinds     []string    // of each instruction
	described float64
}

// add models and measures the setting once more.
func (x *costRun) add(s *costSetting, m cost.Machine, b *benchCostFlags) (err error) {
	o, err := s.options(m)
	if err != nil {
		return err
	}
	dev := cpu.New(cpu.Options{Threads: s.threads, Set: kernel.Best()})
	if x.kinds == nil {
		described := o
		described.Machine = cost.Laptop2()
		plain, err := train.Compile(described, dev, train.FixedBytes{})
		if err != nil {
			return err
		}
		x.described = plain.Seconds()
	}
	rig, err := probe.Open(dev, os.TempDir(), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	var modelled []float64
	x.kinds = x.kinds[:0]
	if err := rig.Watch(0, func(_ *compile.Program, in *compile.Instr, _ time.Duration) { // the first step, which is not counted
		modelled, x.kinds = append(modelled, in.Seconds), append(x.kinds, kindOf(in))
	}); err != nil {
		return err
	}
	x.modelled.AddStep(modelled)
	for begin, n := time.Now(), 0; n < b.repeat || time.Since(begin) < time.Second; n++ {
		if err := x.times.Add(rig, 0); err != nil {
			return err
		}
	}
	return nil
}

// kindOf is the kind and type of an operation, as rates have it.
func kindOf(in *compile.Instr) string {
	var types []graph.Type
	for _, o := range slices.Concat(in.In, in.Out) {
		types = append(types, o.Type)
	}
	return cost.Key{Kind: in.Op.Kind(), Type: cost.TypeOf(types...)}.String()
}

// result is what all passes say.
func (x *costRun) result(s *costSetting, kinds bool) costResult {
	r := costResult{Test: s.String(), Threads: s.threads, Modelled: x.modelled.Undisturbed(), Measured: x.times.Undisturbed(), Median: middle(x.times.Steps)}
	r.Error, r.Described = r.Modelled/r.Measured-1, x.described/r.Measured-1
	if kinds {
		r.Kinds = x.byKind()
	}
	return r
}

// byKind is the time of a step by kind of operation.
func (x *costRun) byKind() (all []kindResult) {
	modelled, measured := x.modelled.Instrs(), x.times.Instrs()
	for j, key := range x.kinds {
		i := slices.IndexFunc(all, func(k kindResult) bool { return k.Kind == key })
		if i < 0 {
			i, all = len(all), append(all, kindResult{Kind: key})
		}
		all[i].Modelled += modelled[j]
		all[i].Measured += measured[j]
	}
	slices.SortStableFunc(all, func(x, y kindResult) int {
		return cmp.Compare(math.Abs(y.Modelled-y.Measured), math.Abs(x.Modelled-x.Measured))
	})
	return all
}

// middle is the median.
func middle(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
