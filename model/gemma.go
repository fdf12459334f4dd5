package model

// gemma2Family is Gemma 2 (arXiv 2408.00118): norms either side of sub-blocks, whose weights are 1 less than factors; scores and
// logits under soft caps; every other layer has a window; embeddings times √D.
func gemma2Family() family {
	f := traits{sandwich: true, fromOne: true, scaled: true}.family(Gemma2, "Gemma2ForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.gemma(c, defaults{eps: 1e-6, theta: 1e4, positions: 8192, headDim: 256, tie: true, act: geluTanh})
		c.AttnLogitSoftcapping, c.FinalLogitSoftcapping = float64(j.AttnLogitSoftcapping.or(50)), float64(j.FinalLogitSoftcapping.or(30))
		j.slides(c, j.SlidingWindow.or(4096), func(layer int) bool { return layer%2 == 0 })
	}
	f.write = func(c Config, j *configJSON) {
		j.writeGemma(c)
		j.AttnLogitSoftcapping = known(real(c.AttnLogitSoftcapping))
	}
	f.check = checkGemma
	f.refuse = refuseGemma
	return f
}

// gemma3Family is the text model of Gemma 3 (arXiv 2503.19786): Gemma 2 that norms the heads of queries and keys in place of
// capping their products; five layers of six have a window, and frequencies of their own.
func gemma3Family() family {
	f := traits{sandwich: true, fromOne: true, scaled: true, qkNorm: true}.family(Gemma3, "Gemma3ForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.gemma(c, defaults{eps: 1e-6, theta: 1e6, local: 1e4, positions: 131072, headDim: 256, tie: true, act: geluTanh})
		c.FinalLogitSoftcapping = float64(j.FinalLogitSoftcapping.or(0))
		every := or(j.SlidingWindowPattern, 6)
		j.slides(c, j.SlidingWindow.or(4096), func(layer int) bool { return every == 0 || (layer+1)%every != 0 })
	}
	f.write = func(c Config, j *configJSON) {
		j.writeGemma(c)
		j.RopeLocalTheta = &c.RopeLocalTheta
	}
	f.check = checkGemma
	f.refuse = refuseGemma
	return f
}

// gemma fills c with what both share.
func (j *configJSON) gemma(c *Config, d defaults) {
	if j.HiddenActivation != nil {
		j.HiddenAct = j.HiddenActivation
	}
	j.rotary(c, d)
	c.AttentionBias = or(j.AttentionBias, false)
	c.QueryPreAttnScalar = or(j.QueryPreAttnScalar, 256)
}

func (j *configJSON) writeGemma(c Config) {
	j.AttentionBias, j.QueryPreAttnScalar, j.HiddenActivation = &c.AttentionBias, &c.QueryPreAttnScalar, &c.HiddenAct
	j.FinalLogitSoftcapping = known(real(c.FinalLogitSoftcapping))
	j.writeSlides(c)
}

func checkGemma(c Config) error {
	if c.QueryPreAttnScalar == 0 {
		return errNoScalar
	}
	return c.validateRotary()
}

func refuseGemma(j *configJSON) string {
	if or(j.UseBidirectionalAttention, false) {
		return "use_bidirectional_attention"
	}
	return ""
}
