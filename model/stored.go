package model

import (
	"fmt"
	"strings"

	"loadline/graph"
	"loadline/tensor/dtype"
)

// CheckTypes reports the first weight that cannot be served as types say it is stored: matrices in f32 (as those are that are absent),
// f16, bf16 or a block type, what has one axis in f32.
func (c Config) CheckTypes(types map[string]dtype.Type) error {
	for _, p := range c.Parameters() {
		t := types[p.Name]
		n := p.Type.Shape.Last()
		switch {
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

// stored declares how the weights are stored.
func (d *decoder) stored(types map[string]dtype.Type) {
	for _, p := range d.c.Parameters() {
		d.Stored(d.w(p.Name), types[p.Name])
	}
}

// Embedding appends a table look-up, whose rows are f32 however the table is stored.
func (d *decoder) Embedding(tokens, table graph.Value) graph.Value {
	return d.EmbeddingF32(tokens, table)
}
