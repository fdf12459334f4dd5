package model

import "slices"

// qwen2Family is Qwen2 and Qwen2.5 (arXiv 2407.10671, 2412.15115): Llama whose queries, keys and values have biases.
func qwen2Family() family {
	f := traits{freeOut: true}.family(Qwen2, "Qwen2ForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-6, theta: 1e4, positions: 32768})
		c.AttentionBias = true
		j.qwenSlides(c)
	}
	f.write = func(c Config, j *configJSON) { j.writeSlides(c) }
	f.check = func(c Config) error {
		if !c.AttentionBias {
			return errNoBias
		}
		return c.validateRotary()
	}
	return f
}

// qwen3Family is Qwen3 (arXiv 2505.09388): Llama that norms the heads of queries and keys.
func qwen3Family() family {
	f := traits{qkNorm: true}.family(Qwen3, "Qwen3ForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-6, theta: 1e4, positions: 32768, headDim: 128})
		c.AttentionBias = or(j.AttentionBias, false)
		j.qwenSlides(c)
	}
	f.write = func(c Config, j *configJSON) {
		j.AttentionBias = &c.AttentionBias
		j.writeSlides(c)
	}
	return f
}

// qwen3MoEFamily is Qwen3 whose feed-forward is a mixture of experts, in all layers or in some.
func qwen3MoEFamily() family {
	f := traits{qkNorm: true, mixture: "mlp.", expertsIn: [3]string{"gate_proj", "up_proj", "down_proj"}}.family(Qwen3MoE, "Qwen3MoeForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-6, theta: 1e4, positions: 32768})
		c.AttentionBias = or(j.AttentionBias, false)
		c.NumLocalExperts, c.NumExpertsPerTok = or(j.NumExperts, or(j.NumLocalExperts, 128)), or(j.NumExpertsPerTok, 8)
		c.RouterShare = !or(j.NormTopKProb, false)
		c.MoEIntermediateSize = or(j.MoEIntermediateSize, 768)
		every := or(j.DecoderSparseStep, 1)
		for i := range max(0, min(c.NumLayers, maxLayers)) {
			if slices.Contains(j.MLPOnlyLayers, i) || every != 0 && (i+1)%every != 0 {
				c.DenseLayers = append(c.DenseLayers, i)
			}
		}
		n := 0
		if or(j.UseSlidingWindow, false) {
			n = j.SlidingWindow.or(4096)
		}
		j.slides(c, n, everyLayer)
	}
	f.write = func(c Config, j *configJSON) {
		normed := !c.RouterShare
		j.AttentionBias, j.NormTopKProb, j.MLPOnlyLayers = &c.AttentionBias, &normed, c.DenseLayers
		j.NumExperts, j.NumExpertsPerTok, j.MoEIntermediateSize = &c.NumLocalExperts, &c.NumExpertsPerTok, &c.MoEIntermediateSize
		slides := c.SlidingWindow > 0
		j.SlidingWindow, j.UseSlidingWindow = window(c), &slides
	}
	return f
}

// qwenSlides reads windows as Qwen2 and Qwen3 have them: in layers from max_window_layers on.
func (j *configJSON) qwenSlides(c *Config) {
	n := 0
	if or(j.UseSlidingWindow, false) {
		n = j.SlidingWindow.or(4096)
	}
	from := or(j.MaxWindowLayers, 28)
	j.slides(c, n, func(layer int) bool { return layer >= from })
}
