package model

// mistralFamily is Mistral (arXiv 2310.06825): Llama whose rows may see a window alone.
func mistralFamily() family {
	f := traits{}.family(Mistral, "MistralForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-6, theta: 1e4, positions: 1 << 17})
		j.slides(c, j.SlidingWindow.or(4096), everyLayer)
	}
	f.write = func(c Config, j *configJSON) { j.SlidingWindow = window(c) }
	return f
}
