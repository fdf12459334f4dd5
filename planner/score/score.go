package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"loadline/mem"
	"loadline/planner/frameworks"
	"loadline/planner/shape"
)

// Family is the errors of one kind of row. The fractions are of |predicted/measured − 1|; Bias is the median with
// its sign.
type Family struct {
	Name   string  `json:"name"`
	Rows   int     `json:"rows"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"` // the ⌈0.9 n⌉-th smallest
	Bias   float64 `json:"bias"`
}

// Skip is a row that was not scored.
type Skip struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Pair is one prediction and its measurement.
type Pair struct {
	Row       *Row
	Family    string
	Predicted mem.Bytes
	Measured  float64 // bytes
	// Low and High are the 10th and 90th percentile of what the prediction will turn out to be.
	Low, High mem.Bytes
	// Need is what one card must have for it, beside the driver's context; 0 where the row is not of a card.
	Need mem.Bytes
}

// Error returns predicted / measured − 1.
func (p Pair) Error() float64 { return float64(p.Predicted)/p.Measured - 1 }

// Report is a scored table.
type Report struct {
	Families []Family `json:"families"` // in the order of FamilyNames; empty ones left out
	Skipped  []Skip   `json:"skipped"`
	Pairs    []Pair   `json:"-"`
	// OutOfMemory holds the rows that ran out of memory, with what they were predicted to need and no measurement.
	OutOfMemory []Pair `json:"-"`
}

// familyNames orders the report.
var familyNames = []string{
	"megatron-dense", "megatron-moe", "bloom", "peft", "qwen-finetune", "torchtitan", "torchtitan-4d", "torchtune",
	"colossalai", "litgpt", "fsdp-qlora", "deepspeed", "torchao", "hf-inference", "llamacpp-kv", "llamacpp-weights", "llamacpp-compute",
}

// FamilyNames returns the families in the order of a Report.
func FamilyNames() []string { return slices.Clone(familyNames) }

// Score predicts every row that has a family, a tier that counts and a measured value.
func Score(rows []*Row, cards *shape.Cards) *Report {
	rep := &Report{Families: []Family{}, Skipped: []Skip{}}
	for _, r := range rows {
		rep.score(r, cards)
	}
	errs := map[string][]float64{}
	for _, p := range rep.Pairs {
		errs[p.Family] = append(errs[p.Family], p.Error())
	}
	for _, name := range familyNames {
		if e := errs[name]; len(e) > 0 {
			rep.Families = append(rep.Families, summarize(name, e))
		}
	}
	return rep
}

func summarize(name string, errs []float64) Family {
	var abs []float64
	for _, e := range errs {
		abs = append(abs, math.Abs(e))
	}
	slices.Sort(abs)
	return Family{
		Name: name, Rows: len(errs), Median: median(abs), Bias: median(errs),
		P90: abs[int(math.Ceil(0.9*float64(len(abs))))-1],
	}
}

// median is the middle value, or the mean of the two in the middle.
func median(x []float64) float64 {
	x = slices.SortedFunc(slices.Values(x), cmp.Compare[float64])
	n := len(x)
	if n == 0 {
		return math.NaN()
	}
	if n%2 == 1 {
		return x[n/2]
	}
	return (x[n/2-1] + x[n/2]) / 2
}

// score handles one row.
func (rep *Report) score(r *Row, cards *shape.Cards) {
	skip := func(format string, args ...any) {
		rep.Skipped = append(rep.Skipped, Skip{r.ID, fmt.Sprintf(format, args...)})
	}
	fam, reason := familyOf(r)
	if fam == "" {
		skip("%s", reason)
		return
	}
	if r.Tier != "" && r.Tier != "A" && !(r.Tier == "B" && strings.HasPrefix(fam, "megatron-")) {
		skip("tier %s is not scored", r.Tier)
		return
	}
	if fam == "llamacpp" {
		rep.llamacpp(r, cards, skip)
		return
	}
	ranOut := strings.EqualFold(r.Value, "OOM")
	measured := 0.0
	if !ranOut {
		var why string
		if measured, why = measuredBytes(r); why != "" {
			skip("%s", why)
			return
		}
	}
	got, need, err := predict(r, fam, cards)
	if err != nil {
		skip("%v", err)
		return
	}
	p := Pair{Row: r, Family: fam, Predicted: got, Measured: measured, Need: need}
	p.Low, p.High = frameworks.SpreadOf(fam).Range(got)
	if ranOut {
		rep.OutOfMemory = append(rep.OutOfMemory, p)
		skip("ran out of memory, so it has no measured value")
		return
	}
	rep.Pairs = append(rep.Pairs, p)
}

// measuredBytes returns a row's value in bytes, or why it has none.
func measuredBytes(r *Row) (float64, string) {
	v, ok := num(r.Value)
	if !ok || v <= 0 {
		return 0, fmt.Sprintf("value %q is not a positive number", r.Value)
	}
	if g, ok := num(r.ValueGiB); ok && g > 0 && (r.Unit == "" || isMemory(r.Unit)) {
		return g * (1 << 30), ""
	}
	switch strings.ToLower(r.Unit) {
	case "bytes", "b":
		return v, ""
	case "kib":
		return v * (1 << 10), ""
	case "mib", "mb":
		return v * (1 << 20), ""
	case "gib":
		return v * (1 << 30), ""
	case "gb":
		if strings.HasPrefix(r.System, "HF transformers") || r.System == "Qwen finetune" {
			return v * (1 << 30), ""
		}
		return v * 1e9, ""
	}
	return 0, fmt.Sprintf("unit %q is not one of memory", r.Unit)
}

func isMemory(unit string) bool {
	switch strings.ToLower(unit) {
	case "bytes", "b", "kib", "mib", "mb", "gib", "gb":
		return true
	}
	return false
}

// familyOf returns a row's family, or why it has none.
func familyOf(r *Row) (family, reason string) {
	s := r.System
	switch {
	case s == "Megatron-LM CI golden":
		switch {
		case count(r.Ranks) == 0:
			return "", "n_gpus is not recorded"
		case r.arch("num-layers", 0) == 0:
			return "", "num-layers is not recorded"
		case r.Arch["num-experts"] != "" || strings.HasPrefix(r.Model, "hybrid/"):
			return "megatron-moe", ""
		}
		return "megatron-dense", ""
	case strings.HasPrefix(s, "Megatron-DeepSpeed"):
		return "bloom", ""
	case strings.HasPrefix(s, "HF PEFT"):
		return "peft", ""
	case s == "Qwen finetune":
		return "qwen-finetune", ""
	case s == "torchtitan":
		if _, ok := r.Parallel["pp"]; ok {
			return "torchtitan-4d", ""
		}
		return "torchtitan", ""
	case s == "torchtune":
		return "torchtune", ""
	case s == "ColossalAI":
		return "colossalai", ""
	case strings.HasPrefix(s, "LitGPT"):
		return "litgpt", ""
	case strings.HasPrefix(s, "FSDP-QLoRA"):
		return "fsdp-qlora", ""
	case strings.HasPrefix(s, "HF transformers"):
		return "hf-inference", ""
	case strings.HasPrefix(s, "torchao"):
		return "torchao", ""
	case strings.HasPrefix(s, "llama.cpp"):
		return "llamacpp", ""
	case r.Kind == "infer" || has(s, "Inference"):
		return "", fmt.Sprintf("system %q is in no family", s)
	case strings.HasPrefix(s, "DeepSpeed"), has(s, "Ulysses"):
		return "deepspeed", ""
	}
	return "", fmt.Sprintf("system %q is in no family", s)
}
