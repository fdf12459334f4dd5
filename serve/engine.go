package serve

import (
	"errors"
	"fmt"

	"loadline/device"
	"loadline/model"
	"loadline/serve/kvcache"
	"loadline/serve/sample"
	"loadline/serve/sched"
)

// Source fills p with the next bytes of the weight named state, little-endian and in order; after its last byte comes its first
// again. New asks for weights one after the other, in the order of model.Config.Parameters. Those that are read again for every pass are asked for
// whole, one at a time and never during New, but from more than one goroutine.
type Source = func(state string, p []byte) error

// Request is what a client asks for.
type Request struct {
	ID        string        // names the request; unique among those not done
	Prompt    []int32       // at least one token; read until the request is done
	Params    sample.Params // how tokens are chosen; the zero value is greedy
	MaxTokens int           // new tokens of each sample, at least 1
	Stop      []int32       // a sample ends with the first of these tokens
	N         int           // samples; 0 is 1
}

// ContextError says that a request is longer than a sequence may be.
type ContextError struct {
	ID                   string
	Prompt, New, Context int // tokens
}

// Error implements error.
func (e *ContextError) Error() string {
	return fmt.Sprintf("serve: request %q: %d prompt tokens and %d new ones are more than the context of %d", e.ID, e.Prompt, e.New, e.Context)
}

// Kind says what an Event tells.
type Kind uint8

// The kinds of events.
const (
	Token     Kind = iota // a sample got a token
	Preempted             // a sample lost its blocks and will compute its tokens again
	Failed                // the request ended with an error; none of its samples goes on
)

// Event tells what happened to a sample of a request.
type Event struct {
	ID       string
	Index    int // of the sample, from 0
	Kind     Kind
	Token    int32                 // for Token
	Logprob  float32               // for Token, if asked for
	Top      []sample.TokenLogprob // for Token, if asked for; valid until the next Step
	Finished sched.Reason          // for Token, when it was the sample's last
	Cached   int                   // prompt tokens that were found in the prefix cache
	Err      error                 // for Failed
}

// Stats are an engine's counts since New; Sched and Pool also tell how things stand now.
type Stats struct {
	Passes, Rows, Tokens int64 // passes run, tokens computed in them, tokens sampled
	Sched                sched.Stats
	Pool                 kvcache.Stats
}

// Engine runs requests. See the package comment.
type Engine struct {
	held

	pool    *kvcache.Pool
	sched   *sched.Scheduler
	sampler *sample.Sampler
	logits  []float32 // one row
	copies  []int32   // pairs; empty if there is nothing to share

	active map[string]*active
	stats  Stats

	// Of the last step, kept for their memory.
	next    []int32
	choices []sample.Choice
	tops    []sample.TokenLogprob
	events  []Event
}

// active is a request that is not done.
type active struct {
	params sample.Params
	left   int // samples
}

// New reserves the job's memory in env.Ledger and loads the weights. dev must be the one that the job was planned for.
func New(j *Job, dev device.Device, env device.Env, weights Source) (_ *Engine, err error) {
	e := &Engine{active: map[string]*active{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if err = e.reserve(j, env.Ledger); err != nil {
		return nil, err
	}
	if err = e.carve(e.arena.Bytes()); err != nil {
		return nil, err
	}
	n := j.Options.MaxSeqs
	e.next, e.choices, e.events = make([]int32, 0, n), make([]sample.Choice, 0, n), make([]Event, 0, 2*n) //mem:ok a few words a sequence of a pass, in the Runtime line
	if err = e.load(dev, env, weights); err != nil {
		return nil, err
	}
	return e, nil
}

// Add queues a request. What can never run is refused with a *ContextError or a *sched.LimitError.
func (e *Engine) Add(r Request) error {
	vocab := e.job.Options.Config.VocabSize
	if err := r.Params.Validate(vocab); err != nil {
		return fmt.Errorf("serve: request %q: %w", r.ID, err)
	}
	for i, tok := range r.Prompt {
		if tok < 0 || int(tok) >= vocab {
			return fmt.Errorf("serve: request %q: prompt token %d is %d: want 0 to %d", r.ID, i, tok, vocab-1)
		}
	}
	if c := e.job.Options.Context; r.MaxTokens > c-len(r.Prompt) {
		return &ContextError{ID: r.ID, Prompt: len(r.Prompt), New: r.MaxTokens, Context: c}
	}
	err := e.sched.Add(sched.Request{ID: r.ID, Prompt: r.Prompt, MaxTokens: r.MaxTokens, Stop: r.Stop, N: r.N})
	if err == nil {
		e.active[r.ID] = &active{params: r.Params, left: max(r.N, 1)}
	}
	return err
}

// Cancel ends a request without an event, and reports whether there was such a request.
func (e *Engine) Cancel(id string) bool {
	delete(e.active, id)
	return e.sched.Cancel(id)
}

// Idle reports whether there is nothing to do until the next Add.
func (e *Engine) Idle() bool { return e.sched.Idle() }

// Step runs one pass and returns what happened; the events are valid until the next Step. An idle engine returns none.
// After an error of the device every request still stands, and the next Step tries again.
func (e *Engine) Step() ([]Event, error) {
	clear(e.events)
	e.events = e.events[:0]
	p := e.sched.Schedule()
	if p.Empty() {
		return nil, nil
	}
	if err := e.run(p); err != nil {
		e.sched.Abort()
		return nil, err
	}
	if err := e.sample(p); err != nil {
		e.sched.Abort()
		return e.events, err
	}
	e.stats.Passes++
	e.stats.Rows += int64(len(p.Tokens))
	e.report(p, e.sched.Commit(p, e.next))
	return e.events, e.Check()
}

// run computes the pass.
func (e *Engine) run(p sched.Pass) error {
	inputs := [...]struct {
		name   string
		values []int32
	}{
		{model.TokensInput, p.Tokens}, {model.PositionsInput, p.Positions}, {model.SequencesInput, p.RowSeq},
		{model.SlotsInput, p.Slots}, {model.TableInput, p.Tables}, {model.RowsInput, p.Outs}, {model.CopiesInput, e.pairs(p.Copies)},
	}
	for _, x := range inputs {
		if len(x.values) == 0 { // no copies in this engine, or no outs
			continue
		}
		if err := e.session.Write(x.name, 0, bytesOf(x.values)); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
	}
	outs := len(p.Outs)
	if outs == 0 {
		// The head runs on at least one row; nobody reads what it makes of this one.
		outs = 1
		if err := e.session.Write(model.RowsInput, 0, []byte{0, 0, 0, 0}); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
	}
	if err := e.session.Run(passProgram, device.Args{Rows: len(p.Tokens), Outs: outs}); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// pairs is the copies as the pass takes them: a negative source ends the list.
func (e *Engine) pairs(copies []kvcache.Copy) []int32 {
	if len(e.copies) == 0 {
		return nil
	}
	limit := 2 * e.job.Options.maxCopies()
	out := e.copies[:0]
	for _, c := range copies {
		out = append(out, int32(c.Src), int32(c.Dst))
	}
	if len(out) < limit {
		out = append(out, -1, -1)
	}
	return out
}

// sample chooses the tokens of the pass. A request whose token cannot be chosen ends, and its batch-mates go on.
func (e *Engine) sample(p sched.Pass) error {
	e.next, e.choices, e.tops = e.next[:0], e.choices[:0], e.tops[:0]
	for i, q := range p.OutSeqs {
		var c sample.Choice
		if a := e.active[q.ID]; a != nil {
			if err := e.session.Read(model.LogitsOutput, 4*int64(i)*int64(len(e.logits)), bytesOf(e.logits)); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			row := sample.Row{Logits: e.logits, Prompt: q.Tokens[:q.PromptLen], Output: q.Output(), Sample: uint32(q.Index)}
			var err error
			if c, err = e.sampler.Sample(row, &a.params); err != nil {
				e.Cancel(q.ID)
				e.events = append(e.events, Event{ID: q.ID, Index: q.Index, Kind: Failed, Cached: q.Cached, Err: fmt.Errorf("serve: request %q: %w", q.ID, err)})
			}
			at := len(e.tops)
			e.tops = append(e.tops, c.Top...)
			c.Top = e.tops[at:len(e.tops):len(e.tops)]
		}
		e.next, e.choices = append(e.next, c.Token), append(e.choices, c)
	}
	return nil
}

// report turns the scheduler's events into the engine's.
func (e *Engine) report(p sched.Pass, events []sched.Event) {
	out := 0
	for i := range events {
		x := &events[i]
		q := x.Seq
		a := e.active[q.ID]
		if a == nil {
			continue // cancelled
		}
		ev := Event{ID: q.ID, Index: q.Index, Cached: q.Cached}
		if x.Kind == sched.Preempted {
			ev.Kind = Preempted
		} else {
			for p.OutSeqs[out] != q { // tokens come in the order of the outs
				out++
			}
			c := &e.choices[out]
			ev.Kind, ev.Token, ev.Logprob, ev.Top, ev.Finished = Token, x.Token, c.Logprob, c.Top, x.Finished
			e.stats.Tokens++
			if x.Finished != sched.NotFinished {
				if a.left--; a.left == 0 {
					delete(e.active, q.ID)
				}
			}
		}
		e.events = append(e.events, ev)
	}
}

// Stats returns the engine's counts.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Sched, s.Pool = e.sched.Stats(), e.pool.Stats()
	return s
}
