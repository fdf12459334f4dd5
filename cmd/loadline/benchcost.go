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
	repeat         int
	kinds          bool
}

func (a *app) benchCostCommand() *cobra.Command {
	b := &benchCostFlags{}
	c := &cobra.Command{
		Use:   "cost",
		Short: "Compare modelled step times with measured ones",
		Long: `bench cost measures this machine as recompute auto does, models the step time of twenty settings by it, and measures them: models,
recompute policies, kinds of attention, precisions and threads. What is compared with the model, which knows of nothing else that runs, is the
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
	f.IntVar(&b.repeat, "repeat", 5, "least `N` measured steps of each setting")
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
	if b.repeat < 1 {
		return usage("--repeat 5", "--repeat %d: want at least 1", b.repeat)
	}
	machines := map[int]cost.Machine{}
	most := a.computeThreads(1)
	for _, n := range []int{1, most} {
		if _, ok := machines[n]; ok {
			continue
		}
		m, err := a.machine(b.machine, n, true)
		if err != nil {
			return err
		}
		machines[n] = m
	}
	if b.write != "" {
		if err := probe.Store(b.write, &probe.File{Key: probeKey(most), Machine: machines[most]}); err != nil {
			return advise(err, "name a file that can be written with --write")
		}
	}
	all := costSettings()
	bar := a.newProgress("setting", int64(len(all)), 0)
	defer bar.close()
	results := []costResult{}
	rows := [][]string{{"setting", "threads", "modelled", "measured", "error", "median"}}
	within, worst, sum := 0, 0.0, 0.0
	for i, s := range all {
		begin := time.Now()
		if s.threads == 0 {
			s.threads = most
		}
		r, err := s.measure(machines[s.threads], b)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		results = append(results, r)
		rows = append(rows, []string{r.Test, fmt.Sprint(r.Threads), milliseconds(r.Modelled), milliseconds(r.Measured), fmt.Sprintf("%+.1f%%", 100*r.Error), milliseconds(r.Median)})
		for _, k := range r.Kinds[:min(4, len(r.Kinds))] {
			rows = append(rows, []string{"  " + k.Kind, "", milliseconds(k.Modelled), milliseconds(k.Measured), fmt.Sprintf("%+.1f%%", 100*(k.Modelled/k.Measured-1)), ""})
		}
		e := math.Abs(r.Error)
		if worst, sum = max(worst, e), sum+e; e <= costBound {
			within++
		}
		bar.set(int64(i+1), time.Since(begin), fmt.Sprintf("%s %+.1f%%", r.Test, 100*r.Error), "")
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

// measure models and measures the setting.
func (s costSetting) measure(m cost.Machine, b *benchCostFlags) (r costResult, err error) {
	o, err := s.options(m)
	if err != nil {
		return r, err
	}
	described := o
	described.Machine = cost.Laptop2()
	dev := cpu.New(cpu.Options{Threads: s.threads, Set: kernel.Best()})
	plain, err := train.Compile(described, dev, train.FixedBytes{})
	if err != nil {
		return r, err
	}
	rig, err := probe.Open(dev, os.TempDir(), o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if _, err := rig.Step(0); err != nil {
		return r, err
	}
	var times probe.Times
	for begin := time.Now(); len(times.Steps) < b.repeat || time.Since(begin) < time.Second; {
		if err := times.Add(rig, 0); err != nil {
			return r, err
		}
	}
	r = costResult{Test: s.String(), Threads: s.threads, Modelled: rig.Job(0).Seconds(), Measured: times.Undisturbed(), Median: middle(times.Steps)}
	r.Error, r.Described = r.Modelled/r.Measured-1, plain.Seconds()/r.Measured-1
	if b.kinds {
		r.Kinds, err = byKind(rig)
	}
	return r, err
}

// byKind is the time of a step by kind of operation.
func byKind(rig *probe.Rig) ([]kindResult, error) {
	var all []kindResult
	err := rig.Watch(0, func(_ *compile.Program, in *compile.Instr, d time.Duration) {
		var types []graph.Type
		for _, o := range slices.Concat(in.In, in.Out) {
			types = append(types, o.Type)
		}
		key := cost.Key{Kind: in.Op.Kind(), Type: cost.TypeOf(types...)}.String()
		i := slices.IndexFunc(all, func(k kindResult) bool { return k.Kind == key })
		if i < 0 {
			i, all = len(all), append(all, kindResult{Kind: key})
		}
		all[i].Modelled += in.Seconds
		all[i].Measured += d.Seconds()
	})
	slices.SortStableFunc(all, func(x, y kindResult) int {
		return cmp.Compare(math.Abs(y.Modelled-y.Measured), math.Abs(x.Modelled-x.Measured))
	})
	return all, err
}

// middle is the median.
func middle(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
