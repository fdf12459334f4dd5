package model

import (
	"fmt"
	"math"
	"slices"

	"loadline/graph"
)

// traits are what families have beside what all with rotary positions share. The zero traits are Llama's (arXiv 2302.13971,
// 2307.09288, 2407.21783).
type traits struct {
	qkNorm    bool      // heads of queries and keys are normed
	sandwich  bool      // what a sub-block makes is normed before it is added
	fromOne   bool      // a norm's weights are what its factors have above 1
	scaled    bool      // embeddings are times √D
	freeOut   bool      // where queries have biases, the output has none
	fused     bool      // queries, keys and values are published as one matrix, gate and up too
	mixture   string    // where the weights of a mixture of experts are, in a layer
	expertsIn [3]string // names of their projections: gate, up, down
	sinks     bool      // heads have sinks
	clamped   bool      // the mixture is gpt-oss's
}

// llamaFamily is Llama 1 to 3, and with it SmolLM 1 and 2 and all that config.json calls llama.
func llamaFamily() family {
	f := traits{}.family(Llama, "LlamaForCausalLM")
	f.read = func(j *configJSON, c *Config) {
		j.rotary(c, defaults{eps: 1e-6, theta: 1e4, positions: 2048})
		c.AttentionBias, c.MLPBias = or(j.AttentionBias, false), or(j.MLPBias, false)
	}
	f.write = func(c Config, j *configJSON) {
		j.AttentionBias, j.MLPBias = &c.AttentionBias, &c.MLPBias
	}
	return f
}

// family is the part that all families with rotary positions share.
func (t traits) family(modelType, class string) family {
	return family{modelType: modelType, class: class, mixture: t.mixture != "", list: t.list, embed: t.embed, layer: t.layer, norm: t.norm, last: "model.norm", table: "model.embed_tokens.weight"}
}

func (t traits) embed(d *decoder) graph.Value {
	x := d.Embedding(d.tokens, d.w(d.f.table))
	if t.scaled {
		x = d.Affine(x, math.Sqrt(float64(d.c.HiddenSize)), 0)
	}
	return x
}

func (t traits) norm(d *decoder, name string) Map {
	return func(x graph.Value) graph.Value {
		w := d.w(name + ".weight")
		if t.fromOne {
			w = d.Affine(w, 1, 1)
		}
		return d.RMSNorm(x, w, float32(d.c.RMSNormEps))
	}
}

// norms names the norms of a layer: before and after attention, before and after the feed-forward; those after are "" but in a
// sandwich.
func (t traits) norms(n string) [4]string {
	if t.sandwich {
		return [4]string{n + "input_layernorm", n + "post_attention_layernorm", n + "pre_feedforward_layernorm", n + "post_feedforward_layernorm"}
	}
	return [4]string{n + "input_layernorm", "", n + "post_attention_layernorm", ""}
}

func (t traits) layer(d *decoder, x graph.Value, layer int) graph.Value {
	n := fmt.Sprintf("model.layers.%d.", layer)
	norms := t.norms(n)
	post := func(name string) Map {
		if name == "" {
			return nil
		}
		return t.norm(d, name)
	}
	o := d.attention(layer)
	o.Norm, o.Post = t.norm(d, norms[0]), post(norms[1])
	o.Q, o.K, o.V, o.Out = d.linear(n+"self_attn.q_proj"), d.linear(n+"self_attn.k_proj"), d.linear(n+"self_attn.v_proj"), d.linear(n+"self_attn.o_proj")
	if t.qkNorm {
		o.QNorm, o.KNorm = t.norm(d, n+"self_attn.q_norm"), t.norm(d, n+"self_attn.k_norm")
	}
	if t.sinks {
		o.Sinks = func() graph.Value { return d.w(n + "self_attn.sinks") }
	}
	if r, ok := d.c.Rope(layer, d.spec.Context); ok {
		o.Rotate = func(x graph.Value, heads int) graph.Value {
			r.Heads = heads
			return d.Rotate(x, d.positions, r)
		}
	}
	o.Spec.Window, o.Spec.Softcap = d.c.Window(layer), d.c.AttnLogitSoftcapping
	if s := d.c.QueryPreAttnScalar; s > 0 {
		o.Spec.Scaling = 1 / math.Sqrt(s)
	}
	x = Attention(d.Builder, x, o)
	if d.c.mixes(layer) {
		n += t.mixture
		m := MoEOptions{Layer: layer, Norm: t.norm(d, norms[2]), Experts: d.c.NumLocalExperts, TopK: d.c.NumExpertsPerTok, Share: d.c.RouterShare, Act: d.gated, Drop: d.drop}
		if t.clamped {
			d.clampedMoE(n, &m)
			return MoE(d.Builder, x, m)
		}
		m.Router = d.linear(n + "gate")
		m.Gate, m.Up, m.Down = d.w(n+"experts."+t.expertsIn[0]), d.w(n+"experts."+t.expertsIn[1]), d.w(n+"experts."+t.expertsIn[2])
		return MoE(d.Builder, x, m)
	}
	return MLP(d.Builder, x, MLPOptions{
		Layer: layer, Norm: t.norm(d, norms[2]), Gate: d.linear(n + "mlp.gate_proj"), Up: d.linear(n + "mlp.up_proj"),
		Act: d.gated, Down: d.linear(n + "mlp.down_proj"), Post: post(norms[3]), Drop: d.drop,
	})
}

// mixes reports whether a layer has a mixture of experts.
func (c Config) mixes(layer int) bool { return c.MoE() && !slices.Contains(c.DenseLayers, layer) }

func (t traits) list(l *lister, c Config) {
	d, k, h, g := c.HiddenSize, c.HeadDim, c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	std, back, one := c.starts()
	if t.fromOne {
		one = Init{}
	}
	l.layer = graph.Outside
	l.add(embedPart, "model.embed_tokens.weight", std, c.VocabSize, d)
	for l.layer = range c.NumLayers {
		n := fmt.Sprintf("model.layers.%d.", l.layer)
		norms := t.norms(n)
		l.add("attn.norm", norms[0]+".weight", one, d)
		at := 0
		for _, x := range []struct {
			name string
			rows int
		}{{"q", h}, {"k", g}, {"v", g}} {
			name := n + "self_attn." + x.name + "_proj"
			if t.fused {
				l.within("attn.qkv", name+".weight", n+"self_attn.qkv_proj.weight", std, at, h+2*g, x.rows, d)
			} else {
				l.add("attn.qkv", name+".weight", std, x.rows, d)
			}
			if c.AttentionBias {
				l.add("attn.qkv", name+".bias", Init{}, x.rows)
			}
			at += x.rows
		}
		if t.qkNorm {
			l.add("attn.qk.norm", n+"self_attn.q_norm.weight", one, k)
			l.add("attn.qk.norm", n+"self_attn.k_norm.weight", one, k)
		}
		if t.sinks {
			l.add("attn.core", n+"self_attn.sinks", Init{}, c.NumHeads)
		}
		l.add("attn.out", n+"self_attn.o_proj.weight", back, d, h)
		if c.AttentionBias && !t.freeOut {
			l.add("attn.out", n+"self_attn.o_proj.bias", Init{}, d)
		}
		if t.sandwich {
			l.add("attn.post.norm", norms[1]+".weight", one, d)
		}
		l.add("mlp.norm", norms[2]+".weight", one, d)
		if c.mixes(l.layer) {
			t.listExperts(l, c, n+t.mixture)
		} else {
			t.listMLP(l, c, n+"mlp.")
		}
		if t.sandwich {
			l.add("mlp.post.norm", norms[3]+".weight", one, d)
		}
	}
	l.layer = graph.Outside
	l.add("norm", "model.norm.weight", one, d)
	if !c.TieWordEmbeddings {
		l.add("head", "lm_head.weight", std, c.VocabSize, d)
	}
}

func (t traits) listMLP(l *lister, c Config, n string) {
	d, f := c.HiddenSize, c.IntermediateSize
	std, back, _ := c.starts()
	for i, x := range []string{"gate_proj", "up_proj"} {
		if t.fused {
			l.within("mlp.up", n+x+".weight", n+"gate_up_proj.weight", std, i*f, 2*f, f, d)
		} else {
			l.add("mlp.up", n+x+".weight", std, f, d)
		}
		if c.MLPBias {
			l.add("mlp.up", n+x+".bias", Init{}, f)
		}
	}
	l.add("mlp.down", n+"down_proj.weight", back, d, f)
	if c.MLPBias {
		l.add("mlp.down", n+"down_proj.bias", Init{}, d)
	}
}

func (t traits) listExperts(l *lister, c Config, n string) {
	if t.clamped {
		l.clampedExperts(c, n)
		return
	}
	d, f, e := c.HiddenSize, c.IntermediateSize, c.NumLocalExperts
	if c.MoEIntermediateSize > 0 {
		f = c.MoEIntermediateSize
	}
	std, back, _ := c.starts()
	l.add("moe.router", n+"gate.weight", std, e, d)
	l.experts("moe.experts.up", n+"experts.", t.expertsIn[0], std, e, f, d)
	l.experts("moe.experts.up", n+"experts.", t.expertsIn[1], std, e, f, d)
	l.experts("moe.experts.down", n+"experts.", t.expertsIn[2], back, e, d, f)
}
