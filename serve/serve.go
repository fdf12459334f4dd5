// Package serve generates text: one engine that runs any number of requests together in passes of the model, inside a
// memory limit. `generate` is the engine with one request; so will be a server's handler, with many.
//
//	Plan ──job──▶ New ──▶ Add … ──▶ Step: schedule → run → sample → commit → promise against fact ──▶ events
//
// Plan is pure: it builds the programs "load" (weights from their source) and "pass" (rows of any mix of sequences), and
// promises a peak to the byte, or says with numbers what does not fit and what would. New reserves all of it, so nothing
// is left that could fail for memory later. Keys and values lie in blocks (kvcache); which rows run is sched's; which
// token comes next is sample's.
//
// Invariants: the tokens of a request depend on its prompt, its parameters and the weights alone, not on block size,
// chunks, batch-mates, preemption or what was cached. Between calls no pass is in flight. In steady state Step allocates
// next to nothing; every buffer that grows with an option is in the plan.
//
// A Runner is the same pass without scheduler and sampler: one sequence, whose logits its caller reads. It measures models.
//
// An engine is not safe for concurrent use. It knows no text, reads no files and reads no clock.
//
// Sources: Orca (Yu et al., OSDI 2022) and PagedAttention (Kwon et al. 2023, arXiv 2309.06180).
package serve

import (
	"fmt"
	"strings"

	"loadline/cost"
	"loadline/mem"
	"loadline/model"
	"loadline/serve/kvcache"
	"loadline/serve/sched"
	"loadline/tensor/dtype"
)

// Values that options take where they are 0.
const (
	DefaultBlockSize    = 16
	DefaultPrefillChunk = 128
	DefaultRuntime      = 48 * mem.MiB
)

// Options shape an engine.
type Options struct {
	Config model.Config
	Memory mem.Bytes // bound on the peak of the process; 0 is none

	Context      int // tokens of the longest sequence, its new ones included
	MaxSeqs      int // sequences at a time; 0 is 1
	BlockSize    int // tokens in a KV block; 0 is DefaultBlockSize
	PrefillChunk int // rows of one sequence in one pass; 0 is DefaultPrefillChunk. Never more than Context
	Outs         int // rows of a pass that may have logits, for a Runner; 0 is MaxSeqs. Never more than a pass has
	Blocks       int // KV blocks; 0 takes what MaxSeqs sequences of Context tokens need, or as many as Memory allows

	Types map[string]dtype.Type // how weights are stored, by the names of model.Config.Parameters; those absent in f32

	KVTypes [2]dtype.Type // what keys and values are stored in, each one of graph.KVTypes; the zero value is f32

	NoCache  bool      // do not keep blocks for later requests with the same prefix
	HashSeed uint64    // a secret keeps clients from aiming prompts at one bucket of the prefix cache
	Runtime  mem.Bytes // reserved for the Go runtime and what the caller keeps on its heap; 0 is DefaultRuntime

	Machine cost.Machine // what modelled times are for; the zero value is cost.Laptop2

	InMemory bool      // refuse what does not fit rather than read weights again for every pass
	Stream   bool      // Plan's: weights are read again for every pass
	Resident mem.Bytes // Plan's: of these, what stays in memory at most, norms and biases aside
}

// filled returns o with defaults in the place of zeros.
func (o Options) filled() Options {
	set := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	set(&o.MaxSeqs, 1)
	set(&o.BlockSize, DefaultBlockSize)
	set(&o.PrefillChunk, DefaultPrefillChunk)
	o.PrefillChunk = min(o.PrefillChunk, o.Context)
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
		name   string
		n, min int
	}{{"context", o.Context, 1}, {"sequences", o.MaxSeqs, 1}, {"block size", o.BlockSize, 1}, {"prefill chunk", o.PrefillChunk, 1}, {"outs", o.Outs, 0}, {"blocks", o.Blocks, 0}} {
		if f.n < f.min || f.n > 1<<30 {
			return fmt.Errorf("serve: %s %d: want %d to %d", f.name, f.n, f.min, 1<<30)
		}
	}
	switch {
	case o.Context > o.Config.MaxPositionEmbeddings:
		return fmt.Errorf("serve: context %d: the model has %d positions", o.Context, o.Config.MaxPositionEmbeddings)
	case o.Memory < 0 || o.Runtime < 0:
		return fmt.Errorf("serve: memory %d, runtime %d: want at least 0", o.Memory, o.Runtime)
	case o.Blocks > 0 && o.Blocks < o.width():
		return fmt.Errorf("serve: %d blocks of %d tokens do not hold one sequence of %d: want at least %d", o.Blocks, o.BlockSize, o.Context, o.width())
	}
	pass := o.pass()
	if pass.Blocks == 0 {
		pass.Blocks = o.MaxSeqs * o.width() // what Plan tries first
	}
	if err := pass.Validate(o.Config); err != nil {
		return fmt.Errorf("serve: %s", strings.TrimPrefix(err.Error(), "model: "))
	}
	return nil
}

// width is the number of blocks of the longest sequence.
func (o Options) width() int { return (o.Context + o.BlockSize - 1) / o.BlockSize }

// maxRows is the number of tokens in a pass: every sequence can decode.
func (o Options) maxRows() int { return max(o.PrefillChunk, o.MaxSeqs) }

// maxOuts is the number of rows of a pass that may have logits.
func (o Options) maxOuts() int { return min(max(o.Outs, o.MaxSeqs), o.maxRows()) }

// maxCopies is the number of block copies before a pass. Only forked sequences copy, and a sequence alone has nobody to
// share with.
func (o Options) maxCopies() int {
	if o.MaxSeqs == 1 {
		return 0
	}
	return o.MaxSeqs
}

// pass is the shape of the pass program.
func (o Options) pass() model.PassOptions {
	return model.PassOptions{
		Name: passProgram, MaxRows: o.maxRows(), MaxOuts: o.maxOuts(), MaxSeqs: o.MaxSeqs,
		Blocks: o.Blocks, BlockSize: o.BlockSize, Context: o.Context, MaxCopies: o.maxCopies(), Types: o.Types,
		KVTypes: o.KVTypes,
	}
}

// pool is the shape of the pool's index, without its buffer.
func (o Options) pool() kvcache.Options {
	return kvcache.Options{Blocks: o.Blocks, BlockSize: o.BlockSize, Cache: !o.NoCache, HashSeed: o.HashSeed}
}

// sched is the shape of the scheduler, without pool and buffer.
func (o Options) sched() sched.Options {
	return sched.Options{
		MaxRows: o.maxRows(), MaxSeqs: o.MaxSeqs, MaxOuts: o.MaxSeqs, PrefillChunk: o.PrefillChunk, MaxBlocks: o.width(),
	}
}
