package sched

import "slices"

// Kind says what an Event tells.
type Kind uint8

// The kinds of events.
const (
	Token     Kind = iota // the sequence got a token
	Preempted             // the sequence lost its blocks, and will compute its tokens again
)

// Reason says why a sequence ended.
type Reason uint8

// The reasons for a sequence to end.
const (
	NotFinished Reason = iota // it goes on
	Stop                      // with a token of Request.Stop
	Length                    // with Request.MaxTokens tokens
)

// String returns the reason in the words of the OpenAI API, or "" for a sequence that goes on.
func (r Reason) String() string {
	return [...]string{NotFinished: "", Stop: "stop", Length: "length"}[r]
}

// Event tells what happened to a sequence.
type Event struct {
	Seq      *Sequence
	Kind     Kind
	Token    int32  // for Token
	Finished Reason // for Token, when it was the last one
}

// Commit takes in that pass p was run and that next[i] was sampled from the logits of row p.Outs[i]. It returns what
// happened since the last Commit, preemptions first; the slice is valid until the next. Sequences cancelled or
// preempted while the pass ran are passed over, and their tokens dropped.
func (s *Scheduler) Commit(p Pass, next []int32) []Event {
	if len(next) != len(p.Outs) {
		panic("sched: Commit: want one token for each out of the pass")
	}
	if s.inFlight == p.Empty() || !p.Empty() && (len(p.Tokens) != len(s.pass.Tokens) || &p.Tokens[0] != &s.pass.Tokens[0]) {
		panic("sched: Commit: not the pass that Schedule returned last")
	}
	s.inFlight = false
	s.events = append(s.events[:0], s.early...)
	clear(s.early)
	s.early = s.early[:0]

	for _, q := range p.Seqs {
		if q.rows == 0 {
			continue
		}
		published := q.Computed / s.pool.BlockSize()
		q.Computed += q.rows
		q.rows = 0
		if q.Computed/s.pool.BlockSize() > published {
			s.pool.Commit(q.table, q.Tokens[:q.Computed])
		}
		if !q.req.forked && q.pending() == 0 {
			s.fork(q)
		}
	}
	for i, q := range p.OutSeqs {
		if q.state != stateRunning {
			continue
		}
		e := Event{Seq: q, Kind: Token, Token: next[i]}
		q.Tokens = append(q.Tokens, e.Token)
		switch {
		case slices.Contains(q.req.Stop, e.Token):
			e.Finished = Stop
		case len(q.Output()) == q.req.MaxTokens:
			e.Finished = Length
		}
		s.events = append(s.events, e)
		if e.Finished != NotFinished {
			s.finish(q)
		}
	}
	return s.events
}

// Abort gives up a pass that could not be run. Its sequences are preempted, which undoes what Schedule did for them,
// and run again unless they are cancelled.
func (s *Scheduler) Abort() {
	s.inFlight = false
	for _, q := range s.pass.Seqs {
		if q.rows > 0 {
			s.preempt(q)
		}
	}
}

// fork lets the other samples go their own way from the computed prompt of q, in blocks that they share.
func (s *Scheduler) fork(q *Sequence) {
	for _, other := range q.req.seqs[1:] {
		s.start(other)
		other.table = append(other.table, s.pool.Fork(q.table)...)
		other.Computed = q.Computed
		other.state = stateRunning
		s.running = insert(s.running, other)
	}
	q.req.forked = true // running stands for as many samples as before
}
