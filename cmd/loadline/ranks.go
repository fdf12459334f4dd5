package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"loadline/collective"
	"loadline/collective/local"
	"loadline/mem"
	"loadline/train"
)

// A run with several ranks is this process, which prepares inputs, holds the lock of Out, shows progress and waits, and one process a
// rank, which is the same program with these two variables set. A rank plans for itself: the same run gives the same plan. What it has
// to say goes as JSON lines to descriptor 3.
const (
	seatVar = "LOADLINE_SEAT"
	runVar  = "LOADLINE_RUN"
)

const (
	reportFD  = 3
	rankGrace = 2 * time.Second // how long the others may go on after a rank has failed
)

// message is a line from a rank. One of the fields is set.
type message struct {
	Begin  *int64      `json:"begin,omitempty"`
	Step   *rankStep   `json:"step,omitempty"`
	Eval   *rankEval   `json:"eval,omitempty"`
	Save   *rankSave   `json:"save,omitempty"`
	Report *workReport `json:"report,omitempty"`
	Failed *rankError  `json:"failed,omitempty"`
}

type rankStep struct {
	Result train.StepResult
	Held   mem.Bytes
}

type rankEval struct {
	Step int64
	Loss float32
}

type rankSave struct {
	Step int64
	Path string
}

// rankError is the error of a rank's process, as it crosses to this one.
type rankError struct {
	rank int
	code int
	Text string
	Try  string
	Code int
	Lost bool // the rank failed only because another was lost
}

// Error returns one line.
func (e *rankError) Error() string {
	if strings.HasPrefix(e.Text, "rank ") {
		return e.Text
	}
	return fmt.Sprintf("rank %d: %s", e.rank, e.Text)
}

// Advice returns one line: what to do.
func (e *rankError) Advice() string { return e.Try }

// firstWrite passes on what several write, one after the other, and calls begun before.
type firstWrite struct {
	mu    sync.Mutex
	w     io.Writer
	begun func()
}

// Write implements io.Writer.
func (f *firstWrite) Write(p []byte) (int, error) {
	f.begun()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.w.Write(p)
}

// rankErrors is the stderr of ranks. They share a file with this process, which writes whole lines there; else, and on a terminal, where it draws, it
// writes for them, and begun ends what it shows until then.
func (a *app) rankErrors(begun func()) io.Writer {
	if f, ok := a.err.(*os.File); ok && terminal(f) == 0 {
		return f
	}
	return &firstWrite{w: a.err, begun: begun}
}

// runRanks runs the ranks to their end, and returns what they report, as one: the worst rank's memory. What else they say goes to stderr.
func (a *app) runRanks(ctx context.Context, r *trainRun, w watcher, stderr io.Writer) (_ *workReport, err error) {
	ranks := r.Options.Ranks
	world, err := local.NewWorld(ranks, local.Options{Grace: rankGrace})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("ranks: %w", err)
	}
	last := make([]message, ranks) // report or failure
	cmds := make([]*exec.Cmd, ranks)
	var readers sync.WaitGroup
	for rank := range ranks {
		if cmds[rank], err = startRank(world, rank, string(text), stderr, &readers, &last[rank], w); err != nil {
			return nil, err
		}
	}
	ended := context.AfterFunc(ctx, func() {
		for _, c := range cmds {
			_ = c.Process.Signal(unix.SIGTERM) // a rank that has ended needs none
		}
	})
	defer ended()
	failure := world.Wait()
	readers.Wait()
	return joinReports(last, failure)
}

// startRank starts a rank's process and a reader of what it says.
func startRank(world *local.World, rank int, run string, stderr io.Writer, readers *sync.WaitGroup, last *message, w watcher) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("ranks: %w", err)
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("ranks: %w", err)
	}
	defer to.Close() // the child has its own
	c := exec.Command(self)
	c.Stderr = stderr
	c.ExtraFiles = []*os.File{to} // descriptor 3
	seat := world.Seat(c, rank)
	c.Env = append(os.Environ(), seatVar+"="+seat.String(), runVar+"="+run)
	if err := world.Start(c, rank); err != nil {
		return nil, errors.Join(err, from.Close())
	}
	readers.Go(func() {
		defer from.Close() // read only
		d := json.NewDecoder(bufio.NewReader(from))
		for {
			var m message
			if err := d.Decode(&m); err != nil { // io.EOF, or the rest of a line of a rank that died
				return
			}
			if m.Report != nil || m.Failed != nil {
				*last = m
			} else if rank == 0 {
				m.tell(w)
			}
		}
	})
	return c, nil
}

// tell passes a message on.
func (m *message) tell(w watcher) {
	switch {
	case m.Begin != nil:
		w.begin(*m.Begin)
	case m.Step != nil:
		w.step(m.Step.Result, m.Step.Held)
	case m.Eval != nil:
		w.eval(m.Eval.Step, m.Eval.Loss)
	case m.Save != nil:
		w.save(m.Save.Step, m.Save.Path)
	}
}

// joinReports makes one report of all ranks', or finds the error that the others followed from.
func joinReports(last []message, failure error) (*workReport, error) {
	var follows error
	for rank, m := range last {
		if f := m.Failed; f != nil {
			f.rank, f.code = rank, f.Code
			if !f.Lost {
				return nil, f
			}
			follows = f
		}
	}
	var exit *local.ExitError
	if errors.As(failure, &exit) {
		return nil, advise(fmt.Errorf("rank %d was lost: %v", exit.Rank, exit.Err), "go on from the last checkpoint with --resume")
	}
	if err := errors.Join(failure, follows); err != nil {
		return nil, err
	}
	out := last[0].Report
	for rank, m := range last {
		if m.Report == nil {
			return nil, fmt.Errorf("rank %d ended without a report", rank)
		}
		if m.Report.Memory.Ledger > out.Memory.Ledger {
			out.Memory.Predicted, out.Memory.Ledger, out.Memory.ByPurpose = m.Report.Memory.Predicted, m.Report.Memory.Ledger, m.Report.Memory.ByPurpose
		}
		out.Memory.RSS = max(out.Memory.RSS, m.Report.Memory.RSS)
	}
	return out, nil
}

// serveRank is the life of a rank's process.
func (a *app) serveRank(seat string) int {
	debug.SetTraceback("single")
	out := os.NewFile(reportFD, "report")
	say := json.NewEncoder(out)
	report, err := a.rank(seat, &teller{say})
	if err != nil {
		var lost *collective.RankLostError
		failed := &rankError{Text: oneLine(words(err)), Try: oneLine(advice(err)), Code: exitCode(err)}
		failed.Lost = errors.As(err, &lost) || errors.Is(err, local.ErrParentLost)
		if e := say.Encode(message{Failed: failed}); e != nil {
			fmt.Fprintf(a.err, "loadline: %s\n", failed.Text)
		}
		return failed.Code
	}
	if err := say.Encode(message{Report: report}); err != nil {
		return codeFailed
	}
	return codeDone
}

// rank plans, joins the others and trains.
func (a *app) rank(text string, w watcher) (*workReport, error) {
	seat, err := local.ParseSeat(text)
	if err != nil {
		return nil, err
	}
	r := &trainRun{}
	if err := json.Unmarshal([]byte(os.Getenv(runVar)), r); err != nil {
		return nil, fmt.Errorf("ranks: %w", err)
	}
	if r.set, err = kernelSet(r.Kernels); err != nil {
		return nil, err
	}
	// The terminal signals ranks too, and the parent passes signals on: a rank counts none of them.
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer cancel()
	planHeap(r.Options.Memory)
	job, err := r.plan()
	if err != nil {
		return nil, err
	}
	job.Seal()
	settle(job.Runtime)
	if seat.Rank > 0 {
		w = nobody{}
	}
	return r.work(ctx, job, func(l *mem.Ledger) (collective.Group, error) { return local.Join(seat, l) }, w)
}

// teller sends what happens to the parent, which has gone if it cannot be told; the group notices that.
type teller struct{ e *json.Encoder }

func (t *teller) begin(step int64) { _ = t.e.Encode(message{Begin: &step}) }
func (t *teller) step(s train.StepResult, held mem.Bytes) {
	_ = t.e.Encode(message{Step: &rankStep{s, held}})
}
func (t *teller) eval(step int64, loss float32) {
	_ = t.e.Encode(message{Eval: &rankEval{step, loss}})
}
func (t *teller) save(step int64, path string) {
	_ = t.e.Encode(message{Save: &rankSave{step, path}})
}

// nobody watches.
type nobody struct{}

func (nobody) begin(int64)                      {}
func (nobody) step(train.StepResult, mem.Bytes) {}
func (nobody) eval(int64, float32)              {}
func (nobody) save(int64, string)               {}
