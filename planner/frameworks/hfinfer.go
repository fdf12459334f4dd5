package frameworks

import (
	"loadline/mem"
)

// HFInference predicts transformers' generate over all devices together. Before DynamicCache (4.36) the cache was
// concatenated anew each step, so that reserved memory holds it about twice; since then it is counted as allocated.
// Sources: transformers/cache_utils.py, modeling_qwen.py.
func HFInference(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s := j.Shape
	var a tally
	weights := j.Weights.bytes(s)
	if j.Weights.Name == "fp8" && s.Tied { // such checkpoints come with an output projection of their own
		weights += 2 * embedElems(s)
	}
	bits := j.KVBits
	if bits == 0 {
		bits = 16
	}
	kv := s.KVElemsAt(j.Seq) * bits / 8 * one(j.MicroBatch)
	a.add(mem.Weights, weights)
	a.add(mem.KVBlocks, kv)
	var cached float64
	if j.Version != "" && j.Version < "4.36" {
		cached = kv + 0.6*gib
	} else {
		a.add(mem.Workspace, 36<<20)
		if j.Weights.Bits > 0 && j.Weights.Bits < 8 { // dequantised blocks of the last prompt stay split
			a.add(mem.Workspace, 0.12*kv+48<<20)
		}
		cached = 0.03 * a.sum()
	}
	e := a.estimate()
	e.Cached = round(cached)
	e.Driver = round(0.5 * gib)
	return e, nil
}
