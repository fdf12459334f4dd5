package frameworks

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
	switch {
	case usable < 0: // what the driver takes is too much already
		return 1
	case predicted <= 0:
		return 0
	case usable == 0:
		return 1
	}
	return 0.5 * math.Erfc(math.Log(float64(usable)/float64(predicted))/(s.Sigma*math.Sqrt2))
}

// spreads are the families' deviations, as the test over measurements prints them; wider where rows are few or absent.
var spreads = map[string]float64{
	"megatron-dense": 0.026, "megatron-moe": 0.06, "bloom": 0.042, "peft": 0.0075, "qwen-finetune": 0.045, "torchtitan": 0.018, "torchtitan-4d": 0.08,
	"torchtune": 0.028, "colossalai": 0.012, "litgpt": 0.055, "fsdp-qlora": 0.055, "deepspeed": 0.15, "torchao": 0.15, "hf-inference": 0.013,
	"llamacpp-kv": 0.001, "llamacpp-weights": 0.01, "llamacpp-compute": 0.03,
}

// SpreadOf returns a family's spread, a wide one for a family without measurements.
func SpreadOf(family string) Spread {
	if s, ok := spreads[family]; ok {
		return Spread{s}
	}
	return Spread{0.1}
}
