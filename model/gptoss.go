package model

import (
	"loadline/graph"
)

// gptOssFamily is gpt-oss (arXiv 2508.10925): every layer a mixture of experts with biases and a clamped activation, a sink in every
// head, every other layer a window, frequencies scaled by YaRN.
func gptOssFamily() family {
	f := traits{sinks: true, clamped: true, mixture: "mlp."}.family(GPTOss, "GptOssForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		if j.RopeParameters == nil && j.RopeScaling == nil {
			kind, factor, truncate, original := YarnRope, real(32), false, 4096
			j.RopeParameters = &ropeJSON{RopeType: &kind, Factor: &factor, Truncate: &truncate, Original: &original}
		}
		j.rotary(c, defaults{eps: 1e-5, theta: 150000, positions: 131072, headDim: 64})
		c.AttentionBias = or(j.AttentionBias, true)
		c.NumLocalExperts, c.NumExpertsPerTok = or(j.NumLocalExperts, or(j.NumExperts, 128)), or(j.NumExpertsPerTok, 4)
		c.SwiGLUAlpha, c.SwiGLULimit = num(j.SwiGLUAlpha, 1.702), num(j.SwiGLULimit, 7)
		j.slides(c, j.SlidingWindow.or(128), func(layer int) bool { return layer%2 == 0 })
	}
	f.write = func(c Config, j *configJSON) {
		j.AttentionBias, j.NumLocalExperts, j.NumExpertsPerTok = &c.AttentionBias, &c.NumLocalExperts, &c.NumExpertsPerTok
		alpha, limit := real(c.SwiGLUAlpha), real(c.SwiGLULimit)
		j.SwiGLUAlpha, j.SwiGLULimit = &alpha, &limit
		if c.RopeScaling.Type == "" {
			none := "default"
			j.RopeScaling = &ropeJSON{RopeType: &none}
		}
		j.writeSlides(c)
	}
	f.check = func(c Config) error {
		if !(c.SwiGLUAlpha > 1e-3 && c.SwiGLUAlpha < 1e3 && c.SwiGLULimit > 1e-3 && c.SwiGLULimit < 1e6) {
			return errNoClamp
		}
		return c.validateRotary()
	}
	return f
}

// clampedMoE is the mixture of a layer whose weights are under n.
func (d *decoder) clampedMoE(n string, o *MoEOptions) {
	o.Router, o.Biased = d.linear(n+"router"), true
	o.Gate, o.Up, o.Down = d.w(n+"experts.gate_proj"), d.w(n+"experts.up_proj"), d.w(n+"experts.down_proj")
	o.GateBias, o.UpBias, o.DownBias = d.w(n+"experts.gate_proj_bias"), d.w(n+"experts.up_proj_bias"), d.w(n+"experts.down_proj_bias")
	o.Act = func(gate, up graph.Value) graph.Value {
		return d.ClampedGLU(gate, up, d.c.SwiGLUAlpha, d.c.SwiGLULimit)
	}
}

// clampedExperts lists them. They are published as (E, inputs, outputs), gate and up in turns: outputs 2f and 2f+1.
func (l *lister) clampedExperts(c Config, n string) {
	d, f, e := c.HiddenSize, c.IntermediateSize, c.NumLocalExperts
	std, back, _ := c.starts()
	l.add("moe.router", n+"router.weight", std, e, d)
	l.add("moe.router", n+"router.bias", Init{}, e)
	n += "experts."
	l.turned("moe.experts.up", n+"gate_proj", n+"gate_up_proj", std, e, f, d, 0, 2)
	l.turned("moe.experts.up", n+"up_proj", n+"gate_up_proj", std, e, f, d, 1, 2)
	l.turned("moe.experts.down", n+"down_proj", n+"down_proj", back, e, d, f, 0, 1)
}

// turned appends one projection of all experts with its bias, published in one tensor (E, cols, rows·step), of which its columns are
// the one at first and every step-th after it.
func (l *lister) turned(part, state, name string, in Init, e, rows, cols, first, step int) {
	dims, biasDims := []int{e, rows, cols}, []int{e, rows}
	if l.counting {
		l.tally(dims...)
		l.tally(biasDims...)
		return
	}
	width := rows * step
	pieces := make([]Piece, e)
	for i := range pieces {
		pieces[i] = Piece{
			Name: name, Shape: []int{e, cols, width}, First: i * rows * cols, Rows: rows, Cols: cols, Width: width, Row: i * cols, Col: first,
			Transposed: true, Step: step,
		}
	}
	l.piece(part, state, in, dims, pieces...)
	l.piece(part, state+"_bias", Init{}, biasDims, Piece{
		Name: name + "_bias", Shape: []int{e, width}, Rows: e, Cols: rows, Width: width, Col: first, Step: step,
	})
}
