package tier

import (
	"fmt"
	"io"
	"sync"
)

// Job is one copy between a buffer and a store.
type Job struct {
	Store Store
	Write bool   // whether Buf goes to the store; otherwise it is filled from it
	Buf   []byte // the caller's; not to be touched until the job is done, except to read what is being written
	Off   int64  // in the store

	Parts Parts // if not nil, how Buf is filled, in the place of Store and Off
}

// Parts is a copy that two goroutines share: the stream and one that waits for it.
type Parts interface {
	// Begin makes all parts open. It is called before a job, while no part is in work.
	Begin()
	// Do does the next part in workspace 0 or 1, which one goroutine at a time has, and reports whether there was one. After an error no
	// part is begun.
	Do(workspace int) (bool, error)
}

// Ticket names a job that was started on a stream. Tickets ascend in the order of starting; the zero Ticket is of no job, and done.
type Ticket int64

// streamDepth is how many jobs can be on the way at once.
const streamDepth = 64

// Stream does jobs one after another, in the order in which they were started, on a goroutine of its own. So a job sees all that the
// jobs started before it have written. Whoever waits does parts of a job that has them. After the first error no job is done any more:
// that job and all later ones have failed.
//
// Its methods are safe for concurrent use and allocate nothing.
type Stream struct {
	mu       sync.Mutex
	work     sync.Cond        // a job was started, or closing set
	done     sync.Cond        // a job is done
	ring     [streamDepth]Job // job t lies at t % streamDepth
	started  Ticket           // the last job started
	finished Ticket           // the last job done. Invariant: 0 <= started-finished <= streamDepth
	failed   Ticket           // the first job that failed, if err is not nil
	err      error
	partErr  error // of the job in progress
	parts    Parts // of the job in progress, while some are open
	helping  bool  // a waiter does one
	closing  bool
	exited   chan struct{}
}

// NewStream starts a stream.
func NewStream() *Stream {
	s := &Stream{exited: make(chan struct{})}
	s.work.L, s.done.L = &s.mu, &s.mu
	go s.run()
	return s
}

// Start queues j and returns its ticket. It waits while the queue is full.
func (s *Stream) Start(j Job) Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.started-s.finished == streamDepth && !s.closing {
		s.done.Wait()
	}
	if s.closing {
		panic("tier: Start on a closed stream")
	}
	s.started++
	s.ring[s.started%streamDepth] = j
	s.work.Signal()
	return s.started
}

// Wait returns when job t is done, and until then does parts of jobs: nil if it succeeded, otherwise the error of the first job that failed.
func (s *Stream) Wait(t Ticket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t > s.started {
		panic(fmt.Sprintf("tier: Wait for job %d of %d", t, s.started))
	}
	for s.finished < t {
		if s.parts == nil || s.helping {
			s.done.Wait()
			continue
		}
		s.helping = true
		s.part(s.parts, 1)
		s.helping = false
		s.done.Broadcast()
	}
	if s.err != nil && t >= s.failed {
		return s.err
	}
	return nil
}

// Drain returns when all jobs started so far are done: nil if all have succeeded, otherwise the error of the first that failed.
func (s *Stream) Drain() error {
	s.mu.Lock()
	last := s.started
	s.mu.Unlock()
	return s.Wait(last)
}

// Pending returns how many jobs are not done yet.
func (s *Stream) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.started - s.finished)
}

// Close waits for the jobs that were started, ends the stream, and returns the error of the first job that failed. It panics when
// called twice.
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		panic("tier: double Close of a stream")
	}
	s.closing = true
	s.work.Signal()
	s.done.Broadcast()
	s.mu.Unlock()
	<-s.exited
	return s.err
}

func (s *Stream) run() {
	defer close(s.exited)
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.finished == s.started && !s.closing {
			s.work.Wait()
		}
		if s.finished == s.started {
			return
		}
		next := s.finished + 1
		if s.err == nil {
			job := s.ring[next%streamDepth]
			if s.partErr = nil; job.Parts != nil {
				s.share(job.Parts)
			} else {
				s.mu.Unlock()
				err := job.do()
				s.mu.Lock()
				s.partErr = err
			}
			if s.partErr != nil {
				s.err, s.failed = s.partErr, next
			}
		}
		s.ring[next%streamDepth] = Job{} // hold no buffers
		s.finished = next
		s.done.Broadcast()
	}
}

// share does the parts of a job, with the help of whoever waits.
func (s *Stream) share(p Parts) {
	p.Begin()
	s.parts = p
	s.done.Broadcast()
	for s.parts != nil {
		s.part(p, 0)
	}
	for s.helping {
		s.done.Wait()
	}
}

// part does one part of the job in progress, and closes them after the last or an error. It holds s.mu but for the work.
func (s *Stream) part(p Parts, workspace int) {
	s.mu.Unlock()
	more, err := p.Do(workspace)
	s.mu.Lock()
	if err != nil && s.partErr == nil {
		s.partErr = err
	}
	if !more || err != nil {
		s.parts = nil
	}
}

func (j *Job) do() error {
	move, verb := j.Store.ReadAt, "read"
	if j.Write {
		move, verb = j.Store.WriteAt, "wrote"
	}
	n, err := move(j.Buf, j.Off)
	if n == len(j.Buf) && (err == nil || err == io.EOF) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("tier: store %s %d of %d bytes at offset %d: %w", verb, n, len(j.Buf), j.Off, io.ErrUnexpectedEOF)
	}
	return err
}
