package frameworks

import (
	"loadline/mem"
	"loadline/planner/shape"
)

// DeepSpeed predicts training with ZeRO, under transformers. Sources: deepspeed/runtime/zero/stage_1_and_2.py and
// stage3.py, docs/code-docs/source/memory.rst (the states), runtime/zero/partition_parameters.py (what is gathered),
// sequence/layer.py (Ulysses: ranks of a sequence share its tokens, and heads inside attention).
func DeepSpeed(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s := j.Shape
	h, v, p := float64(s.Hidden), float64(s.Vocab), float64(s.Params())
	n := one(j.Ranks)
	t := j.tokens() // sequence parallel ranks are context parallel ones
	var a tally
	trained := p
	if j.Adapter.Method != "" {
		trained = j.Adapter.Trainable
		if trained == 0 {
			trained = loraParams(s, float64(max(j.Adapter.Rank, 8)), j.Adapter.Targets)
		}
	}
	share := func(at Sharding) float64 {
		if j.Shard >= at {
			return n
		}
		return 1
	}
	weights := j.Weights.bytes(s) / share(ShardWeights)
	if j.OffloadParams {
		a.host[mem.Weights] += weights
		weights = 0
	}
	a.add(mem.Weights, weights)
	on := 1 - min(1, max(0, j.OffloadOptim))
	states := 12 * trained / share(ShardOptim)
	grads := 2 * trained / share(ShardGrads)
	a.add(mem.MasterWeights, states/3*on)
	a.add(mem.OptimState, states*2/3*on)
	a.host[mem.OptimState] += states * (1 - on)
	if on > 0 {
		a.add(mem.Grads, grads)
	} else {
		a.host[mem.Grads] += 2 * grads // fp32, pinned
		if j.Shard < ShardGrads {
			a.add(mem.Grads, grads)
		}
	}
	// Buckets: two of reduce_bucket_size elements, one of allgather_bucket_size; stage 3 also gathers.
	a.add(mem.CommBuffers, 2*2*min(5e8, trained))
	if j.Shard == ShardWeights {
		a.add(mem.CommBuffers, 2*min(p, 1e9)+2*2*largestLayer(s)+4*embedElems(s))
	}
	if j.Shard >= ShardGrads && on > 0 {
		a.add(mem.Workspace, 4*min(trained/n, 1e9)) // fp32 gradients of a sub-group while stepping
	}
	kept := 2 * h * float64(s.Depth())
	layer := 0.0
	for _, l := range s.Layers {
		layer = max(layer, denseLayer(s, l))
	}
	if j.Recompute != Full {
		kept = sumLayers(s, func(l shape.Layer) float64 { return denseLayer(s, l) })
		layer = 0
	}
	if j.OffloadActs {
		a.host[mem.Activations] += kept * t
		kept = 2 * h
	}
	a.add(mem.Activations, kept*t)
	logit := j.logitBytes()
	if j.ChunkedCE {
		logit = 0.1
	}
	a.add(mem.Workspace, max(logit*v, layer)*t)
	e := a.estimate()
	e.Cached = round(0.05*a.sum() + 0.5e9)
	e.Driver = round(1.2 * gib)
	return e, nil
}
