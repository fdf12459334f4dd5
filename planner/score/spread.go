package score

import (
	"math"

	"loadline/mem"
)

// Spread is how predictions of a family err: the logarithm of measured over predicted is taken as normal with mean 0
// and deviation Sigma.
type Spread struct{ Sigma float64 }

// z90 is the 90th percentile of a standard normal variable.
const z90 = 1.2815515655446004

// Range returns the 10th and the 90th percentile of what a prediction will turn out to be.
func (s Spread) Range(predicted mem.Bytes) (low, high mem.Bytes) {
	f := math.Exp(z90 * s.Sigma)
	return mem.Bytes(float64(predicted) / f), mem.Bytes(float64(predicted) * f)
}

// Over returns the chance that a job predicted to need so much needs more than usable.
func (s Spread) Over(predicted, usable mem.Bytes) float64 {
	if predicted <= 0 {
		return 0
	}
	if usable <= 0 {
		return 1
	}
	return 0.5 * math.Erfc(math.Log(float64(usable)/float64(predicted))/(s.Sigma*math.Sqrt2))
}

// spreads are the families' deviations.
var spreads = map[string]float64{
	"megatron-dense": 0.03, "megatron-moe": 0.07, "bloom": 0.05, "peft": 0.03, "qwen-finetune": 0.06, "torchtitan": 0.05, "torchtitan-4d": 0.15,
	"torchtune": 0.08, "colossalai": 0.06, "litgpt": 0.12, "fsdp-qlora": 0.10, "deepspeed": 0.12, "torchao": 0.12, "hf-inference": 0.04,
	"llamacpp-kv": 0.001, "llamacpp-weights": 0.01, "llamacpp-compute": 0.08,
}

func spreadOf(family string) Spread {
	if s, ok := spreads[family]; ok {
		return Spread{s}
	}
	return Spread{0.1}
}
