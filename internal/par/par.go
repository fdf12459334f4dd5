// Package par runs the chunks of one loop on a fixed number of threads, cheaply enough for loops of
// ten microseconds.
//
// Chunks are claimed, not dealt: a ticket holds how many are left, and the caller and the workers take
// them by compare-and-swap. The caller takes part, so a worker that another process keeps off its core
// delays only the chunk it holds. A worker without chunks spins for spinTime, then parks; a loop that
// follows soon finds it awake. The caller, when it waits for chunks that workers hold, does the same:
// its core is what a worker needs that shares it, or that could move to it from a busy one. (A caller
// that went on spinning burned, at each such wait, what was left of its time slice.)
//
// Invariants:
//   - Do returns after every chunk has run; what chunks wrote is visible to the caller.
//   - One loop at a time: Do inside a chunk, or from two goroutines at once, panics, with one thread too.
//   - In steady state Do allocates nothing.
//   - Which worker runs a chunk is not defined, so results must not depend on it.
//
// A chunk must not panic: on a worker that ends the process, on the caller it leaves others running.
// The package knows nothing of what chunks do, and sets no thread affinity.
package par

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	spinTime  = 100 * time.Microsecond // how long a worker without chunks, or the caller without more to do, stays awake
	spinPause = 4                      // PAUSE instructions between two looks at the ticket
	waitPause = 2                      // by the caller, at the last chunks
)

// Task is the body of a loop.
type Task interface {
	// Run does chunk i. worker is 0 for the caller of Do and below Threads otherwise; no two chunks
	// run with one worker number at once, so it may pick a workspace.
	Run(i, worker int)
}

// Pool is a set of threads. Its methods are for one goroutine at a time.
type Pool struct {
	_      [64]byte
	ticket atomic.Uint64 // loop number << 32 | chunks left; the number makes a late claim fail
	_      [56]byte
	done   atomic.Int64 // chunks finished
	_      [56]byte
	state  atomic.Int32 // idle, busy or closed
	task   Task         // read by a worker only while it holds a chunk
	n      int          // chunks in this loop; read like task
	loop   uint32
	spin   time.Duration
	caller worker // where the caller of Do waits for the last chunks

	workers []*worker
	exits   sync.WaitGroup
}

const (
	idle int32 = iota
	busy
	closed
)

type worker struct {
	_      [64]byte
	parked atomic.Bool
	wake   chan struct{} // capacity 1: a token may outlive its reason
}

// rouse leaves a token for a parked worker; one already there does as well.
func (w *worker) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// New starts a pool of threads, the caller of Do included, so threads-1 goroutines. Close ends them.
func New(threads int) *Pool {
	if threads < 1 {
		panic("par: New: fewer threads than one")
	}
	p := &Pool{spin: spinTime, caller: worker{wake: make(chan struct{}, 1)}}
	if threads > runtime.GOMAXPROCS(0) {
		p.spin = 0 // one that spins would keep another off its processor
	}
	for i := 1; i < threads; i++ {
		w := &worker{wake: make(chan struct{}, 1)}
		p.workers = append(p.workers, w)
		p.exits.Go(func() { p.serve(w, i) })
	}
	return p
}

// Threads returns the number of threads, the caller's included.
func (p *Pool) Threads() int { return len(p.workers) + 1 }

// Close ends the workers and returns when they have left. A second Close does nothing; Do after Close
// panics.
func (p *Pool) Close() {
	if !p.state.CompareAndSwap(idle, closed) {
		if p.state.Load() == closed {
			return
		}
		panic("par: Close: a loop is running")
	}
	for _, w := range p.workers {
		w.rouse()
	}
	p.exits.Wait()
}

// Do runs f for 0 to n-1, in any order, on all threads.
func (p *Pool) Do(n int, f func(i int)) { p.DoTask(n, funcTask(f)) }

type funcTask func(i int)

// Run calls f without the worker number.
func (f funcTask) Run(i, _ int) { f(i) }

// DoTask runs t for 0 to n-1, in any order, on all threads. A pointer as t costs no allocation.
func (p *Pool) DoTask(n int, t Task) {
	if n < 0 || n > math.MaxInt32 {
		panic("par: Do: number of chunks out of range")
	}
	if !p.state.CompareAndSwap(idle, busy) {
		if p.state.Load() == closed {
			panic("par: Do: the pool is closed")
		}
		panic("par: Do: a loop is running")
	}
	if len(p.workers) == 0 || n <= 1 {
		for i := range n {
			t.Run(i, 0)
		}
	} else {
		p.share(n, t)
	}
	p.state.Store(idle)
}

func (p *Pool) share(n int, t Task) {
	p.task, p.n = t, n
	p.done.Store(0)
	p.loop++
	p.ticket.Store(uint64(p.loop)<<32 | uint64(n))
	for i, w := range p.workers {
		if i+1 < n && w.parked.Load() {
			w.rouse()
		}
	}
	p.run(0)
	p.wait(int64(n))
	p.task = nil
}

// wait spins, then parks, until n chunks have run.
func (p *Pool) wait(n int64) {
	var start time.Time
	for i := 0; p.done.Load() != n; i++ {
		if p.spin > 0 && (i == 0 || i%32 != 0) {
			pause(waitPause)
			continue
		}
		now := time.Now()
		if start.IsZero() {
			start = now
		}
		if now.Sub(start) < p.spin {
			continue
		}
		p.caller.parked.Store(true)
		if p.done.Load() != n {
			<-p.caller.wake // the worker with the last chunk rouses when it sees parked; an old token sends us round again
		}
		p.caller.parked.Store(false)
	}
}

// run claims chunks until none is left.
func (p *Pool) run(id int) {
	for {
		t := p.ticket.Load()
		left := int(uint32(t))
		if left == 0 {
			return
		}
		if p.ticket.CompareAndSwap(t, t-1) {
			// The loop cannot end before this chunk does, so task and n hold still.
			n := p.n
			p.task.Run(n-left, id)
			if p.done.Add(1) == int64(n) && id != 0 && p.caller.parked.Load() {
				p.caller.rouse()
			}
		}
	}
}

// serve is the life of a worker.
func (p *Pool) serve(w *worker, id int) {
	for p.await(w) {
		p.run(id)
	}
}

// await spins, then parks, until there are chunks; false means the pool is closed.
func (p *Pool) await(w *worker) bool {
	var start time.Time
	for i := 0; ; i++ {
		if uint32(p.ticket.Load()) != 0 {
			return true
		}
		if p.spin > 0 && (i == 0 || i%32 != 0) {
			pause(spinPause)
			continue
		}
		now := time.Now()
		if start.IsZero() {
			start = now
		}
		if now.Sub(start) < p.spin {
			continue
		}
		w.parked.Store(true)
		if uint32(p.ticket.Load()) == 0 {
			// Close rouses after it sets the state; DoTask rouses when it sees parked.
			<-w.wake
		}
		w.parked.Store(false)
		if p.state.Load() == closed {
			return false
		}
		start, i = time.Time{}, 0
	}
}
