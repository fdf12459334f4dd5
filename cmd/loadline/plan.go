package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/mem"
	"loadline/train"
)

func (a *app) planCommand() *cobra.Command {
	t := &trainFlags{}
	var program string
	var text bool
	s, h, x, both := &serveFlags{}, &hardwareFlags{}, &exploreFlags{}, &compareFlags{}
	c := &cobra.Command{
		Use:   "plan [MODEL]",
		Short: "Tell what a run would take, here or on described hardware, without running it",
		Long: `plan takes the flags of train and compiles every branch of the run, so its bytes are exact: train with the same flags
reserves them to the byte. Times are modelled. With --context it plans the engine of generate instead. Exit code 3 says that
the run does not fit.

With --hardware the planner answers for other systems on machines that need not be here: whether it fits, the best three plans with
their peak by purpose, its range and the chance of running out, the time, the reasons, and what the next step up would take. MODEL
is then a built-in name, a config.json or its directory, or a GGUF file. What a flag gives is held; what is absent is searched.
plan score and plan check hold the planner against measurements and logs.`,
		Example: `  loadline plan llama-3.1-70b --hardware 8xH100-SXM-80GB --task train --seq 8192 --global-batch 256
  loadline plan ./model.gguf --hardware RTX-4090 --task serve --context 8192 --concurrency 16 --html report.html
  loadline plan qwen3-8b --hardware A100-40GB --task finetune --adapter lora --framework deepspeed --write-config out
  loadline plan --config out/loadline.yaml
  loadline plan llama-3.1-8b --deepspeed ds.json --hardware 8xH100
  loadline plan llama-3.1-8b --hardware RTX-4090 --compare vllm,sglang,llamacpp
  loadline plan llama-3.1-70b --task train --compare 8xH100,8xH200,4x8xA100-80GB
  loadline plan llama-3.1-70b --hardware 8xH100 --task train --serve
  loadline plan --list hardware
  loadline plan --preset llama-tiny --memory 96MiB --recompute auto
  loadline plan bench-90m --ranks 2 --zero 1 --memory 2GiB --json
  loadline plan --preset llama-tiny --batch 1 --seq 128 --text
  loadline plan bench-90m --context 2048 --concurrency 8 --memory 2GiB
  loadline plan bench-90m --context 2048 --kv-type q8_0,q4_0`,
		Args: func(_ *cobra.Command, args []string) error {
			_, err := x.args(args)
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			if t.preset == "list" {
				return a.listPresets()
			}
			if h.list.value != "" {
				return a.planList(h)
			}
			args, err := x.args(args)
			if err != nil {
				return err
			}
			if x.serve != "" || both.list != "" || h.hardware != "" || h.deepspeed != "" || h.file != "" {
				if err := t.takeModel(args); err != nil {
					return err
				}
				if err := a.measureHardware(h, both.list, t.machine, t.kernels); err != nil {
					return err
				}
				if x.serve != "" {
					e, err := a.openExplorer(h, t)
					if err != nil {
						return err
					}
					return a.explore(c, x, e)
				}
				if both.list != "" {
					return a.planCompare(c, both, h)
				}
				if h.deepspeed != "" {
					return a.planDeepSpeed(c, h, t)
				}
				return a.planHardware(c, h, t, s)
			}
			if err := h.checkOwn(c, t, args, s.context > 0); err != nil {
				return err
			}
			if err := s.check(c); err != nil {
				return err
			}
			if s.context == 0 {
				if err := t.textsPresent(); err != nil {
					return err
				}
			}
			r, err := t.resolve(a, c, args)
			if err != nil {
				return err
			}
			if s.context > 0 {
				s.kvType = h.kvType
				return a.planServing(r, s, program, text)
			}
			return a.plan(r, program, text)
		},
	}
	t.register(c)
	c.Flags().StringVar(&program, "program", "", "write the compiled step's text to `FILE`")
	c.Flags().BoolVar(&text, "text", false, "print the compiled step's text")
	s.register(c)
	h.register(c, t)
	both.register(c)
	x.register(c)
	c.AddCommand(a.scoreCommand(), a.checkCommand())
	return c
}

// planEntry is one plan of plan's document.
type planEntry struct {
	Peak            mem.Bytes            `json:"peak_bytes"`
	Range           [2]mem.Bytes         `json:"peak_range"` // of our own runs both are the peak
	OOMChance       float64              `json:"oom_chance"` // of our own runs 0 or 1
	ByPurpose       map[string]mem.Bytes `json:"by_purpose"`
	Ranks           int                  `json:"ranks"`
	StepSeconds     float64              `json:"step_seconds"`
	TokensPerSecond float64              `json:"tokens_per_second"`
	Options         map[string]any       `json:"options"` // by flag
	Why             string               `json:"why"`
}

// leastEntry is the least memory under a recompute policy.
type leastEntry struct {
	Recompute string    `json:"recompute"`
	Bytes     mem.Bytes `json:"bytes"`
}

// planDocument is plan's document, and train's when it is refused.
type planDocument struct {
	Fits    bool         `json:"fits"`
	Limit   mem.Bytes    `json:"limit_bytes"`
	Plans   []planEntry  `json:"plans"` // the run as asked for, then the least of each policy that is not it
	Least   []leastEntry `json:"least"`
	Largest []leastLine  `json:"largest"` // of the run as asked for, largest first
	Nearest string       `json:"nearest"` // flags of the nearest setting that fits; empty where the run fits

	NearestPeak mem.Bytes `json:"nearest_peak_bytes"` // the memory that it takes, also where --device-memory refuses
}

// leastLine is a line of a plan.
type leastLine struct {
	Purpose string    `json:"purpose"`
	Tier    string    `json:"tier"`
	Bytes   mem.Bytes `json:"bytes"`
}

// plan is the verb.
func (a *app) plan(r *trainRun, program string, text bool) error {
	if err := r.readable(context.Background()); err != nil { // as train does, which would refuse it
		return err
	}
	job, least, err := a.planRun(r)
	if err != nil {
		return a.refuse(r, err)
	}
	a.printPlan(r, job, least)
	fmt.Fprintf(a.text(), "fits: %v of %v\n", job.Promise.Memory(), r.Options.Memory)
	if text {
		for _, p := range job.Programs {
			fmt.Fprintf(a.text(), "\n%s", p.Text())
		}
	}
	if program != "" {
		if err := replaceFile(program, []byte(job.Step.Text())); err != nil {
			return advise(fmt.Errorf("--program: %w", err), "name a file that can be written")
		}
	}
	if !a.json {
		return nil
	}
	done := a.planning(&r.Options)
	d, err := r.document(job, least)
	done()
	if err != nil {
		return err
	}
	d.Fits = true
	return a.document(d)
}

// document describes a job and its alternatives.
func (r *trainRun) document(job *train.Job, least []train.Least) (*planDocument, error) {
	d := &planDocument{Limit: r.Options.Memory, Plans: []planEntry{r.entry(job, "as asked for: "+why(job))}, Least: []leastEntry{}, Largest: []leastLine{}}
	for _, l := range job.Promise.Peak.Lines() {
		d.Largest = append(d.Largest, leastLine{l.Purpose.String(), l.Tier.String(), l.Bytes})
	}
	for _, l := range least {
		d.Least = append(d.Least, leastEntry{l.Policy, l.Memory})
		policy, err := compile.ParseRecompute(l.Policy)
		if err != nil {
			return nil, err
		}
		if policy.Policy == r.Options.Recompute.Policy && l.Memory == job.Promise.Memory() {
			continue
		}
		other := *r
		other.Options.Recompute, other.Options.Memory = policy, l.Memory
		j, err := train.Attempt(other.Options, other.device(), other.fixed())
		var no *train.DoesNotFitError
		if errors.As(err, &no) { // the limit of another tier is in the way
			continue
		}
		if err != nil {
			return nil, err
		}
		d.Plans = append(d.Plans, other.entry(j, "the least memory under recompute "+l.Policy))
	}
	return d, nil
}

// why says what was chosen and what it gave up.
func why(job *train.Job) string {
	text := "recompute " + job.Options.Recompute.String()
	if len(job.Step.Notes) > 0 {
		text = strings.Join(job.Step.Notes, "; ")
	}
	if away := job.Offloaded(); away > 0 {
		text += fmt.Sprintf("; the optimizer's state lies on the lower tier: %v, read and written by every step", away)
	}
	return text
}

// entry describes a job.
func (r *trainRun) entry(job *train.Job, why string) planEntry {
	o := &r.Options
	e := planEntry{
		Peak: job.Promise.Memory(), ByPurpose: byPurpose(job.Promise), Ranks: o.Ranks, StepSeconds: job.Seconds(), Why: why,
		Options: map[string]any{
			"model": r.Name, "batch": o.Batch, "seq": o.Seq, "accumulate": o.Accumulate, "recompute": o.Recompute.String(), "attention": o.Attention,
			"precision": o.Precision, "zero": o.Zero, "ranks": o.Ranks, "offload": "", "memory": o.Memory, "threads": r.Threads, "kernels": r.Kernels,
			"optimizer": o.Optimizer.String(), "master": !o.NoMaster, "head_chunk": job.HeadChunk(),
		},
	}
	e.Options["offload"] = strings.Join(job.Options.Offloads(), ",")
	e.Range = [2]mem.Bytes{e.Peak, e.Peak}
	if e.Peak > o.Memory {
		e.OOMChance = 1
	}
	if e.StepSeconds > 0 {
		e.TokensPerSecond = float64(o.Sequences()*o.Seq) / e.StepSeconds
	}
	return e
}

// byPurpose is the peak of a plan by purpose, without what is zero.
func byPurpose(p *mem.Plan) map[string]mem.Bytes {
	by := map[string]mem.Bytes{}
	for q, n := range p.Peak.ByPurpose() {
		if n != 0 {
			by[mem.Purpose(q).String()] = n
		}
	}
	return by
}
