package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/compile"
	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model"
	"loadline/planner/hardware"
	"loadline/planner/logcheck"
	"loadline/planner/search"
	"loadline/planner/writers"
)

// hardwareFlags are the flags with which plan asks the planner about described machines. What they leave open is searched.
type hardwareFlags struct {
	hardware, framework, quant, kvType, lossHead string
	list, task, objective, adapter               choiceFlag
	globalBatch, output, adapterRank             int
	tp, pp, cp, ep, interleave, gpuLayers        int
	hostMemory, nvme                             sizeFlag
	html, writeConfig, deepspeed, profile        string
	machineFlags

	own *pflag.FlagSet // these flags alone
}

// shared are the flags of own runs that the planner takes too; planOnly are flags of one verb that subcommands lack.
var (
	shared   = []string{"preset", "model", "seq", "batch", "ranks", "zero", "precision", "optimizer", "recompute", "offload", "memory", "context", "concurrency", "machine"}
	planOnly = []string{"list", "html", "write-config", "deepspeed", "compare", "serve"}
	serving  = []string{"context", "concurrency", "output", "quant", "kv-type", "gpu-layers"}
	training = []string{"seq", "global-batch", "batch", "zero", "optimizer", "recompute", "offload", "adapter", "adapter-rank", "loss-head", "interleave"}
	counted  = []string{"seq", "batch", "ranks", "context", "concurrency", "global-batch", "output", "adapter-rank", "tp", "pp", "cp", "ep", "interleave"}
	named    = []string{"hardware", "html", "write-config", "deepspeed", "hardware-file", "profile", "framework", "quant", "kv-type", "loss-head"}
	pricings = []string{"deepspeed", "hardware", "preset", "model", "seq", "batch", "ranks"}
)

// register adds the flags. Those of t have to be there already.
func (h *hardwareFlags) register(c *cobra.Command, t *trainFlags) {
	t.optimizer.choices = append(t.optimizer.choices, "adamw8bit", "torchao8bit", "torchao4bit")
	h.list = choiceFlag{"", []string{"models", "hardware"}}
	h.task = choiceFlag{"", []string{search.Train, search.Finetune, search.Serve}}
	h.objective = choiceFlag{search.Speed, []string{search.Speed, search.Cost, search.Fewest}}
	h.adapter = choiceFlag{"", []string{"none", "lora", "qlora"}}
	f := pflag.NewFlagSet("hardware", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&h.hardware, "hardware", "", "ask the planner about `[Nx][Mx]NAME`: N nodes of M cards, such as RTX-4090, 8xH100-SXM-80GB or 4x8xH100; or this, the machine here, measured")
	f.Var(&h.list, "list", "list the built-in models, or the hardware that has a name")
	f.Var(&h.task, "task", "with --hardware: what for (default: finetune with --adapter, train with --seq or --global-batch, else serve)")
	f.StringVar(&h.framework, "framework", "", "with --hardware: `NAME` of the system that is to do it (default: all are tried)")
	f.Var(&h.objective, "objective", "with --hardware: most tokens a second, fewest card-seconds a token, or fewest cards")
	f.IntVar(&h.globalBatch, "global-batch", 0, "with --hardware: sequences of a step on all cards together")
	f.Var(&h.adapter, "adapter", "with --hardware: what fine-tuning trains in place of all weights")
	f.IntVar(&h.adapterRank, "adapter-rank", 0, "with --hardware: the adapter's rank (default 16)")
	f.StringVar(&h.lossHead, "loss-head", "", "with --hardware: `full|chunked`, whether all logits are held at once")
	f.IntVar(&h.output, "output", 0, "with --hardware: tokens of --context that are generated (default: a quarter)")
	f.StringVar(&h.quant, "quant", "", "with --hardware: `FORMAT` of the weights that are served, such as awq-int4, mxfp4 or q4_k_m")
	f.StringVar(&h.kvType, "kv-type", "", "with --hardware: `TYPE` of keys and values: f16, fp8, q8_0 or q4_0; with --context alone K,V as of generate")
	f.IntVar(&h.gpuLayers, "gpu-layers", 0, "with --hardware: layers that llama.cpp keeps on the card, the others on the CPU")
	for _, x := range []struct {
		p          *int
		name, what string
	}{{&h.tp, "tp", "tensor"}, {&h.pp, "pp", "pipeline"}, {&h.cp, "cp", "context"}, {&h.ep, "ep", "expert"}} {
		f.IntVar(x.p, x.name, 0, "with --hardware: "+x.what+" parallelism")
	}
	f.IntVar(&h.interleave, "interleave", 0, "with --hardware: stages of layers that a rank of Megatron's pipeline holds")
	f.Var(&h.hostMemory, "host-memory", "with --hardware: memory of a node beside its cards (default: twice theirs)")
	f.Var(&h.nvme, "nvme", "with --hardware: NVMe of a node (default: none)")
	f.StringVar(&h.html, "html", "", "with --hardware: write a report to `FILE`, one page that needs nothing else")
	f.StringVar(&h.writeConfig, "write-config", "", "with --hardware: write the best plan's configuration files into `DIR`; plan --config DIR/loadline.yaml gives it again")
	f.StringVar(&h.deepspeed, "deepspeed", "", "price every key of a DeepSpeed `FILE` in bytes, for MODEL on --ranks cards, or with --hardware say whether it fits")
	h.machineFlags.register(f)
	f.StringVar(&h.profile, "profile", "", "`FILE` with what plan check --learn has learnt (default: loadline/planner.json in the user's configuration)")
	h.own = f
	c.Flags().AddFlagSet(f)
	for name, more := range map[string]string{
		"model": "with --hardware a built-in name, a config.json or its directory, or a GGUF file", "seq": "with --hardware 4096 unless given",
		"batch": "with --hardware what is absent is searched, here and below", "optimizer": "the planner has adamw and the 8-bit and 4-bit ones",
		"precision": "with --hardware bf16, fp16 or fp8, of serving the weights'", "recompute": "with --hardware none, selective or full", "zero": "with --hardware of all ranks",
		"ranks": "with --hardware the cards that are used", "memory": "with --hardware the peak of each card (default: what it has)",
		"offload": "with --hardware none, optimizer, weights or optimizer,weights",
	} {
		x := c.Flags().Lookup(name)
		x.Usage += "; " + more
	}
}

// typed returns the names of the flags that the command line has, of all verbs' left out.
func typed(c *cobra.Command) []string {
	var names []string
	c.Flags().Visit(func(f *pflag.Flag) {
		if c.InheritedFlags().Lookup(f.Name) == nil {
			names = append(names, f.Name)
		}
	})
	return names
}

// checkOwn refuses the planner's flags, and values that only it knows, where plan describes our own run. An engine's has --kv-type.
func (h *hardwareFlags) checkOwn(c *cobra.Command, t *trainFlags, args []string, engine bool) error {
	for _, name := range typed(c) {
		if h.own.Lookup(name) != nil && !(engine && name == "kv-type") {
			return usage("add --hardware 8xH100-SXM-80GB, or another machine", "--%s is for the planner: without --hardware, plan describes our own run here", name)
		}
	}
	if o := t.optimizer.value; !slices.Contains(compile.Optimizers(), o) {
		return usage("--optimizer adamw", "--optimizer %s: our own runs have %s", o, orList(compile.Optimizers()))
	}
	name := strings.Join(append([]string{t.model}, args...), "")
	if _, _, err := model.Preset(name); err == nil || name == "" || exists(name) {
		return nil
	}
	cards, err := loadCards()
	if err != nil {
		return err
	}
	if _, ok := cards.ByName(name); ok {
		return usage("--hardware 8xH100-SXM-80GB, or another machine", "%s is known by its dimensions alone: say on which --hardware it is to run", name)
	}
	return nil
}

// check refuses flags that say nothing to the planner, or nothing about its task.
func (h *hardwareFlags) check(c *cobra.Command) error {
	other, task := serving, h.task.value
	if task == search.Serve {
		other = training
	}
	for _, name := range typed(c) {
		switch {
		case slices.Contains(named, name) && c.Flags().Lookup(name).Value.String() == "":
			return usage("name one, or leave --"+name+" out", "--%s is empty", name)
		case h.deepspeed != "" && !slices.Contains(pricings, name):
			return usage("leave it out", "--%s says nothing about the price of --deepspeed %s", name, h.deepspeed)
		case h.own.Lookup(name) == nil && !slices.Contains(shared, name) && name != "learn":
			return usage("leave it out", "--%s is of our own runs: it says nothing to the planner of --hardware", name)
		case h.deepspeed == "" && slices.Contains(other, name):
			want := search.Serve
			if task == search.Serve {
				want = search.Train
			}
			return usage("--task "+want+", or leave it out", "--%s says nothing about --task %s", name, task)
		case slices.Contains(counted, name):
			if n, err := c.Flags().GetInt(name); err == nil && n < 1 {
				return usage("--"+name+" 1", "--%s %d: want at least 1; the nearest valid value is 1", name, n)
			}
		}
	}
	return nil
}

// guessTask fills in the task from what else is asked.
func (h *hardwareFlags) guessTask(c *cobra.Command) {
	changed := c.Flags().Changed
	switch {
	case h.task.value != "":
	case h.adapter.value != "" && h.adapter.value != "none":
		h.task.value = search.Finetune
	case changed("seq") || changed("global-batch"):
		h.task.value = search.Train
	default:
		h.task.value = search.Serve
	}
}

// question is what the flags ask, with the profile's factors where there is one.
func (h *hardwareFlags) question(c *cobra.Command, t *trainFlags, s *serveFlags, m *planModel) (search.Question, error) {
	machines, err := h.machines()
	if err != nil {
		return search.Question{}, err
	}
	changed := func(name, value string) string {
		if c.Flags().Changed(name) {
			return value
		}
		return ""
	}
	number := func(name string, n int) int {
		if c.Flags().Changed(name) {
			return n
		}
		return 0
	}
	pointer := func(name string, n int) *int {
		if c.Flags().Changed(name) {
			return &n
		}
		return nil
	}
	q := search.Question{
		Shape: m.Shape, Stored: m.Stored, Task: h.task.value, Framework: h.framework, Objective: h.objective.value,
		Seq: t.seq, Context: s.context, Output: h.output, Concurrency: s.concurrency, GlobalBatch: h.globalBatch, Memory: mem.Bytes(t.memory),
		Hold: search.Hold{
			Ranks: number("ranks", t.ranks), TP: h.tp, PP: h.pp, CP: h.cp, EP: h.ep, Interleave: h.interleave, MicroBatch: t.batch, ZeRO: pointer("zero", t.zero),
			Precision: changed("precision", t.precision.value), Recompute: changed("recompute", t.recompute), Offload: t.offload,
			Adapter: h.adapter.value, AdapterRank: h.adapterRank, Optimizer: changed("optimizer", t.optimizer.value), LossHead: h.lossHead,
			Quant: h.quant, KVType: h.kvType, GPULayers: pointer("gpu-layers", h.gpuLayers),
		},
	}
	if q.Machine, err = machines.Parse(h.hardware); err != nil {
		return q, h.nonsense(err)
	}
	h.around(&q.Machine)
	if m.Stored != nil && h.quant != "" {
		return q, usage("leave --quant out, or name the model in place of the file", "--quant %s: %s says already how its weights are", h.quant, m.Name)
	}
	return q, nil
}

// nonsense makes the planner's refusal one of the command line; other errors it returns as they are.
func (h *hardwareFlags) nonsense(err error) error {
	var (
		bad     *search.Invalid
		unknown *hardware.UnknownError
	)
	switch {
	case errors.As(err, &unknown):
		at := strings.LastIndex(h.hardware, unknown.Name)
		near := h.hardware[:max(0, at)] + strings.ReplaceAll(unknown.Nearest, " ", "-")
		return usage("--hardware "+near+", or loadline plan --list hardware", "--hardware %s: no card has the name %q; the nearest is %s", h.hardware, unknown.Name, unknown.Nearest)
	case errors.As(err, &bad):
		what, try := bad.What+": "+bad.Got, bad.Nearest
		if h.own.Lookup(bad.What) != nil || slices.Contains(shared, bad.What) && bad.What != "model" {
			what, try = "--"+bad.What+" "+strings.Trim(bad.Got, `"`), "--"+bad.What+" "+bad.Nearest
		}
		if bad.Why != "" {
			what += ": " + bad.Why
		}
		if bad.Why == "" {
			what += " is out of range"
		}
		if bad.Nearest == "" {
			return usage("loadline plan --list models shows models that are whole", "%s", what)
		}
		return usage(try, "%s; the nearest valid value is %s", what, bad.Nearest)
	}
	return err
}

// tooSmallError says that no plan fits a described machine.
type tooSmallError struct {
	mem.OverBudgetError
	text, next string
}

// Error returns one line.
func (e *tooSmallError) Error() string { return e.text }

// Advice returns one line: what to do.
func (e *tooSmallError) Advice() string { return e.next }

// Unwrap returns the numbers.
func (e *tooSmallError) Unwrap() error { return &e.OverBudgetError }

// hardwareDocument is plan's document with --hardware.
type hardwareDocument struct {
	*search.Answer
	Framework string   `json:"framework"` // of the first plan
	Written   []string `json:"written"`   // files
}

// planHardware answers for a described machine.
func (a *app) planHardware(c *cobra.Command, h *hardwareFlags, t *trainFlags, s *serveFlags) error {
	h.guessTask(c)
	if err := h.check(c); err != nil {
		return err
	}
	m, err := t.planModel()
	if err != nil {
		return err
	}
	q, err := h.question(c, t, s, m)
	if err != nil {
		return err
	}
	path, profile, err := h.learnt()
	if err != nil {
		return err
	}
	q.Factors = profile.Factors()
	answer, err := a.plans(c, h, t, q)
	if err != nil {
		return err
	}
	answer.Asked = [2]string{t.model, h.hardware}
	w := a.text()
	fmt.Fprint(w, answer.Text())
	if m.Weights != "" {
		fmt.Fprintf(w, "weights: %s\n", m.Weights)
	}
	if len(q.Factors) > 0 {
		fmt.Fprintf(w, "corrected by what logs taught: %s\n", path)
	}
	d := &hardwareDocument{Answer: answer, Written: []string{}}
	if len(answer.Plans) > 0 {
		d.Framework = answer.Plans[0].Config.System
	}
	if h.html != "" {
		if err := replaceFile(h.html, []byte(answer.HTML())); err != nil {
			return advise(fmt.Errorf("--html: %w", err), "name a file that can be written")
		}
		d.Written = append(d.Written, h.html)
	}
	if h.writeConfig != "" && answer.Fits {
		files, err := writeConfig(h.writeConfig, h.job(m, &answer.Question, &answer.Plans[0]))
		if err != nil {
			return err
		}
		d.Written = append(d.Written, files...)
	}
	for _, f := range d.Written {
		fmt.Fprintf(w, "wrote %s\n", f)
	}
	event := map[string]any{"model": m.Name, "hardware": answer.Hardware, "fits": answer.Fits, "framework": d.Framework, "written": d.Written}
	if len(answer.Plans) > 0 {
		p := &answer.Plans[0]
		event["peak_bytes"], event["ranks"], event["tokens_per_second"] = p.Peak, p.Ranks, p.TokensPerSecond
	}
	if err := a.log.write("plan", event); err != nil {
		return err
	}
	if !answer.Fits {
		return a.refusal(tooSmall(answer), d)
	}
	if a.json {
		return a.document(d)
	}
	return nil
}

// tooSmall is the error of an answer that does not fit: what is short, and what would do.
func tooSmall(answer *search.Answer) error {
	short, next, ok := strings.Cut(answer.Next, "; ")
	if !ok {
		next = "free what the flags hold, or name more or larger cards: loadline plan --list hardware"
	}
	e := &tooSmallError{text: fmt.Sprintf("plan: does not fit: %s on %d × %s: %s", answer.Question.Shape.Name,
		answer.Question.Machine.Cards(), answer.Question.Machine.Card.Name, short), next: next}
	e.Limit, e.Bound = answer.Limit, mem.Device.String()
	if len(answer.Plans) > 0 {
		e.Want = answer.Plans[0].Peak
	}
	return e
}

// job is what configurations are written for.
func (h *hardwareFlags) job(m *planModel, q *search.Question, p *search.Plan) writers.Job {
	j := writers.Job{Model: m.Name, File: m.File, Question: *q, Plan: *p}
	switch {
	case h.from != "":
		j.Hardware, j.HardwareFile = h.hardware, h.from
	case q.Machine.Card.Vendor == search.HostVendor:
		j.Hardware = h.hardware
	}
	return j
}

// writeConfig writes a plan's configurations and returns their paths. A file that is there and says something else stays.
func writeConfig(dir string, j writers.Job) ([]string, error) {
	files, err := writers.Write(j)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, advise(fmt.Errorf("--write-config: %w", err), "name a directory that can be written")
	}
	var paths []string
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if st, err := os.Lstat(path); err == nil && !st.Mode().IsRegular() { // of a link too: nobody asked for what it names
			return nil, usage("name another directory, or remove it", "--write-config %s: %s is there and is no regular file", dir, path)
		}
		if old, err := regular.ReadAll(path, int64(len(f.Body))); !errors.Is(err, fs.ErrNotExist) && (err != nil || string(old) != f.Body) {
			return nil, usage("name another directory, or remove the file", "--write-config %s: %s is there and says something else", dir, path)
		}
		paths = append(paths, path)
	}
	for i, f := range files {
		if err := replaceFile(paths[i], []byte(f.Body)); err != nil {
			return nil, advise(fmt.Errorf("--write-config: %w", err), "name a directory that can be written")
		}
	}
	return paths, nil
}

// learnt returns the user's profile and where it is. Without a place for it the profile is empty.
func (h *hardwareFlags) learnt() (string, *logcheck.Profile, error) {
	path := h.profile
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", &logcheck.Profile{Figures: map[string]logcheck.Learnt{}}, nil
		}
		path = filepath.Join(dir, "loadline", "planner.json")
	}
	if err := checkRegular(path); err != nil {
		return path, nil, fmt.Errorf("--profile: %w", err)
	}
	p, err := logcheck.Load(path)
	return path, p, advise(err, "mend or remove the file, or name another with --profile")
}
