package model

import (
	"fmt"
	"strings"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// OrderSuffix is behind a weight's name in that of the State, i32 (inputs), which says in what order it has its inputs: input i of what is
// stored meets element order[i] of a row. Types name it as i32 where there is one: of a weight (outputs, inputs) of a block type.
const OrderSuffix = ".order"

// CheckTypes reports the first weight that cannot be served as types say it is stored: matrices in f32 (as those are that are absent),
// f16, bf16 or a block type, what has one axis in f32.
func (c Config) CheckTypes(types map[string]dtype.Type) error {
	for _, p := range c.Parameters() {
		t := types[p.Name]
		n := p.Type.Shape.Last()
		o, ordered := types[p.Name+OrderSuffix]
		switch {
		case ordered && (o != dtype.I32 || !t.Block() || p.Type.Shape.N != 2 || p.Part == embedPart):
			return fmt.Errorf("model: %s, stored as %v, has inputs in an order of %v: want i32, of a matrix of a block type", p.Name, t, o)
		case t == dtype.F32:
		case !p.Matrix():
			return fmt.Errorf("model: %s, which is no matrix, is stored as %v: want f32", p.Name, t)
		case t != dtype.F16 && t != dtype.BF16 && !t.Block():
			return fmt.Errorf("model: %s is stored as %v: want f32, f16, bf16 or a block type", p.Name, t)
		case n%t.BlockElems() != 0:
			return fmt.Errorf("model: %s has rows of %d, stored as %v: want a multiple of %d", p.Name, n, t, t.BlockElems())
		}
	}
	return nil
}

// Matrix tells whether a weight is a matrix, or one for each expert, that rows are multiplied by or looked up in: what may be stored in
// another type than f32. Norms and biases, those of experts among them, are not.
func (p Param) Matrix() bool { return p.Type.Shape.N >= 2 && !strings.HasSuffix(p.Name, "bias") }

// embedPart is the part of what tokens are looked up in.
const embedPart = "embed"

// stored declares how the weights are stored.
func (d *decoder) stored(types map[string]dtype.Type) {
	for _, p := range d.c.Parameters() {
		d.Stored(d.w(p.Name), types[p.Name])
		if _, ok := types[p.Name+OrderSuffix]; ok {
			d.Part(p.Layer, p.Part, func() {
				d.orders[p.Name] = d.State(p.Name+OrderSuffix, graph.I(graph.D(p.Type.Shape.Last())), mem.Weights)
			})
		}
	}
}

// Embedding appends a table look-up, whose rows are f32 however the table is stored.
func (d *decoder) Embedding(tokens, table graph.Value) graph.Value {
	return d.EmbeddingF32(tokens, table)
}
