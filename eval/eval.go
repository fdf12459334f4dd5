// Package eval measures models: the perplexity of a text, and, through the same Runner, the speed of the forward pass.
//
// A Runner is one sequence that goes through the serving pass in chunks, with its keys and values in blocks as the engine has them, and
// without what the engine has around: no scheduler, no sampler, no prefix cache. So what is measured is what is served.
//
//	Plan ──job──▶ New ──▶ Runner: Reset, Forward, Logits
//	                        └── Perplexity: Add tokens → windows → Score
//
// Invariants: as in the engine, every byte is planned before New, and Check compares the promise with the ledger's peak. A score does
// not depend on the chunk, the block size or the threads: a row of the pass has the same bits however many rows share it.
//
// It knows no text, reads no files and no clock; tokens come from the caller.
//
// Sources: perplexity in windows as llama.cpp's tool of that name defines it: each window begins anew with the token that begins a
// text, where the tokenizer has one, and what is scored is the second half of each.
package eval

import (
	"fmt"
	"strings"

	"loadline/cost"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/dtype"
)

// Values that options take where they are 0.
const (
	DefaultBlockSize = 16
	DefaultChunk     = 128
	DefaultRuntime   = 48 * mem.MiB
)

// Options shape a Runner.
type Options struct {
	Config model.Config
	Types  map[string]dtype.Type // how weights are stored, by the names of model.Config.Parameters; those absent in f32
	Memory mem.Bytes             // bound on the peak of the process; 0 is none

	Context   int // tokens of the sequence
	Chunk     int // rows of a pass; 0 is DefaultChunk. Never more than Context
	Outs      int // rows of a pass that may have logits; 0 is Chunk. Never more than Chunk
	BlockSize int // tokens in a KV block; 0 is DefaultBlockSize

	Runtime mem.Bytes // reserved for the Go runtime and what the caller keeps on its heap; 0 is DefaultRuntime

	Machine cost.Machine // what modelled times are for; the zero value is cost.Laptop2
}

// filled returns o with defaults in the place of zeros.
func (o Options) filled() Options {
	set := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	set(&o.BlockSize, DefaultBlockSize)
	set(&o.Chunk, DefaultChunk)
	o.Chunk = min(o.Chunk, o.Context)
	set(&o.Outs, o.Chunk)
	o.Outs = min(o.Outs, o.Chunk)
	if o.Runtime == 0 {
		o.Runtime = DefaultRuntime
	}
	if o.Machine == (cost.Machine{}) {
		o.Machine = cost.Laptop2()
	}
	return o
}

// Validate reports the first option that cannot be. Zeros that stand for defaults are fine.
func (o Options) Validate() error {
	if err := o.Config.Validate(); err != nil {
		return err
	}
	o = o.filled()
	for _, f := range []struct {
		name string
		n    int
	}{{"context", o.Context}, {"chunk", o.Chunk}, {"outs", o.Outs}, {"block size", o.BlockSize}} {
		if f.n < 1 || f.n > 1<<30 {
			return fmt.Errorf("eval: %s %d: want 1 to %d", f.name, f.n, 1<<30)
		}
	}
	switch {
	case o.Context > o.Config.MaxPositionEmbeddings:
		return fmt.Errorf("eval: context %d: the model has %d positions", o.Context, o.Config.MaxPositionEmbeddings)
	case o.Memory < 0 || o.Runtime < 0:
		return fmt.Errorf("eval: memory %d, runtime %d: want at least 0", o.Memory, o.Runtime)
	}
	if err := o.pass().Validate(o.Config); err != nil {
		return fmt.Errorf("eval: %s", strings.TrimPrefix(err.Error(), "model: "))
	}
	return nil
}

// width is the number of blocks of the sequence.
func (o Options) width() int { return (o.Context + o.BlockSize - 1) / o.BlockSize }

// pass is the shape of the pass program.
func (o Options) pass() model.PassOptions {
	return model.PassOptions{
		Name: passProgram, MaxRows: o.Chunk, MaxOuts: o.Outs, MaxSeqs: 1, Blocks: o.width(), BlockSize: o.BlockSize, Context: o.Context,
		Types: o.Types,
	}
}
