// Package planner answers what a job will need before it is started: how much memory at its peak, in what range, and
// with what chance it runs out on a given card.
//
// The formulas are package frameworks', the cards package hardware's, the models package shape's; package score holds
// all of them against measurements. Everything here is a pure function: no file is read and nothing is measured.
package planner

import (
	"fmt"

	"loadline/mem"
	"loadline/planner/frameworks"
	"loadline/planner/hardware"
)

// Prediction is what one rank of a job will need.
type Prediction struct {
	frameworks.Estimate
	// Need is what the card must have for it beside the driver's context.
	Need mem.Bytes
	// Low and High are the 10th and 90th percentile of what Need will turn out to be.
	Low, High mem.Bytes
	// OOMChance is the chance that Need is more than the card has.
	OOMChance float64
}

// Fits tells whether the job is expected to fit.
func (p Prediction) Fits(card hardware.Card) bool { return p.Need <= card.Usable() }

// systems are the formulas by name, with the family of measurements that says how far they are off.
var systems = []struct {
	name, family string
	plan         func(frameworks.Job) (frameworks.Estimate, error)
}{
	{"megatron", "megatron-dense", frameworks.Megatron},
	{"megatron-deepspeed", "bloom", frameworks.MegatronDeepSpeed},
	{"deepspeed", "deepspeed", frameworks.DeepSpeed},
	{"peft", "peft", frameworks.HFTrainer},
	{"hf", "qwen-finetune", frameworks.HFFinetune},
	{"torchtitan", "torchtitan", frameworks.TorchTitan},
	{"torchtune", "torchtune", frameworks.TorchTune},
	{"colossalai", "colossalai", frameworks.ColossalAI},
	{"litgpt", "litgpt", frameworks.LitGPT},
	{"fsdp-qlora", "fsdp-qlora", frameworks.FSDPQLoRA},
	{"transformers", "hf-inference", frameworks.HFInference},
	{"loadline", "", frameworks.Loadline}, // rough: see there
}

// Systems returns the names that Predict knows.
func Systems() []string {
	var names []string
	for _, s := range systems {
		names = append(names, s.name)
	}
	return names
}

// Predict plans a job of a system on a card.
func Predict(system string, j frameworks.Job, card hardware.Card) (Prediction, error) {
	for _, s := range systems {
		if s.name != system {
			continue
		}
		e, err := s.plan(j)
		if err != nil {
			return Prediction{}, err
		}
		family := s.family
		switch {
		case system == "megatron" && j.Shape.MoE():
			family = "megatron-moe"
		case system == "torchtitan" && j.PP > 1:
			family = "torchtitan-4d"
		}
		spread := frameworks.SpreadOf(family)
		p := Prediction{Estimate: e, Need: e.Reserved() + max(0, e.Driver-hardware.Context)}
		p.Low, p.High = spread.Range(p.Need)
		p.OOMChance = spread.Over(p.Need, card.Usable())
		return p, nil
	}
	return Prediction{}, fmt.Errorf("planner: no formulas for system %q, want one of %v", system, Systems())
}
