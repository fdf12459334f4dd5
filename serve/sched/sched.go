// Package sched decides which tokens of which sequences run in the next serving pass.
//
// There is no prefill phase and no decode phase. A sequence is its tokens and how many of them are computed; a pass
// lets sequences catch up, by one token (a decode), by a chunk of a prompt, or by what a preempted sequence lost.
// When the last token of a sequence is computed, its logits give the next one:
//
//	          Schedule: the whole prefill fits       Commit: stop or length
//	Add ──▶ waiting ─────────────────────────▶ running ─────────────────────▶ done
//	           ▲                                  │
//	           └──────────────────────────────────┘
//	             the pool ran dry and it arrived last: blocks freed, tokens kept
//
// One call of Schedule spends the rows of a pass in this order: one row for every running sequence that is one token
// behind, then chunks of running sequences that are further behind, then sequences admitted from the queue; each in
// order of arrival.
//
//   - A sequence is admitted only with blocks for all its tokens, so a prefill never waits for blocks, and only if a
//     block for every sequence already running is left over, so that it is not thrown out again at once.
//   - The queue is first come, first served; a preempted sequence returns to its place by arrival.
//   - When the pool runs dry, the sequence that arrived last gives up its blocks, until the one in need has enough.
//     The one that arrived first therefore runs in every pass. It always fits, because Add refuses what does not fit
//     into the empty pool. Hence the scheduler neither deadlocks nor livelocks, and every request finishes.
//   - A request for n samples is computed once; Commit forks its blocks when the prompt is done, and from then on
//     the samples are sequences like any other.
//
// Invariants: a pass has at most MaxRows rows, MaxSeqs sequences and MaxOuts outs, and is empty only if nothing waits
// and nothing runs. Preemption changes no sequence's tokens. In steady state nothing is allocated: the arrays of a
// pass are the same every time.
//
// The package does not run a pass, choose a token, or know what a token is. It is not safe for concurrent use.
//
// Sources: Orca (Yu et al., OSDI 2022), §4.2, for scheduling by iteration; Sarathi-Serve (Agrawal et al. 2024, arXiv
// 2403.02310), §4, for chunked prefills beside decodes; PagedAttention (arXiv 2309.06180), §4.5, for preemption by
// recomputing what came last.
package sched

import (
	"fmt"
	"slices"

	"loadline/serve/kvcache"
)

// maxHeapWords is how large the arrays of a pass may be for New to make them itself: 64 KiB.
const maxHeapWords = 64 << 10 / 4

// Options are the bounds of a pass, which is compiled for them.
type Options struct {
	MaxRows      int // tokens in one pass, at least 1
	MaxSeqs      int // sequences in one pass, at least 1
	MaxOuts      int // rows with logits in one pass, at least 1
	PrefillChunk int // rows of one sequence in one pass; 0 is MaxRows
	MaxBlocks    int // blocks of one sequence, which is the width of a pass's tables; 0 is the whole pool

	Pool *kvcache.Pool

	// Buf is where the arrays of a pass live, at least Words long; the scheduler owns it from then on. It may be nil if they take up to 64 KiB.
	Buf []int32
}

// Validate reports the first option that makes no sense.
func (o Options) Validate() error {
	switch {
	case o.Pool == nil:
		return fmt.Errorf("sched: want a pool, got none")
	case o.MaxRows < 1 || o.MaxSeqs < 1 || o.MaxOuts < 1:
		return fmt.Errorf("sched: want room for at least 1 row, 1 sequence and 1 out, got %d, %d and %d", o.MaxRows, o.MaxSeqs, o.MaxOuts)
	case o.PrefillChunk < 0 || o.MaxBlocks < 0:
		return fmt.Errorf("sched: want a chunk and a table width of 0 or more, got %d and %d", o.PrefillChunk, o.MaxBlocks)
	}
	if n := o.Words(); len(o.Buf) < n && (o.Buf != nil || n > maxHeapWords) {
		return fmt.Errorf("sched: want a buffer of %d words for a pass, got %d", n, len(o.Buf))
	}
	return nil
}

// Words returns the length of the arrays of a pass in int32s, which is what Buf must hold.
func (o Options) Words() int {
	return 4*o.MaxRows + o.MaxSeqs*(2+o.width()) + 1 + o.MaxOuts
}

// width returns the number of blocks in a row of Pass.Tables.
func (o Options) width() int {
	if o.MaxBlocks == 0 {
		return o.Pool.Len()
	}
	return o.MaxBlocks
}

// Scheduler holds the requests and builds the passes. See the package comment for what it promises.
type Scheduler struct {
	o     Options
	pool  *kvcache.Pool
	limit int // of running samples: each may need a row, a table and an out in one pass

	// Both in order of arrival, then of sample. Samples that wait for their prompt are in neither.
	waiting []*Sequence
	running []*Sequence
	slots   int // samples that running stands for. Invariant: slots <= limit

	byID     map[string]*request
	arrivals int

	pass     Pass
	widths   []int // per row of pass.Tables: entries written that are not padding
	inFlight bool

	early  []Event // since the last Commit
	events []Event // what Commit returned last
	stats  Stats
}

// New returns a scheduler without requests.
func New(o Options) (*Scheduler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.PrefillChunk == 0 {
		o.PrefillChunk = o.MaxRows
	}
	if o.Buf == nil {
		o.Buf = make([]int32, o.Words()) //mem:ok at most 64 KiB by Validate
	}
	s := &Scheduler{
		o:      o,
		pool:   o.Pool,
		limit:  min(o.MaxRows, o.MaxSeqs, o.MaxOuts),
		byID:   map[string]*request{},
		pass:   newPass(o),
		widths: make([]int, o.MaxSeqs),
	}
	s.running = make([]*Sequence, 0, s.limit)
	s.early = make([]Event, 0, s.limit)
	s.events = make([]Event, 0, 2*s.limit)
	return s, nil
}

// Stats counts sequences and tokens.
type Stats struct {
	Running, Waiting int   // now; samples that wait for their prompt count with it
	Preemptions      int64 // since New
	PrefixQueries    int64 // tokens looked up in the prefix cache on admission, since New
	PrefixHits       int64 // those of them that were found
}

// Stats returns the scheduler's counts.
func (s *Scheduler) Stats() Stats {
	st := s.stats
	st.Running, st.Waiting = len(s.running), len(s.waiting)
	return st
}

// Idle reports whether there is nothing to schedule.
func (s *Scheduler) Idle() bool { return len(s.running) == 0 && len(s.waiting) == 0 }

// insert puts a sequence into its place by arrival.
func insert(list []*Sequence, seq *Sequence) []*Sequence {
	i, _ := slices.BinarySearchFunc(list, seq, byArrival)
	return slices.Insert(list, i, seq)
}

// remove takes a sequence out of a list that holds it.
func remove(list []*Sequence, seq *Sequence) []*Sequence {
	i, ok := slices.BinarySearchFunc(list, seq, byArrival)
	if !ok {
		panic("sched: sequence is not in the list of its state")
	}
	return slices.Delete(list, i, i+1)
}

func byArrival(a, b *Sequence) int {
	if a.req.arrival != b.req.arrival {
		return a.req.arrival - b.req.arrival
	}
	return a.Index - b.Index
}
