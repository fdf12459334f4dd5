package model

import (
	"fmt"

	"loadline/graph"
)

// gpt2Family is GPT-2 (Radford et al. 2019).
func gpt2Family() family {
	return family{
		modelType: GPT2, class: "GPT2LMHeadModel",
		read: readGPT2, write: writeGPT2, check: checkGPT2, refuse: refuseGPT2, list: listGPT2, embed: embedGPT2, layer: layerGPT2,
		norm: func(d *decoder, name string) Map {
			return func(x graph.Value) graph.Value {
				return d.LayerNorm(x, d.w(name+".weight"), d.w(name+".bias"), float32(d.c.LayerNormEps))
			}
		},
		last: "transformer.ln_f", table: "transformer.wte.weight",
	}
}

func embedGPT2(d *decoder) graph.Value {
	x := d.Add(d.Embedding(d.tokens, d.w("transformer.wte.weight")), d.Embedding(d.positions, d.w("transformer.wpe.weight")))
	if d.drop != nil {
		x = d.drop(x)
	}
	return x
}

func layerGPT2(d *decoder, x graph.Value, layer int) graph.Value {
	n := fmt.Sprintf("transformer.h.%d.", layer)
	o := d.attention(layer)
	o.Norm = d.f.norm(d, n+"ln_1")
	o.Q, o.K, o.V = d.linear(n+"attn.c_attn.q"), d.linear(n+"attn.c_attn.k"), d.linear(n+"attn.c_attn.v")
	o.Out = d.linear(n + "attn.c_proj")
	x = Attention(d.Builder, x, o)
	return MLP(d.Builder, x, MLPOptions{
		Layer: layer, Norm: d.f.norm(d, n+"ln_2"), Up: d.linear(n + "mlp.c_fc"), Down: d.linear(n + "mlp.c_proj"), Drop: d.drop,
		Act: func(_, up graph.Value) graph.Value { return d.Gelu(up, d.c.HiddenAct == "gelu_new") },
	})
}

// conv appends one of the projections that GPT-2's Conv1D named name holds side by side, with its bias: published as (inputs,
// fused outputs), of which the rows of this one are columns from first on.
func (l *lister) conv(part, state, name string, in Init, first, rows, cols, fused int) {
	l.piece(part, state+".weight", in, []int{rows, cols}, Piece{
		Name: name + ".weight", Shape: []int{cols, fused}, Rows: rows, Cols: cols, Width: fused, Col: first, Transposed: true,
	})
	l.piece(part, state+".bias", Init{}, []int{rows}, Piece{
		Name: name + ".bias", Shape: []int{fused}, Rows: 1, Cols: rows, Width: fused, Col: first,
	})
}

func listGPT2(l *lister, c Config) {
	d, f := c.HiddenSize, c.IntermediateSize
	std, back, one := c.starts()
	l.layer = graph.Outside
	l.add(embedPart, "transformer.wte.weight", std, c.VocabSize, d)
	l.add(embedPart, "transformer.wpe.weight", std, c.MaxPositionEmbeddings, d)
	for l.layer = range c.NumLayers {
		n := fmt.Sprintf("transformer.h.%d.", l.layer)
		l.add("attn.norm", n+"ln_1.weight", one, d)
		l.add("attn.norm", n+"ln_1.bias", Init{}, d)
		for i, x := range []string{"q", "k", "v"} {
			l.conv("attn.qkv", n+"attn.c_attn."+x, n+"attn.c_attn", std, i*d, d, d, 3*d)
		}
		l.conv("attn.out", n+"attn.c_proj", n+"attn.c_proj", back, 0, d, d, d)
		l.add("mlp.norm", n+"ln_2.weight", one, d)
		l.add("mlp.norm", n+"ln_2.bias", Init{}, d)
		l.conv("mlp.up", n+"mlp.c_fc", n+"mlp.c_fc", std, 0, f, d, f)
		l.conv("mlp.down", n+"mlp.c_proj", n+"mlp.c_proj", back, 0, d, f, d)
	}
	l.layer = graph.Outside
	l.add("norm", "transformer.ln_f.weight", one, d)
	l.add("norm", "transformer.ln_f.bias", Init{}, d)
	if !c.TieWordEmbeddings {
		l.add("head", "lm_head.weight", std, c.VocabSize, d)
	}
}

// readGPT2 fills c from GPT-2's spellings.
func readGPT2(j *configJSON, c *Config) {
	c.HiddenSize, c.NumLayers, c.NumHeads = or(j.NEmbd, 768), or(j.NLayer, 12), or(j.NHead, 12)
	c.NumKVHeads = c.NumHeads
	if c.NumHeads > 0 && c.HiddenSize > 0 {
		c.HeadDim = max(1, c.HiddenSize/c.NumHeads)
	}
	c.IntermediateSize = or(j.NInner, 4*c.HiddenSize)
	c.VocabSize, c.MaxPositionEmbeddings = or(j.VocabSize, 50257), or(j.NPositions, 1024)
	c.LayerNormEps = or(j.LayerNormEps, 1e-5)
	c.TieWordEmbeddings = or(j.TieWordEmbeddings, true)
	c.HiddenAct = or(j.Activation, "gelu_new")
	if c.HiddenAct == geluTanh { // another name of the same function
		c.HiddenAct = "gelu_new"
	}
}

func writeGPT2(c Config, j *configJSON) {
	j.NEmbd, j.NLayer, j.NHead, j.NInner, j.NPositions = &c.HiddenSize, &c.NumLayers, &c.NumHeads, &c.IntermediateSize, &c.MaxPositionEmbeddings
	j.LayerNormEps, j.Activation = &c.LayerNormEps, &c.HiddenAct
}

func checkGPT2(c Config) error {
	switch {
	case c.HiddenSize != c.NumHeads*c.HeadDim:
		return fmt.Errorf("model: n_embd %d is not n_head %d times a head width", c.HiddenSize, c.NumHeads)
	case c.NumKVHeads != c.NumHeads:
		return fmt.Errorf("model: gpt2 has as many key heads as heads: want %d, got %d", c.NumHeads, c.NumKVHeads)
	case !small(c.LayerNormEps):
		return fmt.Errorf("model: layer_norm_epsilon %g: want between 0 and 1", c.LayerNormEps)
	case c.HiddenAct != "gelu_new" && c.HiddenAct != "gelu":
		return fmt.Errorf("model: activation_function %q: want gelu_new or gelu", c.HiddenAct)
	}
	return nil
}

func refuseGPT2(j *configJSON) string {
	switch {
	case !or(j.ScaleAttn, true):
		return "scale_attn_weights"
	case or(j.ScaleByLayer, false):
		return "scale_attn_by_inverse_layer_idx"
	case or(j.CrossAttn, false):
		return "add_cross_attention"
	}
	return ""
}
