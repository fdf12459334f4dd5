package score

import (
	"fmt"
	"math"
	"strings"

	"loadline/planner/frameworks"
	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// Speed is one predicted and measured time.
type Speed struct {
	Row                 *Row
	System              string // of rows whose ranking means something together
	Predicted, Measured float64
	Unit                string // seconds a step, or tokens a second
}

// Error returns predicted / measured − 1.
func (s Speed) Error() float64 { return s.Predicted/s.Measured - 1 }

// Slower returns the prediction and the measurement as times, so that larger is slower.
func (s Speed) Slower() (predicted, measured float64) {
	if s.Unit == "s" {
		return s.Predicted, s.Measured
	}
	return 1 / s.Predicted, 1 / s.Measured
}

// Speeds predicts the step time or throughput of every row of tiers A and T that has one, a known model and a known
// card. Skipped tells why others have none.
func Speeds(rows []*Row, cards *shape.Cards, table *hardware.Table) (speeds []Speed, skipped []Skip) {
	for _, r := range rows {
		if r.Tier != "" && r.Tier != "A" && r.Tier != "T" || r.StepSeconds == "" && r.Throughput == "" {
			continue
		}
		s, err := speedOf(r, cards, table)
		if err != nil {
			skipped = append(skipped, Skip{r.ID, err.Error()})
			continue
		}
		speeds = append(speeds, s)
	}
	return speeds, skipped
}

func speedOf(r *Row, cards *shape.Cards, table *hardware.Table) (Speed, error) {
	gpu := r.GPU
	if _, after, ok := strings.Cut(gpu, "x"); ok && gpu[0] >= '0' && gpu[0] <= '9' { // 2xRTX4090(PCIe4x16)
		gpu = after
	}
	gpu, _, _ = strings.Cut(gpu, "(")
	gpu, _, _ = strings.Cut(gpu, "+")
	card, err := table.Find(cardName(gpu))
	if err != nil {
		return Speed{}, err
	}
	if strings.HasPrefix(r.System, "SGLang") || strings.HasPrefix(r.System, "HF transformers") || strings.HasPrefix(r.System, "vLLM") {
		return servingSpeed(r, cards, card)
	}
	return trainingSpeed(r, cards, card)
}

// cardName drops what measurements add to a card's name, as a power limit.
func cardName(gpu string) string {
	if strings.HasPrefix(gpu, "H100-96GB") {
		return "H100-SXM-96GB"
	}
	return gpu
}

func servingSpeed(r *Row, cards *shape.Cards, card hardware.Card) (Speed, error) {
	measured, ok := firstNum(r.Throughput)
	if !ok || measured <= 0 {
		return Speed{}, fmt.Errorf("no throughput")
	}
	j, err := basicJob(r, cards)
	if err != nil {
		return Speed{}, err
	}
	if j.Seq == 0 {
		return Speed{}, fmt.Errorf("seq is not recorded")
	}
	out := count(r.Extras["output"])
	if out == 0 {
		out = j.Seq
	}
	j.TP = r.par("TP")
	name := "sglang"
	if strings.HasPrefix(r.System, "HF") {
		name, j.Ranks = "transformers", 1 // layers follow each other over the devices
	}
	t := frameworks.Generate(j, card, frameworks.ServingOf(name, j.Shape, j.Weights), out)
	predicted := t.PerSecond()
	if !strings.Contains(r.Throughput, "in+out") {
		predicted = float64(out) * float64(max(1, j.MicroBatch)) / t.Seconds
	}
	return Speed{Row: r, System: r.System, Predicted: predicted, Measured: measured, Unit: "tok/s"}, nil
}

func trainingSpeed(r *Row, cards *shape.Cards, card hardware.Card) (Speed, error) {
	fam, reason := familyOf(r)
	foundry := strings.HasPrefix(r.System, "llm-foundry")
	var j frameworks.Job
	var err error
	profile := ""
	switch {
	case foundry:
		profile = "foundry"
		j, err = foundryJob(r, cards)
	case fam == "":
		return Speed{}, fmt.Errorf("%s", reason)
	default:
		profile = map[string]string{
			"megatron-dense": "megatron-deterministic", "megatron-moe": "megatron-deterministic", "bloom": "bloom", "peft": "peft", "qwen-finetune": "qwen", "torchtitan": "torchtitan",
			"torchtitan-4d": "torchtitan", "torchtune": "torchtune", "litgpt": "litgpt", "fsdp-qlora": "qlora",
		}[fam]
		if profile == "" {
			return Speed{}, fmt.Errorf("family %s has no speeds", fam)
		}
		if fam == "litgpt" && r.notes("inference") {
			return litServing(r, cards, card)
		}
		j, _, err = job(r, fam, cards)
	}
	if err != nil {
		return Speed{}, err
	}
	perGPU := strings.Contains(r.Throughput, "/gpu")
	switch fam {
	case "peft":
		j.Seq /= 2 // batches are about half as long as the longest
	case "torchtitan":
		j.AsyncTP = r.notes("AsyncTP")
	case "torchtitan-4d": // as many micro-batches as stages
		j.AsyncTP = r.notes("AsyncTP")
		split := min(max(1, j.MicroBatch), max(1, j.PP))
		j.MicroBatch, j.Accumulate, j.GlobalBatch = j.MicroBatch/split, split, 0
	case "litgpt":
		j.Seq /= 4
		j.GlobalBatch = 0
	case "fsdp-qlora":
		j.GlobalBatch = 0
	}
	t := frameworks.TrainStep(j, card, frameworks.ProfileOf(profile))
	if fam == "peft" {
		t.Seconds *= frameworks.AdapterTime(j.Adapter)
	}
	if m, ok := num(r.StepSeconds); ok && m > 0 {
		return Speed{Row: r, System: r.System, Predicted: t.Seconds, Measured: m, Unit: "s"}, nil
	}
	m, ok := firstNum(r.Throughput)
	if !ok || m <= 0 || !strings.Contains(r.Throughput, "tok/s") {
		return Speed{}, fmt.Errorf("throughput %q is not in tokens a second", r.Throughput)
	}
	got := t.PerSecond()
	if perGPU {
		got /= math.Max(1, float64(j.Ranks))
	}
	return Speed{Row: r, System: r.System, Predicted: got, Measured: m, Unit: "tok/s"}, nil
}

func litServing(r *Row, cards *shape.Cards, card hardware.Card) (Speed, error) {
	m, ok := firstNum(r.Throughput)
	if !ok || m <= 0 {
		return Speed{}, fmt.Errorf("no throughput")
	}
	j, err := litJob(r, cards)
	if err != nil {
		return Speed{}, err
	}
	t := frameworks.Generate(j, card, frameworks.ServingOf("litgpt", j.Shape, j.Weights), j.Seq-44)
	return Speed{Row: r, System: r.System, Predicted: float64(j.Seq-44) / t.Seconds, Measured: m, Unit: "tok/s"}, nil
}

// foundryJob reads a row of MosaicML's tables: an MPT model by its parameters, sharded by FSDP.
func foundryJob(r *Row, cards *shape.Cards) (frameworks.Job, error) {
	size, ok := num(r.Arch["params"])
	if !ok || size < 1e6 || size > 1e14 {
		return frameworks.Job{}, fmt.Errorf("params are not recorded")
	}
	s, err := mptOf(r.Model)
	if err != nil {
		return frameworks.Job{}, err
	}
	j := frameworks.Job{
		Shape: s, Ranks: max(1, count(r.Ranks)), MicroBatch: count(r.MicroBatch), GlobalBatch: count(r.GlobalBatch), Seq: count(r.Seq),
		Shard: frameworks.ShardWeights, FP8: has(r.DType, "fp8"),
	}
	if j.Seq == 0 {
		return j, fmt.Errorf("seq is not recorded")
	}
	if strings.EqualFold(r.Extras["act_ckpt"], "true") {
		j.Recompute = frameworks.Full
	}
	return j, nil
}

// mptOf returns an MPT model of llm-foundry's benchmark configurations.
func mptOf(name string) (*shape.Shape, error) {
	for _, m := range []struct {
		name           string
		h, heads, deep int
	}{
		{"125m", 768, 12, 12}, {"350m", 1024, 16, 24}, {"760m", 1536, 12, 24}, {"1b", 2048, 16, 24}, {"3b", 2560, 20, 32}, {"7b", 4096, 32, 32},
		{"13b", 5120, 40, 40}, {"30b", 7168, 56, 48}, {"70b", 8192, 64, 80},
	} {
		if !strings.HasSuffix(strings.ToLower(name), "-"+m.name) {
			continue
		}
		s := &shape.Shape{Name: name, Arch: "mpt", Hidden: m.h, Heads: m.heads, HeadDim: m.h / m.heads, Vocab: 50368, Tied: true, Norms: 2}
		for range m.deep {
			s.Layers = append(s.Layers, shape.Layer{KVHeads: m.heads, HeadDim: s.HeadDim, FFN: 4 * m.h})
		}
		return s, s.Validate()
	}
	return nil, fmt.Errorf("model %q is not known", name)
}
