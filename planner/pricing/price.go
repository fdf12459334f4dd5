package pricing

import (
	"fmt"
	"math"
	"strings"

	"loadline/mem"
	"loadline/planner/shape"
)

// MaxCount bounds the numbers of a Job.
const MaxCount = 1 << 20

// Job is what a file is for.
type Job struct {
	Shape      *shape.Shape
	Ranks      int // data-parallel; 0 for one
	Seq        int // 0 for 4096
	MicroBatch int // where the file says auto or nothing; 0 for one
	// Trainable is how many parameters are trained; 0 for all.
	Trainable float64
}

// Price is what one key costs a rank. Negative bytes are saved.
type Price struct {
	Key    string    `json:"key"`
	Value  string    `json:"value"`
	Device mem.Bytes `json:"device_bytes"`
	Host   mem.Bytes `json:"host_bytes"`
	Disk   mem.Bytes `json:"disk_bytes"`
	Why    string    `json:"why"`
}

// Unknown is a key that DeepSpeed does not know.
type Unknown struct {
	Key     string `json:"key"`
	Nearest string `json:"nearest"`
	// Refused tells that DeepSpeed stops at it; others it passes over in silence.
	Refused bool `json:"refused"`
}

// Report is a priced file. The totals are of one rank, without the driver's context.
type Report struct {
	Prices         []Price   `json:"prices"`
	Unknown        []Unknown `json:"unknown"`
	Contradictions []string  `json:"contradictions"`
	Deprecated     []string  `json:"deprecated"`
	Device         mem.Bytes `json:"device_bytes"`
	Host           mem.Bytes `json:"host_bytes"`
	Disk           mem.Bytes `json:"disk_bytes"`
	// Saving is host memory that rank 0 needs beside that, while it saves.
	Saving mem.Bytes `json:"saving_bytes"`
	// Groups split the card's total.
	Groups []Group `json:"groups"`
	// Settings are what a plan of the same job holds.
	Settings Settings `json:"-"`
}

// file is a configuration with its job.
type file struct {
	job     Job
	entries []entry
	by      map[string]any
	rep     *Report

	p, trained, n float64
	stage         int
	half          bool // 16-bit weights
}

// DeepSpeed prices a file.
func DeepSpeed(body []byte, j Job) (*Report, error) {
	if j.Shape == nil {
		return nil, fmt.Errorf("pricing: a file without a model: name one")
	}
	if j.Ranks < 0 || j.Seq < 0 || j.MicroBatch < 0 || j.Trainable < 0 || max(j.Ranks, j.Seq, j.MicroBatch) > MaxCount {
		return nil, fmt.Errorf("pricing: %d ranks, %d tokens, micro-batch %d: want positive numbers of at most %d", j.Ranks, j.Seq, j.MicroBatch, MaxCount)
	}
	entries, err := read(body)
	if err != nil {
		return nil, err
	}
	f := &file{job: j, entries: entries, by: map[string]any{}, rep: &Report{Prices: []Price{}, Unknown: []Unknown{}, Contradictions: []string{}, Deprecated: []string{}}}
	for i := range entries {
		e := &entries[i]
		name := canonical(e.path)
		if _, twice := f.by[name]; twice {
			f.contradict("%s is said twice, once without its prefix", name)
		}
		f.by[name] = e.value
	}
	f.setup()
	f.check()
	for _, e := range entries {
		f.price(e)
	}
	f.rep.Groups = []Group{{Name: States}, {Name: Buckets}, {Name: Work}}
	for _, p := range f.rep.Prices {
		if p.Device != 0 {
			g := &f.rep.Groups[groupOf(canonical(p.Key))]
			g.Device, g.Keys = g.Device+p.Device, g.Keys+1
		}
		f.rep.Device, f.rep.Host, f.rep.Disk = f.rep.Device+p.Device, f.rep.Host+p.Host, f.rep.Disk+p.Disk
	}
	f.rep.Settings = f.settings()
	return f.rep, nil
}

func (f *file) contradict(format string, args ...any) {
	f.rep.Contradictions = append(f.rep.Contradictions, fmt.Sprintf(format, args...))
}

// num returns a number of the file, or def where it is absent or null, or "auto" that transformers fills with no number.
func (f *file) num(key string, def float64) float64 {
	if x, ok := f.by[key].(float64); ok && x >= 0 && x < 1e18 {
		return x
	}
	if f.by[key] == "auto" {
		if x, _, ok := f.auto(key); ok {
			return x
		}
	}
	return def
}

func (f *file) on(key string, def bool) bool {
	if b, ok := f.by[key].(bool); ok {
		return b
	}
	return def
}

// device returns none, cpu or nvme.
func (f *file) device(section, old string) string {
	if d, ok := f.by["zero_optimization."+section+".device"].(string); ok {
		return strings.ToLower(d)
	}
	if f.on("zero_optimization."+old, false) {
		return "cpu"
	}
	return "none"
}

func (f *file) setup() {
	f.p, f.n = float64(f.job.Shape.Params()), float64(max(1, f.job.Ranks))
	f.trained = f.job.Trainable
	if f.trained == 0 || f.trained > f.p {
		f.trained = f.p
	}
	f.stage = int(min(3, f.num("zero_optimization.stage", 0)))
	f.half = f.on("fp16.enabled", false) || f.on("bf16.enabled", false) || f.by["bf16.enabled"] == "auto" || f.by["fp16.enabled"] == "auto"
}

// share divides by the ranks from a stage on.
func (f *file) share(x float64, stage int) float64 {
	if f.stage >= stage {
		return x / f.n
	}
	return x
}

// states returns the weights, gradients and optimizer states of a rank before offload.
func (f *file) states() (weights, grads, optim float64) {
	if f.half {
		return f.share(2*f.p, 3), f.share(2*f.trained, 2), f.share(12*f.trained, 1)
	}
	return f.share(4*f.p, 3), f.share(4*f.trained, 2), f.share(8*f.trained, 1)
}

// micro returns the sequences of a micro-batch.
func (f *file) micro() float64 {
	return f.num("train_micro_batch_size_per_gpu", float64(max(1, f.job.MicroBatch)))
}

func (f *file) tokens() float64 {
	seq := f.job.Seq
	if seq == 0 {
		seq = 4096
	}
	return f.micro() * float64(seq) / max(1, f.num("sequence_parallel_size", 1))
}

func bytesOf(x float64) mem.Bytes { return mem.Bytes(math.Round(max(-1e18, min(1e18, x)))) }

// price adds the line of one key.
func (f *file) price(e entry) {
	name := canonical(e.path)
	line := Price{Key: e.path, Value: valueText(e.value)}
	if new, old := deprecated[name]; old {
		f.rep.Deprecated = append(f.rep.Deprecated, fmt.Sprintf("%s is now %s", e.path, new))
	}
	why, dull := free[name]
	_, whole := section(name)
	switch {
	case whole:
		line.Why, _ = section(name)
	case dull:
		line.Why = why
	case holds(name):
		line.Why = "as if it were absent"
		if e.value != nil || name == "zero_optimization" {
			line.Why = "no object; DeepSpeed refuses the file"
		}
	case known(name):
		f.cost(name, &line)
		if x, how, ok := f.auto(name); ok && e.value == "auto" {
			line.Why = fmt.Sprintf("auto, which transformers fills with %s = %s; %s", how, decimal(x), line.Why)
		}
	default:
		in := strings.HasPrefix(name, "zero_optimization.")
		f.rep.Unknown = append(f.rep.Unknown, Unknown{e.path, nearest(name), in})
		line.Why = "not known; DeepSpeed passes over it"
		if in {
			line.Why = "not known; DeepSpeed refuses the file"
		}
	}
	f.rep.Prices = append(f.rep.Prices, line)
}
