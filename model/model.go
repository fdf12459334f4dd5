// Package model is the decoder, written once: the same code builds the graph that is trained, the one that is evaluated and
// the one that serves. Three families share it: Llama, Mixtral (its mixture of experts) and GPT-2.
//
// A Config is the geometry, in Hugging Face's config.json. Parameters lists the weights: each is one State of every graph,
// knows how it starts (Fill), and where it lies in published checkpoint files (Piece). TrainGraph, EvalGraph and PassGraph
// build graphs; Attention, MLP and MoE are their sub-blocks, for a model of one's own on the public graph.Builder.
//
// Invariants: the States of all graphs of one Config agree in name and type, so the programs of a job share them. A row of a
// pass goes through the operations that a row of training goes through; only where keys and values lie differs. Every
// operation carries the layer and part that recompute policies and reports speak of. Building is deterministic.
//
// It holds no weights, reads no tensors (see safetensors) and runs nothing.
//
// Shapes use graph's legend: N rows, D model width, F feed-forward width, H heads, G key/value heads, K head width, V vocabulary,
// E experts, S key/value slots, O rows that need logits.
//
// Sources: Llama 2, arXiv 2307.09288; Mixtral, arXiv 2401.04088; GPT-2, Radford et al. 2019; names and defaults as in
// transformers 5.
package model

import (
	"fmt"

	"loadline/graph"
)

// decoder builds the layers that all graphs share.
type decoder struct {
	*graph.Builder
	c         Config
	weights   map[string]graph.Value
	tokens    graph.Value // i32 (N)
	positions graph.Value // i32 (N)
	paging    graph.Paging
	spec      graph.AttentionSpec
	standard  bool
	drop      Map                                                         // nil without dropout
	store     func(layer int) func(k, v graph.Value) (pk, pv graph.Value) // nil in training
}

// newDecoder starts a graph and declares the weights, in the order of Parameters.
func newDecoder(c Config, name string, bounds graph.Bounds, s graph.AttentionSpec) *decoder {
	d := &decoder{Builder: graph.NewBuilder(name, bounds), c: c, weights: map[string]graph.Value{}, spec: s}
	d.spec.Heads, d.spec.KVHeads, d.spec.HeadDim = c.NumHeads, c.NumKVHeads, c.HeadDim
	for _, p := range c.Parameters() {
		d.Part(p.Layer, p.Part, func() { d.weights[p.Name] = d.Param(p.Name, p.Type) })
	}
	return d
}

// w is the weight named name.
func (d *decoder) w(name string) graph.Value {
	v, ok := d.weights[name]
	if !ok {
		panic("model: no parameter " + name)
	}
	return v
}

// matmul is a projection without bias.
func (d *decoder) matmul(name string) Map {
	return func(x graph.Value) graph.Value { return d.MatMul(x, d.w(name)) }
}

// linear is a projection with bias.
func (d *decoder) linear(name string) Map {
	return func(x graph.Value) graph.Value { return d.Linear(x, d.w(name+".weight"), d.w(name+".bias")) }
}

// norm is the norm of the family; name is without ".weight".
func (d *decoder) norm(name string) Map {
	if d.c.ModelType == GPT2 {
		return func(x graph.Value) graph.Value {
			return d.LayerNorm(x, d.w(name+".weight"), d.w(name+".bias"), float32(d.c.LayerNormEps))
		}
	}
	return func(x graph.Value) graph.Value { return d.RMSNorm(x, d.w(name+".weight"), float32(d.c.RMSNormEps)) }
}

// body appends embedding and layers and returns the residual stream (N,D).
func (d *decoder) body() (x graph.Value) {
	d.Part(graph.Outside, "embed", func() {
		if d.c.ModelType == GPT2 {
			x = d.Add(d.Embedding(d.tokens, d.w("transformer.wte.weight")), d.Embedding(d.positions, d.w("transformer.wpe.weight")))
			if d.drop != nil {
				x = d.drop(x)
			}
		} else {
			x = d.Embedding(d.tokens, d.w("model.embed_tokens.weight"))
		}
		d.Name(x, "x")
	})
	for i := range d.c.NumLayers {
		if d.c.ModelType == GPT2 {
			x = d.gpt2Layer(x, i)
		} else {
			x = d.llamaLayer(x, i)
		}
	}
	return x
}

// attention fills in what all families share.
func (d *decoder) attention(layer int) AttentionOptions {
	o := AttentionOptions{Layer: layer, Drop: d.drop, Paging: d.paging, Spec: d.spec, Standard: d.standard}
	if d.store != nil {
		o.Append = d.store(layer)
	}
	return o
}

func (d *decoder) llamaLayer(x graph.Value, layer int) graph.Value {
	n := fmt.Sprintf("model.layers.%d.", layer)
	o := d.attention(layer)
	o.Norm = d.norm(n + "input_layernorm")
	o.Q, o.K, o.V = d.matmul(n+"self_attn.q_proj.weight"), d.matmul(n+"self_attn.k_proj.weight"), d.matmul(n+"self_attn.v_proj.weight")
	o.Out = d.matmul(n + "self_attn.o_proj.weight")
	o.Rotate = func(x graph.Value, heads int) graph.Value {
		return d.Rope(x, d.positions, heads, d.c.HeadDim, d.c.RopeTheta)
	}
	x = Attention(d.Builder, x, o)
	norm := d.norm(n + "post_attention_layernorm")
	if d.c.MoE() {
		n += "block_sparse_moe."
		return MoE(d.Builder, x, MoEOptions{
			Layer: layer, Norm: norm, Router: d.matmul(n + "gate.weight"), Experts: d.c.NumLocalExperts, TopK: d.c.NumExpertsPerTok,
			Gate: d.w(n + "experts.w1"), Up: d.w(n + "experts.w3"), Down: d.w(n + "experts.w2"), Act: d.gated, Drop: d.drop,
		})
	}
	return MLP(d.Builder, x, MLPOptions{
		Layer: layer, Norm: norm, Gate: d.matmul(n + "mlp.gate_proj.weight"), Up: d.matmul(n + "mlp.up_proj.weight"),
		Act: d.gated, Down: d.matmul(n + "mlp.down_proj.weight"), Drop: d.drop,
	})
}

// gated is the activation of a feed-forward with a gate.
func (d *decoder) gated(gate, up graph.Value) graph.Value {
	if d.c.HiddenAct == "silu" {
		return d.SwiGLU(gate, up)
	}
	return d.GeGLU(gate, up, d.c.HiddenAct == geluTanh)
}

func (d *decoder) gpt2Layer(x graph.Value, layer int) graph.Value {
	n := fmt.Sprintf("transformer.h.%d.", layer)
	o := d.attention(layer)
	o.Norm = d.norm(n + "ln_1")
	o.Q, o.K, o.V = d.linear(n+"attn.c_attn.q"), d.linear(n+"attn.c_attn.k"), d.linear(n+"attn.c_attn.v")
	o.Out = d.linear(n + "attn.c_proj")
	x = Attention(d.Builder, x, o)
	return MLP(d.Builder, x, MLPOptions{
		Layer: layer, Norm: d.norm(n + "ln_2"), Up: d.linear(n + "mlp.c_fc"), Down: d.linear(n + "mlp.c_proj"), Drop: d.drop,
		Act: func(_, up graph.Value) graph.Value { return d.Gelu(up, d.c.HiddenAct == "gelu_new") },
	})
}

// head appends the final norm and the logits (rows of x, V).
func (d *decoder) head(x graph.Value) (logits graph.Value) {
	norm, head := "model.norm", "lm_head.weight"
	if d.c.TieWordEmbeddings {
		head = "model.embed_tokens.weight"
	}
	if d.c.ModelType == GPT2 {
		norm = "transformer.ln_f"
		if d.c.TieWordEmbeddings {
			head = "transformer.wte.weight"
		}
	}
	d.Part(graph.Outside, "norm", func() { x = d.Name(d.norm(norm)(x), "normed") })
	d.Part(graph.Outside, "head", func() { logits = d.Name(d.MatMul(x, d.w(head)), "logits") })
	return logits
}
