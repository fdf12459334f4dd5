package model

// phi3Family is Phi-3, Phi-3.5 and Phi-4 (arXiv 2404.14219, 2412.08905): Llama whose projections are published fused, and of whose
// heads a part may turn.
func phi3Family() family {
	f := traits{fused: true}.family(Phi3, "Phi3ForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-5, theta: 1e4, positions: 4096, original: 4096, partial: true})
		j.slides(c, j.SlidingWindow.or(0), everyLayer)
	}
	f.write = func(c Config, j *configJSON) { j.SlidingWindow, j.PadTokenID = window(c), known(0) }
	return f
}
