package model

import (
	"fmt"
	"slices"

	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
)

// Names of what only a serving pass has.
const (
	SlotsInput   = "slots"  // i32 (N): where the row's key and value go; negative keeps neither
	RowsInput    = "rows"   // i32 (O): the rows that need logits
	CopiesInput  = "copies" // i32 (MaxCopies,2): (source, destination) blocks, copied first; a negative source ends the list
	LogitsOutput = "logits" // f32 (O,V)
)

// PoolNames are the States that hold a layer's keys and values.
func PoolNames(layer int) (k, v string) {
	return fmt.Sprintf("kv.%d.k", layer), fmt.Sprintf("kv.%d.v", layer)
}

// PassOptions shape a serving pass.
type PassOptions struct {
	Name      string
	MaxRows   int // tokens in a pass
	MaxOuts   int // rows that need logits
	MaxSeqs   int // sequences in a pass
	Blocks    int // KV blocks in each pool
	BlockSize int // tokens a block
	Context   int // tokens of the longest sequence
	MaxCopies int // block copies before a pass; 0 leaves the input out

	Types map[string]dtype.Type // how weights are stored, by name; those absent in f32

	KVTypes [2]dtype.Type // what keys and values are stored in, each one of graph.KVTypes; the zero value is f32
}

// TableWidth is the number of blocks that the longest sequence has.
func (o PassOptions) TableWidth() int { return (o.Context + o.BlockSize - 1) / o.BlockSize }

// Validate reports what cannot be built for c.
func (o PassOptions) Validate(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name        string
		n, min, max int
	}{
		{"rows", o.MaxRows, 1, maxRows},
		{"outs", o.MaxOuts, 1, o.MaxRows},
		{"sequences", o.MaxSeqs, 1, o.MaxRows},
		{"blocks", o.Blocks, 1, 1 << 30},
		{"block size", o.BlockSize, 1, 1 << 20},
		{"context", o.Context, 1, 1 << 30},
		{"copies", o.MaxCopies, 0, 1 << 20},
	} {
		if f.n < f.min || f.n > f.max {
			return fmt.Errorf("model: %s %d: want %d to %d", f.name, f.n, f.min, f.max)
		}
	}
	for _, t := range o.KVTypes {
		if !slices.Contains(graph.KVTypes(), t) {
			return fmt.Errorf("model: keys or values of type %v: want one of %v", t, graph.KVTypes())
		}
		if n := t.BlockElems(); c.HeadDim%n != 0 {
			return fmt.Errorf("model: keys or values of type %v: heads of %d are no whole blocks of %d", t, c.HeadDim, n)
		}
	}
	if slots := int64(o.Blocks) * int64(o.BlockSize); slots >= 1<<31 {
		return fmt.Errorf("model: %d key/value slots: want less than 2³¹", slots)
	}
	if err := c.CheckTypes(o.Types); err != nil {
		return err
	}
	if c.ModelType == GPT2 && o.Context > c.MaxPositionEmbeddings {
		return fmt.Errorf("model: context %d: the model has %d positions", o.Context, c.MaxPositionEmbeddings)
	}
	return nil
}

// PassGraph builds one forward of a server: rows of any mix of sequences, prefill and decode alike. In each layer it copies
// blocks, appends the rows' keys and values to the pools, and then attends through the table. Only Outs rows reach the final
// norm and the head.
func PassGraph(c Config, o PassOptions) (*graph.Graph, error) {
	if err := o.Validate(c); err != nil {
		return nil, err
	}
	spec := graph.AttentionSpec{Block: o.BlockSize, Context: o.Context}
	d := newDecoder(c, o.Name, graph.Bounds{Rows: o.MaxRows, Outs: o.MaxOuts}, spec)
	d.stored(o.Types)
	pool := graph.S(graph.D(o.Blocks*o.BlockSize), graph.D(c.NumKVHeads*c.HeadDim)) // (S,G·K)
	pools := make([][2]graph.Value, c.NumLayers)
	for i := range pools {
		d.Part(i, "attn.append", func() {
			k, v := PoolNames(i)
			pools[i] = [2]graph.Value{
				d.State(k, graph.Type{DType: o.KVTypes[0], Shape: pool}, mem.KVBlocks), d.State(v, graph.Type{DType: o.KVTypes[1], Shape: pool}, mem.KVBlocks),
			}
		})
	}
	d.tokens = d.Input(TokensInput, graph.I(graph.R(1)))
	d.inputs(o.MaxSeqs, o.TableWidth())
	slots := d.Input(SlotsInput, graph.I(graph.R(1)))
	rows := d.Input(RowsInput, graph.I(graph.O(1)))
	copies := graph.None
	if o.MaxCopies > 0 {
		copies = d.Input(CopiesInput, graph.I(graph.D(o.MaxCopies), graph.D(2)))
	}
	d.store = func(layer int) func(k, v graph.Value) (pk, pv graph.Value) {
		return func(k, v graph.Value) (pk, pv graph.Value) {
			pk, pv = pools[layer][0], pools[layer][1]
			if copies != graph.None {
				pk, pv = d.KVCopy(pk, copies, o.BlockSize), d.KVCopy(pv, copies, o.BlockSize)
			}
			return d.KVAppend(pk, k, slots), d.KVAppend(pv, v, slots)
		}
	}
	x := d.body()
	d.Part(graph.Outside, "select", func() { x = d.Name(d.SelectRows(x, rows), "selected") }) // (O,D)
	d.Output(LogitsOutput, d.head(x))
	return d.G, nil
}
