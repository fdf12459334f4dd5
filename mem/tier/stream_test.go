package tier

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate is a store whose calls wait until it is opened, and fail from the call numbered failAt on (counting from 1; 0 for never).
type gate struct {
	Store
	open   chan struct{}
	failAt int64
	calls  atomic.Int64
}

var errBroken = errors.New("broken on purpose")

func newGate(s Store, failAt int64) *gate {
	return &gate{Store: s, open: make(chan struct{}), failAt: failAt}
}

func (g *gate) pass() error {
	<-g.open
	if n := g.calls.Add(1); g.failAt > 0 && n >= g.failAt {
		return fmt.Errorf("call %d: %w", n, errBroken)
	}
	return nil
}

func (g *gate) ReadAt(p []byte, off int64) (int, error) {
	if err := g.pass(); err != nil {
		return 0, err
	}
	return g.Store.ReadAt(p, off)
}

func (g *gate) WriteAt(p []byte, off int64) (int, error) {
	if err := g.pass(); err != nil {
		return 0, err
	}
	return g.Store.WriteAt(p, off)
}

func panics(f func()) (message string) {
	defer func() {
		if v := recover(); v != nil {
			message = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

func TestStreamKeepsOrder(t *testing.T) {
	s := NewStream()
	store := NewMemStore(make([]byte, 8))
	// Each job reads what the one before wrote; more jobs than the queue holds.
	var got [3 * streamDepth][1]byte
	var last Ticket
	for i := range got {
		s.Start(Job{Store: store, Write: true, Buf: []byte{byte(i)}, Off: 3})
		ticket := s.Start(Job{Store: store, Buf: got[i][:], Off: 3})
		if ticket <= last {
			t.Fatalf("ticket %d after %d: want them to ascend", ticket, last)
		}
		last = ticket
	}
	if err := s.Wait(last); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i][0] != byte(i) {
			t.Fatalf("job %d: got %d, want %d", i, got[i][0], byte(i))
		}
	}
	if err := s.Wait(0); err != nil || s.Pending() != 0 {
		t.Errorf("got %v and %d pending, want nil and none", err, s.Pending())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStreamErrorSticks(t *testing.T) {
	s := NewStream()
	g := newGate(NewMemStore(make([]byte, 8)), 3)
	var tickets []Ticket
	for range 6 {
		tickets = append(tickets, s.Start(Job{Store: g, Buf: make([]byte, 1)}))
	}
	close(g.open)
	for i, ticket := range tickets {
		err := s.Wait(ticket)
		if failed := errors.Is(err, errBroken); failed != (i >= 2) || failed && !strings.Contains(err.Error(), "call 3") {
			t.Errorf("job %d: got %v", i+1, err)
		}
	}
	if n := g.calls.Load(); n != 3 {
		t.Errorf("got %d calls of the store, want none after the third, which failed", n)
	}
	if err := s.Wait(s.Start(Job{Store: NewMemStore(nil)})); !errors.Is(err, errBroken) {
		t.Errorf("a later job: got %v", err)
	}
	if err := s.Drain(); !errors.Is(err, errBroken) {
		t.Errorf("Drain: got %v", err)
	}
	if err := s.Close(); !errors.Is(err, errBroken) {
		t.Errorf("Close: got %v", err)
	}
}

// watch is a store that notes the most jobs that were pending during a call.
type watch struct {
	Store
	stream *Stream
	most   int
}

func (w *watch) ReadAt(p []byte, off int64) (int, error) {
	w.most = max(w.most, w.stream.Pending())
	return w.Store.ReadAt(p, off)
}

func TestStreamIsBounded(t *testing.T) {
	s := NewStream()
	// The gate holds the first job until the queue is full.
	g := newGate(NewMemStore(make([]byte, 8)), 0)
	w := &watch{Store: NewMemStore(make([]byte, 8)), stream: s}
	s.Start(Job{Store: g, Buf: make([]byte, 1)})
	for range streamDepth - 1 {
		s.Start(Job{Store: w, Buf: make([]byte, 1)})
	}
	if n := s.Pending(); n != streamDepth {
		t.Errorf("got %d pending, want %d", n, streamDepth)
	}
	var wg sync.WaitGroup
	for range 4 { // these must wait for room
		wg.Go(func() {
			for range streamDepth {
				s.Start(Job{Store: w, Buf: make([]byte, 1)})
			}
		})
	}
	close(g.open)
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if w.most > streamDepth || w.most == 0 {
		t.Errorf("got up to %d pending, want at most %d", w.most, streamDepth)
	}
}

func TestStreamCloseFinishesJobs(t *testing.T) {
	s := NewStream()
	store := NewMemStore(make([]byte, streamDepth))
	for i := range streamDepth {
		s.Start(Job{Store: store, Write: true, Buf: []byte{1}, Off: int64(i)})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i, b := range store.bytes {
		if b != 1 {
			t.Errorf("byte %d was not written before Close returned", i)
		}
	}
	for want, f := range map[string]func(){
		"double Close": func() { s.Close() },
		"Start on":     func() { s.Start(Job{Store: store}) },
		"Wait for job": func() { s.Wait(1000) },
	} {
		if got := panics(f); !strings.HasPrefix(got, "tier: ") || !strings.Contains(got, want) {
			t.Errorf("got panic %q, want %q", got, want)
		}
	}
}

func TestStreamFromManyGoroutines(t *testing.T) {
	s := NewStream()
	const goroutines, jobs = 8, 300
	store := NewMemStore(make([]byte, goroutines))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			in, out := make([]byte, 1), make([]byte, 1)
			for i := range jobs {
				in[0] = byte(i)
				s.Start(Job{Store: store, Write: true, Buf: in, Off: int64(g)})
				if err := s.Wait(s.Start(Job{Store: store, Buf: out, Off: int64(g)})); err != nil || out[0] != in[0] {
					t.Errorf("goroutine %d, job %d: got %d, %v", g, i, out[0], err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

type shortStore struct{ Store }

func (shortStore) ReadAt(p []byte, off int64) (int, error)  { return len(p) - 1, nil }
func (shortStore) WriteAt(p []byte, off int64) (int, error) { return len(p), io.EOF }

func TestStreamShortCopies(t *testing.T) {
	s := NewStream()
	// A reader may give io.EOF together with all of the bytes.
	if err := s.Wait(s.Start(Job{Store: shortStore{}, Write: true, Buf: make([]byte, 4)})); err != nil {
		t.Errorf("whole copy with io.EOF: got %v", err)
	}
	if err := s.Wait(s.Start(Job{Store: shortStore{}, Buf: make([]byte, 4), Off: 9})); !errors.Is(err, io.ErrUnexpectedEOF) ||
		err.Error() != "tier: store read 3 of 4 bytes at offset 9: unexpected EOF" {
		t.Errorf("short copy: got %v", err)
	}
	if err := s.Close(); err == nil {
		t.Error("Close: got no error")
	}
}

func TestStreamAllocatesNothing(t *testing.T) {
	s := NewStream()
	store, buf := NewMemStore(make([]byte, 4096)), make([]byte, 4096)
	round := func() {
		s.Start(Job{Store: store, Write: true, Buf: buf})
		if err := s.Wait(s.Start(Job{Store: store, Buf: buf})); err != nil {
			t.Error(err)
		}
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("got %v allocations a round, want none", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// counted is a copy of n parts, each of which waits until another is in work if there should be two.
type counted struct {
	mu      sync.Mutex
	n       int
	next    int
	begun   int
	working [2]bool
	both    bool // two parts were in work at once
	by      [2]int
	fail    int // the part that fails; −1 for none
	slow    bool
	t       *testing.T
}

func (c *counted) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working[0] || c.working[1] {
		c.t.Error("Begin while a part is in work")
	}
	c.next, c.begun = 0, c.begun+1
}

func (c *counted) Do(w int) (bool, error) {
	c.mu.Lock()
	if c.working[w] {
		c.t.Errorf("two parts in workspace %d", w)
	}
	if c.next == c.n {
		c.mu.Unlock()
		return false, nil
	}
	i := c.next
	c.next, c.working[w] = c.next+1, true
	c.by[w]++
	c.both = c.both || c.working[1-w]
	c.mu.Unlock()
	if c.slow {
		time.Sleep(time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working[w] = false
	if i == c.fail {
		c.next = c.n
		return false, errors.New("part is broken")
	}
	return true, nil
}

// Who waits for a copy in parts does some of them, and sees the copy whole afterwards.
func TestStreamSharesParts(t *testing.T) {
	s := NewStream()
	c := &counted{n: 40, fail: -1, slow: true, t: t}
	for round := range 5 {
		last := s.Start(Job{Parts: c})
		if round == 1 { // one behind another
			last = s.Start(Job{Parts: c})
		}
		if err := s.Wait(last); err != nil {
			t.Fatal(err)
		}
		if c.working != [2]bool{} || c.next != c.n {
			t.Fatalf("Wait came back with %v in work and %d of %d done", c.working, c.next, c.n)
		}
	}
	if c.begun != 6 || c.by[0]+c.by[1] != 6*c.n {
		t.Errorf("begun %d times, %v parts, want 6 times and %d", c.begun, c.by, 6*c.n)
	}
	if !c.both || c.by[0] == 0 || c.by[1] == 0 {
		t.Errorf("parts by each %v, at once %t: want both to work at once", c.by, c.both)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStreamPartFails(t *testing.T) {
	for fail := range 4 {
		s := NewStream()
		good, bad := &counted{n: 4, fail: -1, t: t}, &counted{n: 4, fail: fail, slow: true, t: t}
		s.Start(Job{Parts: good})
		s.Start(Job{Parts: bad})
		last := s.Start(Job{Parts: good})
		for _, ticket := range []Ticket{last, 2} {
			if err := s.Wait(ticket); err == nil || err.Error() != "part is broken" {
				t.Errorf("job %d: got %v, want the part's error", ticket, err)
			}
		}
		if err := s.Wait(1); err != nil {
			t.Errorf("the job before: %v", err)
		}
		if good.begun != 1 {
			t.Errorf("%d jobs of the other copy were begun, want the one before the error", good.begun)
		}
		if err := s.Close(); err == nil {
			t.Error("Close: got no error")
		}
	}
}

// Who waits from several goroutines shares one workspace.
func TestStreamPartsManyWaiters(t *testing.T) {
	s := NewStream()
	c := &counted{n: 30, fail: -1, t: t}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if err := s.Wait(s.Start(Job{Parts: c})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if c.begun != 80 || c.by[0]+c.by[1] != 80*c.n {
		t.Errorf("begun %d times, %v parts", c.begun, c.by)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
