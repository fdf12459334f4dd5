package frameworks

import (
	"loadline/mem"
)

// TorchTune predicts torchtune's single-device and FSDP2 recipes: weights, gradients and moments in bf16. Sources:
// torchtune/modules/loss/ce_chunked_output_loss.py (eight chunks of fp32 logits), training/_activation_offloading.py,
// modules/rms_norm.py (fp32 inside), recipes/full_finetune_single_device.py (optimizer in backward).
func TorchTune(j Job) (Estimate, error) {
	if err := j.check(); err != nil {
		return Estimate{}, err
	}
	s, t := j.Shape, j.tokens()
	h, v := float64(s.Hidden), float64(s.Vocab)
	p, n := float64(s.Params()), one(j.Ranks)
	full := j.Adapter.Method == ""
	var a tally
	weights := j.Weights.bytes(s)
	if j.OffloadParams {
		a.host[mem.Weights] += weights / n
	} else {
		a.add(mem.Weights, weights/n)
	}
	grads, moments := 0.0, 0.0
	if full {
		grads, moments = 2*p/n, 4*p/n
		switch j.Optimizer {
		case "adamw8bit":
			moments = 2*p/n + 4*embedElems(s)/n // bitsandbytes: embeddings keep 16-bit moments
		case "torchao8bit":
			moments = 2 * (1 + 4/256.0) * p / n // a fp32 scale for 256, torchao/optim/subclass_8bit.py
		case "torchao4bit":
			moments = 2 * (0.5 + 4/128.0) * p / n
		case "torchaofp8":
			moments = 2 * (1 + 4/256.0) * p / n
		}
		if j.OptimInBack {
			grads = 2 * embedElems(s) // one parameter's at a time
		}
	} else {
		trainable := j.Adapter.Trainable
		if trainable == 0 {
			trainable = loraParams(s, float64(max(j.Adapter.Rank, 8)), j.Adapter.Targets)
		}
		a.add(mem.Weights, 2*trainable)
		moments, grads = 4*trainable, 2*trainable
	}
	if j.OffloadParams {
		a.host[mem.OptimState] += moments
		a.host[mem.Grads] += grads
		grads, moments = 0, 0
	}
	a.host[mem.OptimState] += moments * j.OffloadOptim
	moments *= 1 - j.OffloadOptim
	a.add(mem.OptimState, moments)
	if n > 1 { // at the head one layer and both embeddings are gathered
		a.add(mem.CommBuffers, 2*largestLayer(s)+4*embedElems(s))
	}
	kept := 0.0
	for _, l := range s.Layers {
		q, k := widths(s, l)
		norms := 16.0 // inputs in bf16, and in fp32 inside the norms
		if j.Compiled {
			norms = 12
		}
		kept += norms*h + 4*q + 4*k + 6*active(s, l)
	}
	if j.Recompute == Full {
		kept = 2 * h * float64(s.Depth())
		if j.OffloadActs {
			a.host[mem.Activations] += kept * t
			kept = 2 * h
		}
	}
	logit := 18.0
	switch {
	case j.ChunkedCE:
		logit = 2.6
	case j.Compiled:
		logit = 12
	}
	head := logit*t*v + 2*embedElems(s) // and the gradient of the output projection, or the projection gathered
	if !full {
		head -= 2 * embedElems(s)
	}
	// The peak is where backward begins, or where it ends with all gradients.
	if start := kept*t + head; start >= grads+0.3e9 {
		a.add(mem.Activations, kept*t)
		a.add(mem.Workspace, head)
	} else {
		a.add(mem.Grads, grads)
		a.add(mem.Workspace, 0.3e9)
	}
	a.add(mem.Workspace, 0.1e9)
	e := a.estimate()
	cached := 0.02*a.sum() + 0.2e9
	if !j.Weights.Whole() { // blocks freed while the weights were quantised stay reserved
		cached = max(cached, 1.355*p-a.sum())
	}
	e.Cached = round(cached)
	e.Driver = round(0.6 * gib)
	return e, nil
}
