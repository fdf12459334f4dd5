package frameworks

import (
	"loadline/mem"
	"loadline/planner/shape"
)

// litLogit is bf16 logits 2, log-softmax in fp32 4 and its gradient in chunks of 128 tokens (litgpt/utils.py,
// chunked_cross_entropy).
const litLogit = 10.6

// LitGPT predicts LitGPT's fine-tuning and generation. Sources: litgpt/model.py (RMSNorm keeps its input in fp32, keys
// and values are repeated for attention), litgpt/lora.py (dropout keeps its output and a mask before every adapter),
// litgpt/finetune/{lora,full}.py (FSDP by block; LoRA checkpoints, full training does not and accumulates whole
// gradients), config_hub (which projections are adapted).
func LitGPT(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s, t := j.Shape, j.tokens()
	h, v, n := float64(s.Hidden), float64(s.Vocab), one(j.Ranks)
	head := embedElems(s)
	p := float64(s.Params())
	if s.Tied { // the checkpoint holds both, and training unties them
		p += head
	}
	var a tally
	weights := 2 * p
	if !j.Weights.Whole() {
		linear := s.LinearParams()
		weights = linear*j.Weights.bits()/8 + 2*(p-linear)
	}
	full := j.Adapter.Method == ""
	wide := !j.Weights.Whole() // bitsandbytes' adapters and their sums are fp32
	kept := 0.0
	for _, l := range s.Layers {
		kept += litLayer(s, l, full, wide, j.Adapter.Targets == "all")
	}
	if n > 1 && !full {
		kept = 2*h*float64(s.Depth()) + kept/float64(s.Depth())
	}
	a.add(mem.Weights, weights/n)
	if full {
		a.add(mem.OptimState, 4*p/n)
		switch {
		case j.Accumulate > 1: // no_sync: whole gradients wait
			a.add(mem.Grads, 2*p)
		case n > 1:
			a.add(mem.Grads, 2*p/n)
		default:
			a.add(mem.Grads, 2*head)
		}
	} else {
		adapter := j.Adapter.Trainable
		if adapter == 0 {
			adapter = loraParams(s, float64(max(j.Adapter.Rank, 8)), j.Adapter.Targets)
		}
		if wide {
			adapter *= 2
		}
		a.add(mem.Weights, 2*adapter)
		a.add(mem.OptimState, 4*adapter)
		a.add(mem.Grads, 2*adapter)
	}
	if n > 1 { // FSDP's root unit is both embeddings; two blocks are gathered beside it
		a.add(mem.CommBuffers, 2*2*head+2*2*largestLayer(s))
	}
	a.add(mem.Activations, t*kept)
	a.add(mem.Workspace, t*litLogit*v+0.35e9)
	if n > 1 { // loading a checkpoint gathers the whole model on every rank (lightning/fabric/strategies/fsdp.py)
		a.add(mem.Workspace, max(0, weights+weights/n+0.6e9-a.sum()))
	}
	e := a.estimate()
	e.Driver = round(0.5 * gib)
	return e, nil
}

// litLayer returns what a layer keeps a token.
func litLayer(s *shape.Shape, l shape.Layer, full, wide, all bool) float64 {
	h, f := float64(s.Hidden), active(s, l)
	q, _ := widths(s, l)
	e := 2.0 // bytes of an activation
	if wide {
		e = 4
	}
	norm := 4 * h // fp32 inside RMSNorm
	if s.NormBias {
		norm = e * h
	}
	norms := float64(s.Norms)
	n := norms*norm + 4*e*q
	if s.Gated {
		n += 3 * e * f
	} else {
		n += e * f
	}
	switch {
	case full: // inputs of matrix products, and of norms' weights
		n += 2*e*h + e*f
		if !s.NormBias {
			n += norms * 4 * h
		}
	case all:
		n += 3 * (h + q + h + f)
		if s.Gated {
			n += 3 * h
		}
	default:
		n += 3 * h
	}
	return n
}

// LitGenerate predicts LitGPT's generation: weights, one sequence's cache, and nothing else that counts.
func LitGenerate(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s := j.Shape
	var a tally
	head := embedElems(s)
	weights := j.Weights.bytes(s)
	if s.Tied {
		weights += 2 * head
	}
	if !j.Weights.Whole() { // the last matrix to be quantised, before and after
		a.add(mem.Workspace, 0.25e9)
	}
	a.add(mem.Weights, weights)
	a.add(mem.KVBlocks, 2*s.KVElemsAt(j.Seq)*one(j.MicroBatch))
	a.add(mem.Workspace, 0.05e9)
	e := a.estimate()
	e.Cached = round(0.02 * a.sum())
	e.Driver = round(0.5 * gib)
	return e, nil
}
