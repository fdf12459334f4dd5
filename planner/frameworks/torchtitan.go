package frameworks

import (
	"loadline/mem"
)

// titanLogit returns the bytes of a logit in torchtitan, by version of torch: the eager loss keeps 16-bit logits and
// three fp32 copies with their gradients; a compiled loss fuses them; from torch 2.8 the compiled loss works in
// chunks. Shards of the vocabulary (loss parallel) are exchanged in fp32.
func titanLogit(j *Job) float64 {
	switch {
	case j.TP > 1:
		return 22
	case !j.Compiled:
		return 18
	case j.Version == "" || j.Version >= "2.8":
		return 5
	}
	return 14
}

// TorchTitan predicts torchtitan, which shards by FSDP2 and reports reserved memory. Sources: torchtitan/models/llama3/
// infra/parallelize.py (what is wrapped and checkpointed: mixed precision with fp32 states, every second matrix product
// and attention kept), torch/distributed/fsdp/_fully_shard (two layers gathered at a time), pipelining/schedules.py.
func TorchTitan(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s := j.Shape
	h, v, tp, pp := float64(s.Hidden), float64(s.Vocab), one(j.TP), one(j.PP)
	p, n := float64(s.Params()), one(j.Ranks)
	depth := float64(s.Depth())
	var a tally
	for _, x := range []struct {
		p mem.Purpose
		n float64
	}{{mem.MasterWeights, 4}, {mem.Grads, 4}, {mem.OptimState, 8}} {
		a.add(x.p, x.n*p/n)
	}
	t := j.tokens()
	layer, kept := 0.0, 0.0 // of one token
	for _, l := range s.Layers {
		q, k := widths(s, l)
		f := active(s, l)
		layer = max(layer, 2*(4*h+2*q+2*k+3*f))
		switch j.Recompute {
		case Full:
			kept += 2 * h
		case PerOp, Selective:
			kept += 2 * (2*q + k + f + 2*h)
		default:
			kept += 2 * (4*h + 2*q + 2*k + 3*f)
		}
	}
	if pp > 1 {
		// Micro-batches are as many as stages, all alive on the first; weights of a stage stay gathered, and its fp32
		// gradients whole, until the last one.
		t /= min(one(j.MicroBatch), pp)
		a.add(mem.Weights, 2*p/(pp*tp))
		a.add(mem.Grads, 4*p/(pp*tp))
	} else {
		a.add(mem.Weights, 2*2*largestLayer(s)/tp)
		a.add(mem.CommBuffers, 4*embedElems(s)/tp)
	}
	if j.Recompute == Full {
		a.add(mem.Activations, t*(2*h*depth+layer)/tp)
	} else {
		a.add(mem.Activations, t*kept/tp)
	}
	a.add(mem.Workspace, titanLogit(&j)*t*v/tp)
	e := a.estimate()
	e.Driver = round(1.5 * gib)
	return e, nil
}
