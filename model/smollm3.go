package model

// smolLM3Family is SmolLM3: Llama of which every fourth layer has no positions (arXiv 2501.18795).
func smolLM3Family() family {
	f := traits{}.family(SmolLM3, "SmolLM3ForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-6, theta: 2e6, positions: 32768, tie: true})
		c.AttentionBias, c.MLPBias = or(j.AttentionBias, false), or(j.MLPBias, false)
		c.NoRopeLayers = j.NoRopeLayers
		if every := or(j.NoRopeLayerInterval, 4); len(c.NoRopeLayers) == 0 && every != 0 && c.NumLayers <= maxLayers {
			for i := range max(0, c.NumLayers) {
				turns := 1
				if (i+1)%every == 0 {
					turns = 0
				}
				c.NoRopeLayers = append(c.NoRopeLayers, turns)
			}
		}
		n := 0
		if or(j.UseSlidingWindow, false) {
			n = j.SlidingWindow.or(0)
		}
		j.slides(c, n, func(layer int) bool { return layer < len(c.NoRopeLayers) && c.NoRopeLayers[layer] == 0 })
	}
	f.write = func(c Config, j *configJSON) {
		j.AttentionBias, j.MLPBias, j.NoRopeLayers = &c.AttentionBias, &c.MLPBias, c.NoRopeLayers
		j.PadTokenID = known(0)
		j.writeSlides(c)
	}
	f.check = func(c Config) error {
		if len(c.NoRopeLayers) == 0 {
			return errNoRope
		}
		return c.validateRotary()
	}
	return f
}
