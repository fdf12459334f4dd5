package score

import (
	"fmt"
	"strings"

	"loadline/mem"
	"loadline/planner/frameworks"
	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// predict returns what the row's metric should read, and what one card must have for it beside the driver's context.
func predict(r *Row, family string, cards *shape.Cards) (got, need mem.Bytes, err error) {
	j, plan, err := job(r, family, cards)
	if err != nil {
		return 0, 0, err
	}
	e, err := plan(j)
	if err != nil {
		return 0, 0, err
	}
	got = reading(r, family, e, j)
	need = got
	if has(r.Metric, "total") {
		need = got / mem.Bytes(max(1, count(r.Ranks)))
	}
	if has(r.Metric, "nvidia-smi") {
		need = max(0, got-hardware.Context)
	}
	return got, need, nil
}

// planner is one framework's formulas.
type planner func(frameworks.Job) (frameworks.Estimate, error)

// job reads a row as its family does.
func job(r *Row, family string, cards *shape.Cards) (frameworks.Job, planner, error) {
	switch family {
	case "megatron-dense", "megatron-moe":
		j, err := megatronJob(r)
		return j, frameworks.Megatron, err
	case "bloom":
		j, err := bloomJob(r)
		return j, frameworks.MegatronDeepSpeed, err
	case "peft":
		j, err := peftJob(r, cards)
		return j, frameworks.HFTrainer, err
	case "qwen-finetune":
		j, err := qwenJob(r, cards)
		return j, frameworks.HFFinetune, err
	case "torchtitan", "torchtitan-4d":
		j, err := titanJob(r, cards)
		return j, frameworks.TorchTitan, err
	case "torchtune":
		j, err := tuneJob(r, cards)
		return j, frameworks.TorchTune, err
	case "colossalai":
		j, err := colossalJob(r, cards)
		return j, frameworks.ColossalAI, err
	case "litgpt":
		j, err := litJob(r, cards)
		if r.notes("inference") || r.notes("generat") {
			return j, frameworks.LitGenerate, err
		}
		return j, frameworks.LitGPT, err
	case "fsdp-qlora":
		j, err := qloraJob(r, cards)
		return j, frameworks.FSDPQLoRA, err
	case "hf-inference":
		j, err := inferJob(r, cards)
		return j, frameworks.HFInference, err
	case "torchao":
		j, err := aoJob(r, cards)
		return j, frameworks.TorchTune, err
	case "deepspeed":
		j, err := deepspeedJob(r, cards)
		return j, frameworks.DeepSpeed, err
	}
	return frameworks.Job{}, nil, fmt.Errorf("family %s has no formulas", family)
}

// reading turns an estimate into what the row's counter shows: per GPU and allocated, unless the metric says
// reserved, nvidia-smi or total.
func reading(r *Row, family string, e frameworks.Estimate, j frameworks.Job) mem.Bytes {
	m := strings.ToLower(r.Metric)
	ranks := mem.Bytes(max(1, count(r.Ranks)))
	got := e.Allocated()
	switch {
	case has(m, "nvidia-smi") || has(m, "nvidia_smi"):
		got = e.Process()
	case has(m, "reserved"):
		got = e.Reserved()
	case family == "hf-inference" && j.Version != "" && j.Version < "4.36": // Qwen's tables read the allocator's reserve
		got = e.Reserved()
	}
	if family == "hf-inference" { // the estimate is of all devices together
		if has(m, "total") {
			return got
		}
		return got / ranks
	}
	if has(m, "total") {
		return got * ranks
	}
	return got
}

// modelOf finds the row's model among the cards, or one as large as its name says.
func modelOf(r *Row, cards *shape.Cards) (*shape.Shape, error) {
	name := r.Model
	for _, sep := range []string{" (", ";"} {
		name, _, _ = strings.Cut(name, sep)
	}
	if s, ok := cards.ByName(name); ok {
		return s, nil
	}
	// A name with more words, as "Llama-2-7B full": drop them from the end.
	for words := strings.Fields(name); len(words) > 1; {
		words = words[:len(words)-1]
		if s, ok := cards.ByName(strings.Join(words, " ")); ok {
			return s, nil
		}
	}
	if size, ok := shape.SizeIn(name); ok {
		if s := cards.OfSize(size); s != nil {
			if ratio := float64(s.Params()) / size; ratio > 0.5 && ratio < 2 {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("model %q is not known", r.Model)
}
