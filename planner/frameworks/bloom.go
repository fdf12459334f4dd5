package frameworks

import (
	"loadline/mem"
)

// megatronDeepSpeedFixed is CUDA's and NCCL's contexts, ZeRO's buckets and the allocator's slack of a node that runs
// tensor, pipeline and data parallel groups at once.
const megatronDeepSpeedFixed = 6e9

// MegatronDeepSpeed predicts BigScience's Megatron-DeepSpeed, as the driver counts. Sources: deepspeed/runtime/zero/
// stage_1_and_2.py and bf16_optimizer.py (states), runtime/pipe/schedule.py (PP micro-batches alive on the first
// stage), arXiv 2205.05198 (what a layer keeps: all is checkpointed, so each layer's input, and one layer whole).
func MegatronDeepSpeed(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s, t := j.Shape, j.tokens()
	h, tp, pp := float64(s.Hidden), one(j.TP), one(j.PP)
	dp := max(1, j.data())
	layers := float64(s.Depth()) / pp
	p := (s.LinearParams()/pp + embedElems(s)) / tp

	var a tally
	switch {
	case j.Shard == Replicated: // fp16_optimizer.py: weights 2, gradients 2 and 4, master 4, moments 8, and flat copies
		a.add(mem.Weights, 2*p)
		a.add(mem.Grads, 8*p)
		a.add(mem.MasterWeights, 4*p)
		a.add(mem.OptimState, 8*p)
	case j.Compute == "bf16-fp32grads": // gradients accumulate in fp32, and a 16-bit copy is reduced
		a.add(mem.Weights, 2*p)
		a.add(mem.Grads, 6*p)
		a.add(mem.MasterWeights, 4*p/dp)
		a.add(mem.OptimState, 8*p/dp)
	default:
		a.add(mem.Weights, 2*p)
		a.add(mem.Grads, 2*p+4*p/dp)
		a.add(mem.MasterWeights, 4*p/dp)
		a.add(mem.OptimState, 8*p/dp)
	}
	inputs := 2 * h * t * (layers + 2) // and two buffers of the pipeline
	scores := 5 * float64(s.Heads) * float64(j.Seq) * t / tp
	one := t*h*(10+24/tp) + scores
	first := inputs*pp + one
	last := 2*h*t*layers + t*h*(10+24/tp) + 14*t*float64(s.Vocab)/tp
	if first >= last {
		a.add(mem.Activations, inputs*pp)
		a.add(mem.Workspace, one)
	} else {
		a.add(mem.Activations, last-14*t*float64(s.Vocab)/tp)
		a.add(mem.Workspace, 14*t*float64(s.Vocab)/tp)
	}
	e := a.estimate()
	e.Driver = round(megatronDeepSpeedFixed)
	return e, nil
}
