package sched

import (
	"fmt"
	"slices"

	"loadline/serve/kvcache"
)

// Request is what a client asks for.
type Request struct {
	ID        string  // names the request; unique among those not done
	Prompt    []int32 // at least one token; read until the request is done, never written
	MaxTokens int     // new tokens of each sample, at least 1
	Stop      []int32 // a sample ends with the first of these tokens
	N         int     // samples; 0 is 1
}

// LimitError says that a request can never run, with the numbers.
type LimitError struct {
	ID     string
	What   string // what there is too little of, with the unit
	Want   int
	Have   int
	Prompt int // tokens of the prompt
	New    int // tokens asked for
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("sched: request %q (%d prompt tokens, %d new): want %d %s, have %d", e.ID, e.Prompt, e.New, e.Want, e.What, e.Have)
}

// request is a Request with its samples.
type request struct {
	Request
	arrival int
	seqs    []*Sequence // Invariant: seqs[i].Index == i
	forked  bool        // the prompt is computed and the samples are on their own; true from the start for one sample
	left    int         // samples not done
}

// state is where a sequence stands; see the package comment.
type state uint8

const (
	stateWaiting state = iota
	stateRunning
	stateAttached // a sample that waits for sample 0 to compute the prompt
	stateDone
)

// Sequence is one sample of a request: its tokens, and how far they are computed. The scheduler alone changes it.
type Sequence struct {
	ID        string  // of the request
	Index     int     // of the sample, from 0
	Tokens    []int32 // the prompt, then what was sampled
	PromptLen int
	Computed  int // tokens whose keys and values are in the pool. Invariant: 0 <= Computed <= len(Tokens)
	Cached    int // prompt tokens found in the prefix cache when the request was first admitted; 0 for later samples

	req   *request
	state state
	table kvcache.BlockTable
	rows  int // in the pass in flight; 0 if it takes no part, or no longer
}

// Output returns the tokens sampled so far.
func (q *Sequence) Output() []int32 { return q.Tokens[q.PromptLen:] }

// pending returns how many tokens are not computed.
func (q *Sequence) pending() int { return len(q.Tokens) - q.Computed }

// samples returns how many samples the sequence stands for: all of them until the prompt is computed.
func (q *Sequence) samples() int {
	if q.req.forked {
		return 1
	}
	return len(q.req.seqs)
}

// Add queues a request. It refuses what can never run with a *LimitError.
func (s *Scheduler) Add(r Request) error {
	if r.N == 0 {
		r.N = 1
	}
	if len(r.Prompt) == 0 || r.MaxTokens < 1 || r.N < 1 {
		return fmt.Errorf("sched: request %q: want at least 1 prompt token, 1 new token and 1 sample, got %d, %d and %d", r.ID, len(r.Prompt), r.MaxTokens, r.N)
	}
	if s.byID[r.ID] != nil {
		return fmt.Errorf("sched: request %q: a request of that name is not done", r.ID)
	}
	// The last new token is never computed. The comparison cannot overflow, whatever number a client sends.
	tokens, computed := min(s.o.width(), s.pool.Len())*s.pool.BlockSize(), len(r.Prompt)-1
	if r.MaxTokens > tokens-computed {
		return &LimitError{ID: r.ID, What: "tokens in the pool", Want: saturate(computed, r.MaxTokens), Have: tokens, Prompt: len(r.Prompt), New: r.MaxTokens}
	}
	if r.N > s.limit {
		return &LimitError{ID: r.ID, What: "samples at a time", Want: r.N, Have: s.limit, Prompt: len(r.Prompt), New: r.MaxTokens}
	}
	req := &request{Request: r, arrival: s.arrivals, forked: r.N == 1, left: r.N}
	s.arrivals++
	for i := range r.N {
		q := &Sequence{ID: r.ID, Index: i, Tokens: slices.Clip(r.Prompt), PromptLen: len(r.Prompt), req: req, state: stateAttached}
		req.seqs = append(req.seqs, q)
	}
	s.byID[r.ID] = req
	req.seqs[0].state = stateWaiting
	s.waiting = insert(s.waiting, req.seqs[0])
	return nil
}

// Cancel ends a request without an event and frees its blocks; of a pass in flight its part is dropped. It reports
// whether there was such a request.
func (s *Scheduler) Cancel(id string) bool {
	req := s.byID[id]
	if req == nil {
		return false
	}
	for _, q := range req.seqs {
		s.finish(q)
	}
	return true
}

// ForcePreempt preempts every running sample of a request, as if the pool had run dry, and reports whether there was
// one. Tests use it: it changes no token of the answer.
func (s *Scheduler) ForcePreempt(id string) bool {
	req := s.byID[id]
	if req == nil {
		return false
	}
	found := false
	for _, q := range req.seqs {
		if q.state == stateRunning {
			s.preempt(q)
			found = true
		}
	}
	return found
}

// start gives a sequence its own tokens and a table, both large enough for all it may become.
func (s *Scheduler) start(q *Sequence) {
	if cap(q.table) > 0 {
		return
	}
	last := q.PromptLen + q.req.MaxTokens
	tokens := make([]int32, len(q.Tokens), last) //mem:ok 4 B a token of a started sequence, of which there are at most MaxSeqs
	copy(tokens, q.Tokens)
	q.Tokens = tokens
	q.table = make(kvcache.BlockTable, 0, s.pool.BlocksFor(last-1))
}

// preempt sends a running sequence back to the queue. It keeps its tokens and loses its blocks.
func (s *Scheduler) preempt(q *Sequence) {
	s.release(q)
	q.Computed = 0
	q.state = stateWaiting
	s.waiting = insert(s.waiting, q)
	s.stats.Preemptions++
	s.early = append(s.early, Event{Seq: q, Kind: Preempted})
}

// release takes a running sequence out of running and frees its blocks.
func (s *Scheduler) release(q *Sequence) {
	s.running = remove(s.running, q)
	s.slots -= q.samples()
	s.pool.Free(q.table)
	q.table = q.table[:0]
	q.rows = 0
}

// finish makes a sequence done, whatever its state.
func (s *Scheduler) finish(q *Sequence) {
	switch q.state {
	case stateRunning:
		s.release(q)
	case stateWaiting:
		s.waiting = remove(s.waiting, q)
	case stateDone:
		return
	}
	q.state = stateDone
	q.req.left--
	if q.req.left == 0 {
		delete(s.byID, q.ID)
	}
}

// saturate returns a + b, or the largest int if that overflows.
func saturate(a, b int) int {
	if sum := a + b; sum >= a {
		return sum
	}
	return int(^uint(0) >> 1)
}
