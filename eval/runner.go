package eval

import (
	"errors"
	"fmt"
	"unsafe"

	"loadline/device"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model"
)

// Source fills p with the next bytes of the weight named state, little-endian and in order. Weights come one after the
// other, in the order of model.Config.Parameters.
type Source = func(state string, p []byte) error

// Runner is one sequence in the memory of a job. It is not safe for concurrent use.
type Runner struct {
	job     *Job
	ledger  *mem.Ledger
	session device.Session
	runtime *mem.Reservation
	arena   *arena.Arena

	logits []float32 // one row
	ints   []int32
	window []int32 // for Perplexity

	at   int // tokens of the sequence that are computed. Invariant: 0 <= at <= Context
	outs int // rows of the last pass that have logits
}

// New reserves the job's memory in env.Ledger and loads the weights. dev must be the one that the job was planned for.
func New(j *Job, dev device.Device, env device.Env, weights Source) (_ *Runner, err error) {
	o := &j.Options
	r := &Runner{job: j, ledger: env.Ledger}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if r.runtime, err = env.Ledger.Reserve(mem.Host, mem.Runtime, o.Runtime); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	b := o.buffers()
	if r.arena, err = arena.New(env.Ledger, mem.Host, b.parts()[mem.Host]); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	memory := r.arena.Bytes()
	r.logits = arena.F32(memory[:b.logits])[:o.Config.VocabSize]
	r.ints = arena.I32(memory[b.logits:][:b.ints])
	r.window = arena.I32(memory[b.logits+b.ints:][:b.window])[:o.Context]
	session, err := dev.Open(j.Job, env)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	r.session = session
	if err = r.session.Run(loadProgram, device.Args{Source: weights}); err != nil {
		return nil, fmt.Errorf("eval: load weights: %w", err)
	}
	return r, r.static()
}

// static writes the inputs that never change: every row is of sequence 0, whose blocks lie in order.
func (r *Runner) static() error {
	o := &r.job.Options
	s := r.ints[:o.Chunk]
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
		return fmt.Errorf("eval: %w", err)
	}
	return nil
}

// Job returns what the runner was made from.
func (r *Runner) Job() *Job { return r.job }

// Reset begins the sequence anew.
func (r *Runner) Reset() { r.at, r.outs = 0, 0 }

// Forward computes the next tokens of the sequence, in as many passes as their chunks are. The last outs of them, which the last chunk
// must hold, have logits then, for Logits; 0 wants none.
func (r *Runner) Forward(tokens []int32, outs int) error {
	o := &r.job.Options
	if outs < 0 || outs > min(o.Outs, len(tokens)) || outs > 0 && outs > (len(tokens)-1)%o.Chunk+1 {
		panic("eval: Forward: the last chunk does not hold the rows that are to have logits")
	}
	if len(tokens) > o.Context-r.at {
		return fmt.Errorf("eval: %d tokens and %d more are more than the context of %d", r.at, len(tokens), o.Context)
	}
	r.outs = 0
	for len(tokens) > 0 {
		n := min(len(tokens), o.Chunk)
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
		return fmt.Errorf("eval: %w", err)
	}
	r.at += n
	return nil
}

// Logits returns the logits of row i of those that the last Forward was to give, valid until the next call; the caller may change them.
func (r *Runner) Logits(i int) ([]float32, error) {
	if i < 0 || i >= r.outs {
		panic("eval: Logits: no such row")
	}
	if err := r.session.Read(model.LogitsOutput, 4*int64(i)*int64(len(r.logits)), bytesOf(r.logits)); err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	return r.logits, nil
}

// Check compares the promise with the ledger's peak.
func (r *Runner) Check() error {
	if err := r.job.Promise.Check(r.ledger.Peak()); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	return nil
}

// Close releases everything. The runner must not be used again; closing it twice does nothing more.
func (r *Runner) Close() error {
	var errs []error
	if r.session != nil {
		errs = append(errs, r.session.Close())
		r.session = nil
	}
	if r.arena != nil {
		errs = append(errs, r.arena.Close())
		r.arena = nil
	}
	if r.runtime != nil {
		r.runtime.Release()
		r.runtime = nil
	}
	return errors.Join(errs...)
}

// bytesOf is s as the device stores it: every machine that Go code here runs on is little-endian.
func bytesOf[T int32 | float32](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 4*len(s))
}
