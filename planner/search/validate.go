package search

import (
	"fmt"
	"slices"
	"strings"

	"loadline/mem"
)

// Invalid is a question that makes no sense, with the nearest value that does.
type Invalid struct {
	What    string // the flag or field
	Got     string
	Why     string
	Nearest string
}

// Error is one line.
func (e *Invalid) Error() string {
	s := fmt.Sprintf("plan: %s: got %s", e.What, e.Got)
	if e.Why != "" {
		s += ": " + e.Why
	}
	if e.Nearest != "" {
		s += "; the nearest valid value is " + e.Nearest
	}
	return s
}

// maxParams bounds what is planned.
const maxParams = 1e14

// trainers and servers are the systems of a task, with those that adapt.
var (
	trainers = []string{"deepspeed", "torchtitan", "megatron", "torchtune"}
	tuners   = []string{"peft", "deepspeed", "torchtune", "fsdp-qlora", "torchtitan", "megatron"}
	servers  = []string{"vllm", "sglang", "llamacpp", "transformers"}
)

// Frameworks returns the systems that do a task.
func Frameworks(task string) []string {
	switch task {
	case Train:
		return slices.Clone(trainers)
	case Finetune:
		return slices.Clone(tuners)
	}
	return slices.Clone(servers)
}

// Optimizers returns the names of the optimizers that are planned for.
func Optimizers() []string { return []string{"adamw", "adamw8bit", "torchao8bit", "torchao4bit"} }

// frameworks are the values of Framework, our own where it runs.
func (q *Question) frameworks() []string {
	all := append([]string{"any"}, Frameworks(q.Task)...)
	if q.Own {
		all = append(all, Own)
	}
	return all
}

// precisions are the values of Hold.Precision. FP32 is for our own runs alone.
func (q *Question) precisions() []string {
	all := []string{"", "bf16", "fp16", "fp8"}
	if q.Own {
		all = append(all, "fp32")
	}
	return all
}

// tasksOf returns what a framework does.
func tasksOf(framework string) []string {
	var tasks []string
	for _, t := range []string{Train, Finetune, Serve} {
		if slices.Contains(Frameworks(t), framework) {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// HostVendor is the vendor of a machine without cards, whose processor computes.
const HostVendor = "CPU"

// runs are the systems that run on a maker's cards, where not all do.
var runs = map[string][]string{
	"Apple":    {"llamacpp", "transformers", "peft"},
	"Intel":    {"vllm", "llamacpp", "transformers", "deepspeed", "peft"},
	"Google":   {"vllm", "transformers"},
	"AWS":      {"vllm", "transformers"},
	"Huawei":   {"vllm", "llamacpp", "transformers", "deepspeed", "peft"},
	HostVendor: {"llamacpp", "transformers", "peft"},
}

// systems returns the systems of the question's task that run on its cards.
func (q *Question) systems() []string {
	all := Frameworks(q.Task)
	if some, ok := runs[q.Machine.Card.Vendor]; ok {
		all = slices.DeleteFunc(all, func(s string) bool { return !slices.Contains(some, s) })
	}
	return all
}

// normalize fills in defaults and refuses nonsense.
func (q *Question) normalize() error {
	if q.Shape == nil {
		return &Invalid{What: "model", Got: "none", Nearest: "a config.json, a GGUF file or a built-in name"}
	}
	if err := q.Shape.Validate(); err != nil {
		return &Invalid{What: "model", Got: q.Shape.Name, Why: err.Error()}
	}
	if p := float64(q.Shape.Params()); p > maxParams {
		return &Invalid{What: "model", Got: Number(p, 3) + " parameters", Why: "no machine holds it", Nearest: fmt.Sprintf("a model of %s parameters", count(maxParams))}
	}
	if q.Machine.Card.Memory <= 0 || q.Machine.Card.Usable() <= 0 {
		return &Invalid{What: "hardware", Got: fmt.Sprintf("a card of %d bytes", int64(q.Machine.Card.Memory)), Nearest: "a card of the list"}
	}
	for _, m := range []struct {
		name string
		n    mem.Bytes
	}{{"memory", q.Memory}, {"host-memory", q.Machine.Host}, {"nvme", q.Machine.NVMe}} {
		if m.n < 0 {
			return &Invalid{What: m.name, Got: fmt.Sprintf("%d bytes", int64(m.n)), Why: "memory is not negative", Nearest: fmt.Sprint(-m.n)}
		}
	}
	if q.Task == "" {
		q.Task = Serve
	}
	if q.Objective == "" {
		q.Objective = Speed
	}
	if q.Framework == "" {
		q.Framework = "any"
	}
	h := &q.Hold
	for _, w := range []struct {
		flag   string
		value  *string
		values []string
	}{
		{"task", &q.Task, []string{Train, Finetune, Serve}}, {"objective", &q.Objective, []string{Speed, Cost, Fewest}},
		{"framework", &q.Framework, q.frameworks()},
		{"precision", &h.Precision, q.precisions()}, {"recompute", &h.Recompute, []string{"", "none", "selective", "full"}},
		{"offload", &h.Offload, []string{"", "none", "optimizer", "weights", "optimizer,weights"}}, {"adapter", &h.Adapter, []string{"", "none", "lora", "qlora"}},
		{"optimizer", &h.Optimizer, append([]string{""}, Optimizers()...)}, {"loss-head", &h.LossHead, []string{"", "full", "chunked"}},
		{"quant", &h.Quant, append([]string{""}, Quants()...)}, {"kv-type", &h.KVType, []string{"", "f16", "fp8", "q8_0", "q4_0"}},
	} {
		*w.value = strings.ToLower(strings.TrimSpace(*w.value))
		if !slices.Contains(w.values, *w.value) {
			if other := tasksOf(*w.value); w.flag == "framework" && len(other) > 0 {
				return &Invalid{What: "task", Got: q.Task, Why: fmt.Sprintf("%s does not %s, it does %s", *w.value, q.Task, strings.Join(other, " and ")), Nearest: other[0]}
			}
			return &Invalid{What: w.flag, Got: fmt.Sprintf("%q", *w.value), Why: "want one of " + strings.TrimPrefix(strings.Join(w.values, ", "), ", "), Nearest: nearestWord(*w.value, w.values)}
		}
	}
	if err := q.servedPrecision(); err != nil {
		return err
	}
	runs := q.systems()
	if q.Own {
		runs = append(runs, Own)
	}
	if len(runs) == 0 {
		why := fmt.Sprintf("none of %s does %s on it", strings.Join(Frameworks(q.Task), ", "), q.Task)
		if q.Machine.Card.Vendor == HostVendor {
			why += "; Loadline's own runs do, of a preset such as --preset llama-tiny, or of a directory with a model that it runs"
		}
		return &Invalid{What: "hardware", Got: q.Machine.Card.Name, Why: why, Nearest: "RTX-4090"}
	}
	if q.Framework != "any" && !slices.Contains(runs, q.Framework) {
		return &Invalid{What: "framework", Got: q.Framework, Why: "it does not run on " + q.Machine.Card.Name, Nearest: runs[0]}
	}
	switch {
	case h.Precision == "fp8" && q.Machine.Card.FP8 == 0:
		return &Invalid{What: "precision", Got: "fp8", Why: q.Machine.Card.Name + " has no 8-bit units", Nearest: "bf16"}
	case h.Precision == "bf16" && noBF16(&q.Machine.Card):
		return &Invalid{What: "precision", Got: "bf16", Why: q.Machine.Card.Name + " has none", Nearest: "fp16"}
	}
	if err := q.able(); err != nil {
		return err
	}
	if err := q.lengths(); err != nil {
		return err
	}
	return q.counts()
}

// servedPrecision makes a precision that serving holds the format of its weights.
func (q *Question) servedPrecision() error {
	h := &q.Hold
	if q.Task != Serve || h.Precision == "" || q.Framework == Own {
		return nil
	}
	format := map[string]string{"bf16": "bf16", "fp16": "bf16", "fp8": "fp8"}[h.Precision]
	switch {
	case format == "" && q.Framework == "any" && q.Own: // FP32 is for our own runs alone
		q.Framework = Own
		return nil
	case format == "":
		return &Invalid{What: "precision", Got: h.Precision, Why: "weights are served in 16 bits or fewer", Nearest: "bf16"}
	case q.Stored != nil:
		return &Invalid{What: "precision", Got: h.Precision, Why: "the file says already how its weights are", Nearest: "none: leave it out"}
	case h.Quant != "" && h.Quant != format:
		return &Invalid{What: "precision", Got: h.Precision, Why: "weights are held in " + h.Quant + " by --quant", Nearest: "none: leave it out"}
	}
	h.Quant = format
	return nil
}

// lengths fills in the lengths, and refuses what the model does not reach.
func (q *Question) lengths() error {
	most := q.Shape.MaxTokens
	for _, n := range []struct {
		flag string
		n    *int
		used bool
	}{{"seq", &q.Seq, q.Task != Serve}, {"context", &q.Context, q.Task == Serve}} {
		switch {
		case most == 0:
		case *n.n == 0:
			*n.n = min(4096, most)
		case *n.n > most && n.used:
			return &Invalid{What: n.flag, Got: fmt.Sprint(*n.n), Why: fmt.Sprintf("%s has positions for %d tokens, and no scaling of them that its configuration names", q.Shape.Name, most), Nearest: fmt.Sprint(most)}
		}
	}
	return nil
}

// counts checks numbers.
func (q *Question) counts() error {
	for _, n := range []struct {
		flag string
		n    *int
		def  int
		high int
	}{
		{"seq", &q.Seq, 4096, 1 << 26}, {"context", &q.Context, 4096, 1 << 26}, {"concurrency", &q.Concurrency, 1, 1 << 16},
		{"global-batch", &q.GlobalBatch, 0, 1 << 24}, {"ranks", &q.Hold.Ranks, 0, q.Machine.Cards()},
		{"tp", &q.Hold.TP, 0, q.Machine.Cards()}, {"pp", &q.Hold.PP, 0, min(q.Machine.Cards(), q.Shape.Depth())}, {"cp", &q.Hold.CP, 0, q.Machine.Cards()},
		{"ep", &q.Hold.EP, 0, q.Machine.Cards()}, {"batch", &q.Hold.MicroBatch, 0, 1 << 20}, {"adapter-rank", &q.Hold.AdapterRank, 16, 1 << 14},
	} {
		if *n.n < 0 {
			return &Invalid{What: n.flag, Got: fmt.Sprint(*n.n), Nearest: "1"}
		}
		if *n.n == 0 {
			*n.n = n.def
		}
		if *n.n > n.high && n.high > 0 {
			return &Invalid{What: n.flag, Got: fmt.Sprint(*n.n), Nearest: fmt.Sprint(n.high)}
		}
	}
	if q.Output < 0 || q.Output > q.Context { // of the context that is the default, too
		return &Invalid{What: "output", Got: fmt.Sprint(q.Output), Why: fmt.Sprintf("a sequence has %d tokens", q.Context), Nearest: fmt.Sprint(min(q.Context, max(1, q.Output)))}
	}
	if q.Output == 0 {
		q.Output = max(1, q.Context/4)
	}
	s, h := q.Shape, &q.Hold
	if h.TP > 1 && s.Heads%h.TP != 0 {
		return &Invalid{What: "tp", Got: fmt.Sprint(h.TP), Why: fmt.Sprintf("%s has %d heads, which it does not divide", s.Name, s.Heads), Nearest: fmt.Sprint(nearestDivisor(s.Heads, h.TP))}
	}
	if h.EP > 1 {
		experts := 0
		for _, l := range s.Layers {
			experts = max(experts, l.Experts)
		}
		if experts == 0 {
			return &Invalid{What: "ep", Got: fmt.Sprint(h.EP), Why: s.Name + " has no experts", Nearest: "1"}
		}
		if experts%h.EP != 0 {
			return &Invalid{What: "ep", Got: fmt.Sprint(h.EP), Why: fmt.Sprintf("%s has %d experts, which it does not divide", s.Name, experts), Nearest: fmt.Sprint(nearestDivisor(experts, h.EP))}
		}
	}
	if n := max(1, h.TP) * max(1, h.PP) * max(1, h.CP); n > q.Machine.Cards() {
		return &Invalid{What: "tp × pp × cp", Got: fmt.Sprint(n), Why: fmt.Sprintf("there are %d cards", q.Machine.Cards()), Nearest: fmt.Sprint(q.Machine.Cards())}
	}
	if g, b := q.GlobalBatch, h.MicroBatch; g > 0 && b > 0 && g%b != 0 {
		near := max(b, (g+b/2)/b*b)
		return &Invalid{What: "global-batch", Got: fmt.Sprint(g), Why: fmt.Sprintf("micro-batches of %d do not divide it", b), Nearest: fmt.Sprint(near)}
	}
	if z := h.ZeRO; z != nil && (*z < 0 || *z > 3) {
		return &Invalid{What: "zero", Got: fmt.Sprint(*z), Nearest: fmt.Sprint(min(3, max(0, *z)))}
	}
	if g := h.GPULayers; g != nil && (*g < 0 || *g > s.Depth()) {
		return &Invalid{What: "gpu-layers", Got: fmt.Sprint(*g), Why: fmt.Sprintf("%s has %d layers", s.Name, s.Depth()), Nearest: fmt.Sprint(min(s.Depth(), max(0, *g)))}
	}
	return nil
}

// nearestDivisor returns the divisor of n closest to d.
func nearestDivisor(n, d int) int {
	best := 1
	for k := 1; k <= n; k++ {
		if n%k == 0 && abs(k-d) < abs(best-d) {
			best = k
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// nearestWord returns the value that shares most letters in order with word.
func nearestWord(word string, values []string) string {
	best, most := "", -1.0
	for _, v := range values {
		if v == "" {
			continue
		}
		n, i := 0, 0
		for _, c := range []byte(word) {
			if at := strings.IndexByte(v[i:], c); at >= 0 {
				n, i = n+1, i+at+1
			}
		}
		if score := 2 * float64(n) / float64(len(word)+len(v)); score > most {
			best, most = v, score
		}
	}
	return best
}
