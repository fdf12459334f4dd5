package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"loadline/mem"
)

// DefaultWindowBytes is the window of one rank unless Options says otherwise: its four buffers stay in a core's second-level cache.
const DefaultWindowBytes = 1 << 20

// minWindowBytes leaves every owner's part of a buffer at least one cache line, up to 16 ranks; validate asks for more beyond.
const minWindowBytes = 4096

// Options says how ranks are connected.
type Options struct {
	// WindowBytes is the shared memory through which one rank passes its data. It is rounded up to a page; at least 4096 and 256
	// times the number of ranks. 0 is DefaultWindowBytes.
	WindowBytes int
	// Timeout is how long a rank waits for another inside one collective before it gets a *collective.TimeoutError. 0 is for
	// ever: a rank may compute or save for as long as it likes, and one that dies is noticed without it.
	Timeout time.Duration
	// Grace is how long ranks may go on after another has failed, before World kills them. 0 is ten seconds.
	Grace time.Duration
}

// Validate reports whether the options make sense.
func (o Options) Validate() error {
	if o.WindowBytes != 0 && (o.WindowBytes < minWindowBytes || int64(o.WindowBytes) > 1<<31) {
		return fmt.Errorf("local: window: want %d bytes to 2 GiB, got %d", minWindowBytes, o.WindowBytes)
	}
	if o.Timeout < 0 || o.Grace < 0 {
		return fmt.Errorf("local: want times of zero or more, got a timeout of %v and a grace of %v", o.Timeout, o.Grace)
	}
	return nil
}

// World is the parent's side: it makes the shared memory, starts ranks and watches them. Its methods may be called concurrently.
type World struct {
	ranks  int
	grace  time.Duration
	seg    *segment
	file   *os.File
	starts chan func() // run by the starter's thread
	exits  sync.WaitGroup

	mu       sync.Mutex
	children []child // by rank
	failed   int     // first rank whose process failed; -1 while none has
	killer   *time.Timer
	closed   bool
}

// child is a rank that runs as a process of its own.
type child struct {
	cmd   *exec.Cmd // nil if the rank was not started
	ended bool
	err   error // of cmd.Wait
}

// ExitError says that a rank's process failed: which, and how.
type ExitError struct {
	Rank int
	Err  error // an *exec.ExitError as a rule
}

// Error implements error.
func (e *ExitError) Error() string { return fmt.Sprintf("local: rank %d: %v", e.Rank, e.Err) }

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

var errLeftEarly = errors.New("ended before the other ranks")

// NewWorld makes the shared memory for a number of ranks. It touches only the pages of the header until a rank joins in this process.
func NewWorld(ranks int, o Options) (*World, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := (Seat{Ranks: ranks}).validate(); err != nil {
		return nil, err
	}
	if o.WindowBytes == 0 {
		o.WindowBytes = DefaultWindowBytes
	}
	if least := buffers * cacheLine * ranks; o.WindowBytes < least {
		return nil, fmt.Errorf("local: window: want at least %d bytes for %d ranks, got %d", least, ranks, o.WindowBytes)
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	seg, file, err := newSegment(ranks, o)
	if err != nil {
		return nil, err
	}
	w := &World{ranks: ranks, grace: o.Grace, seg: seg, file: file, starts: make(chan func()), children: make([]child, ranks), failed: -1}
	go starter(w.starts)
	return w, nil
}

// starter runs what it is sent on one thread of its own. The kernel's death signal follows the thread that started a child, not the
// process (prctl(2), PR_SET_PDEATHSIG), so that thread has to live as long as the world.
func starter(starts <-chan func()) {
	runtime.LockOSThread()
	for f := range starts {
		f()
	}
}

// File returns the shared memory's file, for a caller that starts processes without Start. World keeps owning it.
func (w *World) File() *os.File { return w.file }

// Seat prepares a command to run as rank and returns the seat to tell it about, in a flag or a variable. It adds the shared memory to
// the command's extra files, and has the kernel kill the process when this one dies, where it can.
func (w *World) Seat(cmd *exec.Cmd, rank int) Seat {
	killWithParent(cmd)
	cmd.ExtraFiles = append(cmd.ExtraFiles, w.file)
	return Seat{Rank: rank, Ranks: w.ranks, FD: uintptr(2 + len(cmd.ExtraFiles))}
}

// Start starts a command that Seat prepared, and watches it: should it end without leaving its group, it is lost to the others.
func (w *World) Start(cmd *exec.Cmd, rank int) error {
	if err := (Seat{Rank: rank, Ranks: w.ranks}).validate(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.children[rank].cmd != nil {
		return fmt.Errorf("local: start: rank %d was started before, or its world is closed", rank)
	}
	started := make(chan error)
	w.starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		w.seg.lose(rank)
		return fmt.Errorf("local: start rank %d: %w", rank, err)
	}
	w.children[rank].cmd = cmd
	w.exits.Add(1)
	go w.watch(rank, cmd)
	return nil
}

// Join takes a seat for this process: the parent as a rank, or a goroutine of a test. The group shares the world's mapping, which the
// first Join books in its ledger, until the world and its groups are closed; with a nil ledger that is left to the caller.
func (w *World) Join(rank int, ledger *mem.Ledger) (*Group, error) {
	if err := (Seat{Rank: rank, Ranks: w.ranks}).validate(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("local: join as rank %d: the world is closed", rank)
	}
	if err := w.seg.book(ledger); err != nil {
		return nil, err
	}
	w.seg.acquire()
	g, err := join(w.seg, rank, 0)
	if err != nil {
		return nil, errors.Join(err, w.seg.release())
	}
	return g, nil
}

// watch waits for a child's end and tells the other ranks if it came too early.
func (w *World) watch(rank int, cmd *exec.Cmd) {
	defer w.exits.Done()
	err := cmd.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if atomic.LoadUint32(&w.seg.slot(rank).state) != stateLeft {
		w.seg.lose(rank)
	}
	w.children[rank].ended = true
	w.children[rank].err = err
	if err != nil && w.failed < 0 {
		w.failed = rank
		w.killer = time.AfterFunc(w.grace, w.kill)
	}
}

// kill kills the children that still run.
func (w *World) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.children {
		if c.cmd != nil && !c.ended {
			_ = c.cmd.Process.Kill() // it has ended meanwhile, or the signal reaches it
		}
	}
}

// Wait waits until all started ranks have ended. If one failed it returns an *ExitError about the rank that failed first, and not
// about those that failed for want of it. Ranks that go on for longer than Options.Grace after a failure are killed.
func (w *World) Wait() error {
	w.exits.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killer != nil {
		w.killer.Stop()
	}
	if w.failed < 0 {
		return nil
	}
	rank := w.failed
	if lost := w.seg.lost(); lost >= 0 {
		rank = lost
	}
	err := w.children[rank].err
	if err == nil {
		err = errLeftEarly
	}
	return &ExitError{Rank: rank, Err: err}
}

// Close kills the children that still run, waits for them and frees the shared memory, as soon as the groups of this process are
// closed too. The second Close does nothing.
func (w *World) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	w.kill()
	w.exits.Wait()
	if w.killer != nil {
		w.killer.Stop()
	}
	close(w.starts)
	return errors.Join(w.file.Close(), w.seg.release())
}
