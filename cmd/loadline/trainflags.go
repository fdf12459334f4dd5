package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/cost"
	"loadline/mem"
	"loadline/model"
	"loadline/model/weights"
	"loadline/tensor/kernel"
	"loadline/train"
	"loadline/train/checkpoint"
)

// trainFlags are the flags of train, which plan has too.
type trainFlags struct {
	preset, model                            string
	data, valData, dataField, out, resume    string
	evalEvery, steps, saveEvery, keep        int
	batch, seq, accumulate, warmup           int
	lr, weightDecay, clip, momentum          float64
	labelSmoothing, zLoss                    float64
	schedule, optimizer, precision, attnKind choiceFlag
	master                                   choiceFlag
	nesterov                                 bool
	recompute, offload, tier, headChunk      string
	machine, kernels                         string
	zero, ranks                              int
	memory, deviceMemory                     sizeFlag
}

func (t *trainFlags) register(c *cobra.Command) {
	d := train.Defaults(model.Config{})
	t.schedule = choiceFlag{string(d.Schedule), []string{string(train.Constant), string(train.Cosine), string(train.WSD)}}
	t.optimizer = choiceFlag{d.Optimizer.String(), compile.Optimizers()}
	t.master = choiceFlag{"fp32", []string{"fp32", "none"}}
	t.precision = choiceFlag{d.Precision, []string{"fp32", "bf16", "fp16", "fp8"}}
	t.attnKind = choiceFlag{d.Attention, []string{"standard", "flash"}}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&t.preset, "preset", "", "train a new model of this `NAME`; list shows all")
	f.StringVar(&t.model, "model", "", "go on training the model at `PATH`: an --out, a Hugging Face directory, a GGUF file, or ORG/NAME as pulled")
	f.StringVar(&t.data, "data", "", "`FILE` to train on: text, JSON lines or Parquet (default: ten plays and the sonnets of Shakespeare, which loadline carries)")
	f.StringVar(&t.valData, "val-data", "", "`FILE` to evaluate on")
	f.StringVar(&t.dataField, "data-field", "", "`NAME` of the field or column with the text, in JSON lines and Parquet (default: text)")
	f.IntVar(&t.evalEvery, "eval-every", 0, "evaluate after every `N` steps and at the end; 0 is at the end alone")
	f.StringVar(&t.out, "out", "", "`DIR` for checkpoints; it must not exist (default: --resume, or the first free runs/NAME-N)")
	f.StringVar(&t.resume, "resume", "", "go on from the newest checkpoint in `DIR`, or from the start if there is none; may be --out; the run's other flags are not kept, --lr apart: give them again")
	f.IntVar(&t.steps, "steps", d.Steps, "steps in all, resumed ones included")
	f.IntVar(&t.saveEvery, "save-every", 100, "save after every `N` steps and at the end; 0 is at the end alone")
	f.IntVar(&t.keep, "keep", d.Keep, "newest checkpoints that stay; 0 keeps all")
	f.IntVar(&t.batch, "batch", 0, "sequences of a micro-batch on each rank (default: the preset's, or 8)")
	f.IntVar(&t.seq, "seq", 0, "tokens of a sequence (default: the preset's, or 256)")
	f.IntVar(&t.accumulate, "accumulate", d.Accumulate, "micro-batches of a step")
	f.Float64Var(&t.lr, "lr", 0, fmt.Sprintf("peak learning rate (default: %g, with --model %g, of sgd %g; with --resume what it was)", d.LR, train.TuneLR(compile.AdamW), train.TuneLR(compile.SGD)))
	f.Var(&t.schedule, "schedule", "how the learning rate goes after warm-up; wsd falls in the last fifth")
	f.IntVar(&t.warmup, "warmup", d.Warmup, "steps in which the learning rate rises")
	f.Float64Var(&t.weightDecay, "weight-decay", d.WeightDecay, "of tensors of two or more axes")
	f.Float64Var(&t.clip, "clip", d.Clip, "largest global norm of the gradient; 0 does not clip")
	f.Float64Var(&t.labelSmoothing, "label-smoothing", 0, "share of a target that all tokens of the vocabulary have alike; losses of steps hold it, those of evaluations do not")
	f.Float64Var(&t.zLoss, "z-loss", 0, "what the squared logarithm of the softmax's denominator weighs in the loss, such as 1e-4; likewise")
	f.Var(&t.optimizer, "optimizer", "what updates the weights; lion wants a third to a tenth of adamw's --lr, adafactor keeps the least")
	f.Float64Var(&t.momentum, "momentum", 0.9, "of sgd; 0 keeps none")
	f.BoolVar(&t.nesterov, "nesterov", false, "sgd's momentum in Nesterov's form")
	f.Var(&t.precision, "precision", "number format of training; fp8 is not there yet")
	f.Var(&t.master, "master", "masters of bf16 and fp16 weights; none leaves them out, of bf16 alone, and rounds updates stochastically")
	f.StringVar(&t.recompute, "recompute", "none", "activations to compute again in the backward half: `none|full|auto|TAG,...`, where a TAG is a part such as attn.core or norm")
	f.Var(&t.attnKind, "attention", "how attention is computed; standard keeps all its scores")
	f.StringVar(&t.headChunk, "head-chunk", "", "rows of logits that the loss head holds at once, `auto|N`: N a multiple of 128, or as many as fit under the limit; no bit changes (default: 2 MiB of them)")
	f.IntVar(&t.zero, "zero", 0, "ZeRO stage, 0 to 3: what ranks share out")
	f.IntVar(&t.ranks, "ranks", 1, "processes that train together on this machine")
	f.Var(&t.memory, "memory", "peak resident memory of each process, such as 512MiB (default: 80% of what is available)")
	f.Var(&t.deviceMemory, "device-memory", "how much of --memory the device tier may take")
	f.StringVar(&t.tier, "tier", "", "`file:DIR=SIZE`, where what is offloaded goes, and how much of it (default: a file in --out)")
	registerKernels(f, &t.kernels)
	f.StringVar(&t.machine, "machine", "", "which `MACHINE` times are modelled for, which is what recompute auto and offloading decide by: this (measured once), again (measured now), "+
		cost.Laptop2().Name+", or a file (default: $"+machineVar+", or this where it decides)")
	f.StringVar(&t.offload, "offload", "", "what to keep below the device tier, a `LIST` of activations, optimizer (default: nothing, or optimizer where --tier or --device-memory gives it a place and without it the run does not fit or is modelled slower)")
}

// trainRun is a training run as the command line describes it.
type trainRun struct {
	Name      string // what is trained, for people
	Options   train.Options
	Threads   int
	Kernels   string // name of the kernel set that computes
	Out       string
	Resume    string // empty begins
	Weights   string // directory of the model to start from; empty means fresh weights
	TierDir   string // where the file of the disk tier goes; empty means Out
	TierBytes mem.Bytes
	DataSeed  uint64
	LimitFrom string // where Options.Memory comes from

	set     kernel.Set // that Kernels names
	resumed string     // name of the set that made the checkpoint to go on from; empty where there is none, or it is not known

	// Of the inputs, once they are prepared.
	Tokenizer         string // path of tokenizer.json
	Tokens, ValTokens string // paths of token files

	data, valData string // texts; an empty data is the embedded one
	dataField     string // what their documents are called; empty is the usual name
	unnamed       bool   // Out has its name from the model
	created       bool   // Out was made by this run
}

// textsPresent refuses texts that are not there, before this machine is measured.
func (t *trainFlags) textsPresent() error {
	for _, x := range [][2]string{{"--data", t.data}, {"--val-data", t.valData}} {
		if err := present(x[0], x[1]); err != nil {
			return err
		}
	}
	return nil
}

// resolve turns flags into a run. Every error is about usage.
func (t *trainFlags) resolve(a *app, c *cobra.Command, args []string) (*trainRun, error) {
	if len(args) == 1 {
		if t.model != "" {
			return nil, usage("give one of them", "the model is %q and also --model %s", args[0], t.model)
		}
		t.model = args[0]
	}
	r := &trainRun{Resume: t.resume, Out: t.out, data: t.data, valData: t.valData, dataField: t.dataField, DataSeed: a.seed}
	config, batch, err := t.source(r)
	if err != nil {
		return nil, err
	}
	if err := t.options(a, c, r, config, batch); err != nil {
		return nil, err
	}
	if p := config.MaxPositionEmbeddings; config.ModelType == model.GPT2 && r.Options.Seq > p { // rotary positions go on
		return nil, usage(fmt.Sprintf("--seq %d", p), "--seq %d: the model has %d positions", r.Options.Seq, p)
	}
	if err := r.Options.Validate(); err != nil {
		var option *train.OptionError
		if errors.As(err, &option) {
			return nil, err
		}
		return nil, usage("loadline train --help lists the settings", "%v", err)
	}
	return r, checkTags(r.Options)
}

// source finds the model.
func (t *trainFlags) source(r *trainRun) (model.Config, model.TrainDefaults, error) {
	path := t.model
	if path != "" && t.preset != "" {
		return model.Config{}, model.TrainDefaults{}, usage("give one of them", "there is --preset %s and also --model %s", t.preset, path)
	}
	name := t.preset
	if path == "" && name == "" && t.resume != "" {
		if e, err := checkpoint.Latest(t.resume); err == nil {
			path = e.Path
		} else if _, err := os.Stat(filepath.Join(t.resume, checkpoint.ConfigName)); err == nil {
			path = t.resume
		}
	}
	if path != "" && name == "" && !exists(path) {
		if _, _, err := model.Preset(path); err == nil {
			path, name = "", path
		}
	}
	switch {
	case name != "":
		c, batch, err := model.Preset(name)
		if err != nil {
			return c, batch, usage(didYouMean(name, model.Presets(), "--preset ", "loadline train --preset list"),
				"there is no preset %q: want %s", name, orList(model.Presets()))
		}
		r.Name = name
		return c, batch, nil
	case path == "":
		return model.Config{}, model.TrainDefaults{}, usage("--preset llama-tiny", "what is to be trained? want --preset NAME or --model PATH")
	}
	dir, config, err := modelConfig(path, model.Presets()...)
	if err != nil {
		return config, model.TrainDefaults{}, err
	}
	r.Name, r.Weights = path, dir
	return config, model.TrainDefaults{Batch: 8, Seq: min(256, config.MaxPositionEmbeddings)}, nil
}

// options fills in everything that is a setting of package train.
func (t *trainFlags) options(a *app, c *cobra.Command, r *trainRun, config model.Config, batch model.TrainDefaults) error {
	o := train.Defaults(config)
	o.Batch, o.Seq = batch.Batch, batch.Seq
	if c.Flags().Changed("batch") {
		o.Batch = t.batch
	}
	if c.Flags().Changed("seq") {
		o.Seq = t.seq
	}
	o.Accumulate, o.Steps, o.Warmup = t.accumulate, t.steps, t.warmup
	o.WeightDecay, o.Clip = t.weightDecay, t.clip
	o.LabelSmoothing, o.ZLoss = t.labelSmoothing, t.zLoss
	o.Schedule, o.Precision, o.Attention = train.Schedule(t.schedule.value), t.precision.value, t.attnKind.value
	if o.Schedule == train.WSD {
		o.Decay = (o.Steps + 4) / 5
	}
	if err := t.update(c, r, &o); err != nil {
		return err
	}
	o.SaveEvery, o.Keep, o.EvalEvery = t.saveEvery, t.keep, t.evalEvery
	switch {
	case t.evalEvery > 0 && t.valData == "":
		return usage("--val-data FILE", "--eval-every %d: there is no text to evaluate on", t.evalEvery)
	case t.evalEvery == 0 && t.valData != "":
		o.EvalEvery = max(o.Steps, 1)
	}
	o.Zero, o.Ranks, o.Seed = t.zero, t.ranks, a.seed
	if o.Ranks < 1 {
		return usage("--ranks 1", "--ranks %d: want at least 1", o.Ranks)
	}
	var err error
	if o.Recompute, err = compile.ParseRecompute(t.recompute); err != nil {
		return usage("--recompute auto", "--%v", err)
	}
	if err := t.head(&o); err != nil {
		return err
	}
	if err := t.tiers(c, r, &o); err != nil {
		return err
	}
	if o.Memory, r.LimitFrom, err = memoryLimit(t.memory, o.Ranks); err != nil {
		return err
	}
	o.DeviceMemory = mem.Bytes(t.deviceMemory)
	r.Threads = a.computeThreads(o.Ranks)
	if r.set, err = kernelSet(t.kernels); err != nil {
		return err
	}
	r.Kernels = r.set.Name()
	if o.Machine, err = a.machine(t.machine, r.Threads, r.set, o.Recompute.Policy == compile.Auto || o.Offload || o.OffloadOptimizer); err != nil {
		return err
	}
	r.Options = o
	return nil
}

// computeThreads is --threads, or the cores that each rank has.
func (a *app) computeThreads(ranks int) int {
	if a.threads > 0 {
		return a.threads
	}
	return max(1, runtime.GOMAXPROCS(0)/ranks)
}

// tiers reads --offload and --tier.
func (t *trainFlags) tiers(c *cobra.Command, r *trainRun, o *train.Options) error {
	kinds := []string{"activations", "optimizer", "weights"}
	for _, k := range strings.Split(t.offload, ",") {
		switch k = strings.TrimSpace(k); k {
		case "":
		case "activations":
			o.Offload = true
		case "optimizer":
			o.OffloadOptimizer = true
		case "weights":
			return usage("--offload activations", "--offload %s: activations and optimizer alone are there yet", k)
		default:
			return usage(didYouMean(k, kinds, "--offload ", "--offload activations"), "--offload %s: want %s", k, orList(kinds))
		}
	}
	if t.deviceMemory > 0 && !c.Flags().Changed("offload") {
		o.Lower = math.MaxInt64
	}
	if t.tier == "" {
		return nil
	}
	rest, ok := strings.CutPrefix(t.tier, "file:")
	at := strings.LastIndexByte(rest, '=')
	if !ok || at < 1 {
		return usage("--tier file:/scratch=10GiB", "--tier %s: want file:DIR=SIZE", t.tier)
	}
	n, err := mem.ParseBytes(rest[at+1:])
	if err != nil || n <= 0 {
		return usage("--tier file:/scratch=10GiB", "--tier %s: %q is not a size above 0", t.tier, rest[at+1:])
	}
	r.TierDir, r.TierBytes = rest[:at], n
	if t.deviceMemory == 0 && !c.Flags().Changed("offload") {
		o.Lower = n
	}
	if gone(r.TierDir) {
		return absent("--tier", r.TierDir, "name a directory that is there")
	}
	return output{directory: true}.check("--tier", r.TierDir)
}

// checkTags refuses a tag of --recompute that names no part of the model.
func checkTags(o train.Options) error {
	if o.Recompute.Policy != compile.Tags {
		return nil
	}
	g, err := model.TrainGraph(o.Config, model.TrainOptions{Name: train.StepProgram, Batch: 1, Seq: o.Seq, Standard: o.Attention == "standard"})
	if err != nil {
		return usage("loadline train --help lists the settings", "%v", err)
	}
	var names []string
	seen := map[string]bool{"": true}
	for i := range g.Ops {
		words := strings.Split(g.Ops[i].Part, ".")
		for n := 1; n <= len(words); n++ {
			for from := 0; from+n <= len(words); from++ {
				if name := strings.Join(words[from:from+n], "."); !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
	}
	for _, tag := range o.Recompute.Tags {
		if !seen[tag] {
			return usage(didYouMean(tag, names, "--recompute ", "--recompute auto"), "--recompute %s: no part of the model has this name; there are %s", tag, strings.Join(names, " "))
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// modelConfig finds the configuration of a model on the disk, and where it is: the directory, or the GGUF file. presets are what may be meant in
// its place.
func modelConfig(path string, presets ...string) (string, model.Config, error) {
	path = cachedModel(path)
	if gone(path) {
		return "", model.Config{}, absentModel("--model", path, presets...)
	}
	where, c, err := weights.ReadConfig(path)
	switch {
	case errors.Is(err, weights.ErrNone) && isFile(path):
		return "", c, usage("name a GGUF file, or the directory of a model", "--model %s: it is no GGUF file", path)
	case errors.Is(err, weights.ErrNone):
		return "", c, usage("name a directory that loadline train has written, one with config.json and model.safetensors, or a GGUF file",
			"--model %s: it holds neither %s nor a checkpoint", path, checkpoint.ConfigName)
	case err != nil:
		return "", c, fmt.Errorf("--model %s: %w", path, err)
	}
	return where, c, nil
}
