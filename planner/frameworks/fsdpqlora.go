package frameworks

import (
	"loadline/mem"
)

// FSDPQLoRA predicts Answer.AI's fsdp_qlora, which reports reserved memory: gradient checkpointing, adapters of rank
// 64 on every projection. The loss of transformers of its time keeps 16-bit logits 2, an fp32 copy and its shifted
// one 8, log-softmax 4 and a gradient 4 bytes.
func FSDPQLoRA(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s, t := j.Shape, j.tokens()
	h, v, n := float64(s.Hidden), float64(s.Vocab), 1.0
	if j.Shard == ShardWeights {
		n = one(j.Ranks)
	}
	var a tally
	weights := j.Weights.bytes(s)
	adapter := j.Adapter.Trainable
	if adapter == 0 {
		adapter = loraParams(s, float64(max(j.Adapter.Rank, 64)), "all")
	}
	if j.OffloadParams {
		a.host[mem.Weights] += weights / n
		a.host[mem.OptimState] += 12 * adapter / n
	} else {
		a.add(mem.Weights, weights/n)
		a.add(mem.OptimState, 12*adapter/n)
	}
	a.add(mem.Grads, 4*adapter/n)
	if n > 1 && j.Weights.Whole() { // gathered layers are in 16 bits
		a.add(mem.CommBuffers, 3*2*largestLayer(s))
	}
	a.add(mem.Activations, 2*h*float64(s.Depth())*t)
	a.add(mem.Workspace, 18*t*v)
	e := a.estimate()
	e.Cached = round(1.6 * gib)
	e.Driver = round(0.6 * gib)
	return e, nil
}
