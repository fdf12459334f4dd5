package model

// mixtralFamily is Mixtral (arXiv 2401.04088): Llama whose feed-forward is a mixture of experts.
func mixtralFamily() family {
	f := traits{mixture: "block_sparse_moe.", expertsIn: [3]string{"w1", "w3", "w2"}}.family(Mixtral, "MixtralForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-5, theta: 1e6, positions: 1 << 17})
		c.NumLocalExperts, c.NumExpertsPerTok = or(j.NumLocalExperts, 8), or(j.NumExpertsPerTok, 2)
		j.slides(c, j.SlidingWindow.or(0), everyLayer)
	}
	f.write = func(c Config, j *configJSON) {
		j.NumLocalExperts, j.NumExpertsPerTok = &c.NumLocalExperts, &c.NumExpertsPerTok
		j.SlidingWindow = window(c)
	}
	return f
}
