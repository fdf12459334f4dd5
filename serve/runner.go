package serve

import (
	"errors"
	"fmt"

	"loadline/device"
	"loadline/mem/arena"
	"loadline/model"
)

// Runner is one sequence that goes through the pass in chunks: what the engine does, without what decides and chooses. It has the memory
// that an engine of its job has. It is not safe for concurrent use.
type Runner struct {
	held

	logits []float32 // one row
	ints   []int32   // what the inputs of a pass, and the table, are made in

	at   int // tokens of the sequence that are computed. Invariant: 0 <= at <= Context
	outs int // rows of the last pass that have logits
}

// NewRunner reserves the job's memory in env.Ledger and loads the weights. The job is of one sequence; dev must be the one that it was
// planned for.
func NewRunner(j *Job, dev device.Device, env device.Env, weights Source) (_ *Runner, err error) {
	if j.Options.MaxSeqs != 1 || j.Options.Blocks < j.Options.width() {
		return nil, errors.New("serve: NewRunner: want the job of one sequence")
	}
	r := &Runner{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if err = r.reserve(j, env.Ledger); err != nil {
		return nil, err
	}
	b, memory := j.Options.buffers(), r.arena.Bytes()
	r.logits = arena.F32(memory[:b.logits])[:j.Options.Config.VocabSize]
	memory = memory[b.logits+b.copies+b.sampler+b.pool:]
	r.ints = arena.I32(memory[:b.sched]) // the arrays of a pass: more than the longest input
	if err = r.load(dev, env, weights); err != nil {
		return nil, err
	}
	if err = r.static(); err != nil {
		return nil, err
	}
	return r, nil
}

// static writes the inputs that never change: every row is of sequence 0, whose blocks lie in order.
func (r *Runner) static() error {
	o := &r.job.Options
	s := r.ints[:o.PrefillChunk]
	clear(s)
	if err := r.write(model.SequencesInput, s); err != nil {
		return err
	}
	s = r.ints[:o.width()]
	for i := range s {
		s[i] = int32(i)
	}
	return r.write(model.TableInput, s)
}

// write sets an input.
func (r *Runner) write(name string, values []int32) error {
	if err := r.session.Write(name, 0, bytesOf(values)); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Reset begins the sequence anew.
func (r *Runner) Reset() { r.at, r.outs = 0, 0 }

// Forward computes the next tokens of the sequence, in as many passes as their chunks are. The last outs of them, which the last chunk
// must hold, have logits then, for Logits; 0 wants none.
func (r *Runner) Forward(tokens []int32, outs int) error {
	o := &r.job.Options
	if outs < 0 || outs > min(o.maxOuts(), len(tokens)) || outs > 0 && outs > (len(tokens)-1)%o.PrefillChunk+1 {
		panic("serve: Forward: the last chunk does not hold the rows that are to have logits")
	}
	if len(tokens) > o.Context-r.at {
		return fmt.Errorf("serve: %d tokens and %d more are more than the context of %d", r.at, len(tokens), o.Context)
	}
	r.outs = 0
	for len(tokens) > 0 {
		n := min(len(tokens), o.PrefillChunk)
		want := 0
		if n == len(tokens) {
			want = outs
		}
		if err := r.pass(tokens[:n], want); err != nil {
			return err
		}
		tokens = tokens[n:]
	}
	r.outs = outs
	return nil
}

// pass computes one chunk.
func (r *Runner) pass(tokens []int32, outs int) error {
	if err := r.write(model.TokensInput, tokens); err != nil {
		return err
	}
	n := len(tokens)
	s := r.ints[:n]
	for i := range s {
		s[i] = int32(r.at + i)
	}
	// A position's slot is the position: blocks lie in order.
	if err := errors.Join(r.write(model.PositionsInput, s), r.write(model.SlotsInput, s)); err != nil {
		return err
	}
	// The head runs on at least one row; where none is wanted nobody reads what it makes of the last.
	s = r.ints[:max(outs, 1)]
	for i := range s {
		s[i] = int32(n - len(s) + i)
	}
	if err := r.write(model.RowsInput, s); err != nil {
		return err
	}
	if err := r.session.Run(passProgram, device.Args{Rows: n, Outs: len(s)}); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	r.at += n
	return nil
}

// Logits returns the logits of row i of those that the last Forward was to give, valid until the next call; the caller may change them.
func (r *Runner) Logits(i int) ([]float32, error) {
	if i < 0 || i >= r.outs {
		panic("serve: Logits: no such row")
	}
	if err := r.session.Read(model.LogitsOutput, 4*int64(i)*int64(len(r.logits)), bytesOf(r.logits)); err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	return r.logits, nil
}
