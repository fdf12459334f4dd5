// Package model is the decoder, written once: the same code builds the graph that is trained, the one that is evaluated and
// the one that serves. Families (Llama, Qwen, Gemma, …; one file each) are values: how config.json is read, weights, a layer.
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
// Sources: as each family's file says; names and defaults as in transformers 5.
package model

import "loadline/graph"

// decoder builds the layers that all graphs share.
type decoder struct {
	*graph.Builder
	c         Config
	f         family
	weights   map[string]graph.Value
	orders    map[string]graph.Value // i32 (K): the orders of the inputs of weights that have one
	tokens    graph.Value            // i32 (N)
	positions graph.Value            // i32 (N)
	paging    graph.Paging
	spec      graph.AttentionSpec
	standard  bool
	drop      Map                                                         // nil without dropout
	store     func(layer int) func(k, v graph.Value) (pk, pv graph.Value) // nil in training
}

// newDecoder starts a graph and declares the weights, in the order of Parameters.
func newDecoder(c Config, name string, bounds graph.Bounds, s graph.AttentionSpec) *decoder {
	d := &decoder{Builder: graph.NewBuilder(name, bounds), c: c, f: c.family(), weights: map[string]graph.Value{}, orders: map[string]graph.Value{}, spec: s}
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

// linear is a projection, with bias where the model has one; name is without ".weight".
func (d *decoder) linear(name string) Map {
	bias, ok := d.weights[name+".bias"]
	if !ok {
		bias = graph.None
	}
	return func(x graph.Value) graph.Value { return d.product(x, name+".weight", bias) }
}

// product is x times the weight named name, whose inputs may lie in an order of their own, plus a bias, which may be None.
func (d *decoder) product(x graph.Value, name string, bias graph.Value) graph.Value {
	if order, ok := d.orders[name]; ok {
		x = d.SelectColumns(x, order)
	}
	return d.Linear(x, d.w(name), bias)
}

// body appends embedding and layers and returns the residual stream (N,D).
func (d *decoder) body() (x graph.Value) {
	d.Part(graph.Outside, embedPart, func() { x = d.Name(d.f.embed(d), "x") })
	for i := range d.c.NumLayers {
		x = d.f.layer(d, x, i)
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

// gated is the activation of a feed-forward with a gate.
func (d *decoder) gated(gate, up graph.Value) graph.Value {
	if d.c.HiddenAct == "silu" {
		return d.SwiGLU(gate, up)
	}
	return d.GeGLU(gate, up, d.c.HiddenAct == geluTanh)
}

// head appends the final norm and the logits (rows of x, V).
func (d *decoder) head(x graph.Value) (logits graph.Value) {
	head := "lm_head.weight"
	if d.c.TieWordEmbeddings {
		head = d.f.table
	}
	d.Part(graph.Outside, "norm", func() { x = d.Name(d.f.norm(d, d.f.last)(x), "normed") })
	d.Part(graph.Outside, "head", func() {
		logits = d.product(x, head, graph.None)
		if d.c.FinalLogitSoftcapping > 0 {
			logits = d.SoftCap(logits, d.c.FinalLogitSoftcapping)
		}
		d.Name(logits, "logits")
	})
	return logits
}
