package frameworks

import (
	"strings"

	"loadline/mem"
	"loadline/planner/shape"
)

// Constants of transformers and torch, where they are measured.
const (
	hfWorkspace   = 0.23e9 // cuBLAS workspaces and blocks that the allocator splits
	deepSpeedFlat = 1.6e9  // DeepSpeed's buckets: two of 5e8 elements in 16 bits, less what is reused
	trainerSlack  = 2.0e9  // reserved beyond what is used by a Trainer with gradient checkpointing
)

// logitBytes are the bytes of one logit at the start of the backward pass: 16-bit logits 2, log-softmax in fp32 4,
// and its two gradients 8. In fp16 without autocast nothing is fp32.
func (j *Job) logitBytes() float64 {
	if j.Compute == "fp16" {
		return 8
	}
	return 14
}

// denseLayer returns what one decoder layer of transformers keeps a token without checkpointing: two RMSNorms in fp32
// (modeling_llama.py, LlamaRMSNorm keeps its input in fp32), query, repeated key and value, and output of attention,
// gate, up and their product.
func denseLayer(s *shape.Shape, l shape.Layer) float64 {
	h := float64(s.Hidden)
	q, _ := widths(s, l)
	mlp := 6 * active(s, l)
	if !s.Gated {
		mlp = 4 * active(s, l)
	}
	return 4*float64(s.Norms)*h + 8*q + mlp + 4*float64(s.Heads)
}

// HFTrainer predicts transformers' Trainer and PEFT on one GPU, with scaled-dot-product attention, in 16 bits.
// Reserved memory is what they report.
func HFTrainer(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s, t := j.Shape, j.tokens()
	h, v := float64(s.Hidden), float64(s.Vocab)
	m := methodOf(j.Adapter)
	full := j.Adapter.Method == ""
	name := strings.ToLower(j.Adapter.Method)

	// Virtual tokens lengthen every sequence, or its keys and values.
	prefix := 0.0
	switch b := one(j.MicroBatch); {
	case strings.Contains(name, "prefix"): // in fp32, so keys, values and their repetition are
		virtual := j.Adapter.Trainable / (2 * sumLayers(s, func(l shape.Layer) float64 { return float64(l.KVHeads * l.HeadDim) }))
		prefix = b * virtual * 24 * h * float64(s.Depth())
	case strings.Contains(name, "prompt") && !strings.Contains(name, "adaption"):
		t += b * j.Adapter.Trainable / h
	case strings.Contains(name, "ptuning"), strings.Contains(name, "p_tuning"):
		t += b * 20 // num_virtual_tokens
	}

	var a tally
	a.add(mem.Weights, j.Weights.bytes(s))
	layers := sumLayers(s, func(l shape.Layer) float64 {
		n := denseLayer(s, l)
		if full { // inputs of every matrix product, and norms', for their weights
			return n + 8*h + 2*active(s, l)
		}
		return n + m.kept(s, l, j.Adapter)
	})
	if j.Recompute == Full {
		one := 0.0
		for _, l := range s.Layers {
			one = max(one, denseLayer(s, l)+m.kept(s, l, j.Adapter))
		}
		layers = 2*h*float64(s.Depth()) + one
	}
	head := t * (4*h + j.logitBytes()*v)
	a.add(mem.Activations, t*layers+prefix)
	a.add(mem.Workspace, head+hfWorkspace)
	switch {
	case full:
		p := float64(s.Params())
		a.add(mem.OptimState, 2*2*p)
		a.add(mem.Grads, 2*embedElems(s)) // the head's, while all activations are alive
	case strings.Contains(name, "osf"): // every matrix as the product of its singular vectors, rebuilt in fp32
		a.add(mem.Weights, 5.5*s.LinearParams())
		a.add(mem.OptimState, 16*j.Adapter.Trainable)
	default:
		a.add(mem.OptimState, 12*j.Adapter.Trainable)
		a.add(mem.Grads, 4*j.Adapter.Trainable)
		a.add(mem.Activations, m.weights(s))
		if strings.Contains(name, "trainable_tokens") {
			a.add(mem.Grads, 2*embedElems(s))
		}
	}
	e := a.estimate()
	e.Driver = round(0.5 * gib)
	return e, nil
}

// HFFinetune predicts transformers' Trainer with gradient checkpointing, and DeepSpeed where a job shards states or
// trains on quantised weights (Qwen's finetune.py): peak is the larger of backward's start and the optimizer's step.
func HFFinetune(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s, t := j.Shape, j.tokens()
	h, v := float64(s.Hidden), float64(s.Vocab)
	n, p := one(j.Ranks), float64(s.Params())
	var a tally
	kept := 2 * h * float64(s.Depth()) * t
	work := j.logitBytes() * v * t
	weights := j.Weights.bytes(s)
	step := 0.0
	a.add(mem.Workspace, trainerSlack)

	adapter := j.Adapter.Trainable
	if j.Adapter.Method != "" && adapter == 0 {
		adapter = loraParams(s, float64(max(j.Adapter.Rank, 8)), j.Adapter.Targets)
	}
	switch {
	case j.Shard == ShardWeights && j.Adapter.Method == "":
		// stage3.py: 16-bit weights and gradients, fp32 master and moments, one sub-group's fp32 gradients and update
		// while stepping, gathered parameters up to max_live_parameters, embedding and head gathered.
		a.add(mem.Weights, 2*p/n)
		a.add(mem.Grads, 2*p/n)
		a.add(mem.OptimState, 12*p/n)
		a.add(mem.CommBuffers, 2*min(p, 1e9)+4*embedElems(s)+3e9)
		step = 8 * min(p/n, 1e9)
	case j.Shard == ShardWeights:
		a.add(mem.Weights, weights/n)
		a.add(mem.OptimState, 28*adapter/n)
		a.add(mem.CommBuffers, 2*min(p, 1e9)+4*embedElems(s)+3e9)
	case j.Weights.Whole():
		a.add(mem.Weights, weights)
		a.add(mem.Workspace, 0.05*weights) // allocator
		a.add(mem.OptimState, 12*adapter)
		a.add(mem.Grads, 4*adapter)
	default: // quantised, by DeepSpeed: the adapter once more in fp32 and flattened
		a.add(mem.Weights, weights)
		a.add(mem.OptimState, 12*adapter)
		a.add(mem.Grads, 16*adapter)
		a.add(mem.CommBuffers, deepSpeedFlat)
		a.add(mem.Workspace, 0.6e9-trainerSlack)
	}
	if j.Adapter.Embedding { // copies of both embeddings, gradients that accumulate, moments; the update needs as much again
		a.add(mem.OptimState, 10*2*embedElems(s))
		step += 4 * 2 * embedElems(s)
		a.add(mem.Workspace, -0.5e9)
	}
	if kept+work >= step {
		a.add(mem.Activations, kept)
		a.add(mem.Workspace, work)
	} else {
		a.add(mem.Workspace, step)
	}
	e := a.estimate()
	e.Driver = round(0.5 * gib)
	return e, nil
}
