package par

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain turns the test binary into a process that takes a core when asked to.
func TestMain(m *testing.M) {
	if os.Getenv("PAR_TEST_BURN") != "" {
		go func() {
			fmt.Println("burning")
			for x := 1; ; x++ {
				burned.Store(int64(x))
			}
		}()
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var burned atomic.Int64

func TestEveryChunkOnce(t *testing.T) {
	for threads := 1; threads <= 5; threads++ {
		p := New(threads)
		if p.Threads() != threads {
			t.Errorf("Threads got %d, want %d", p.Threads(), threads)
		}
		counts := make([]int, 1000) // not atomic: the race detector checks the hand-over
		for _, n := range []int{0, 1, 2, 3, 7, 64, 1000} {
			for rep := range 20 {
				clear(counts)
				p.Do(n, func(i int) { counts[i]++ })
				for i, c := range counts {
					if want := 0; i < n {
						want = 1
						if c != want {
							t.Fatalf("%d threads, n %d, loop %d: chunk %d ran %d times, want 1", threads, n, rep, i, c)
						}
					} else if c != want {
						t.Fatalf("%d threads, n %d: chunk %d ran, want none", threads, n, i)
					}
				}
			}
		}
		p.Close()
	}
}

// owned checks that a worker number is never used by two chunks at once.
type owned struct {
	inUse [4]atomic.Int32
	sums  [4]int
	bad   atomic.Int32
}

func (o *owned) Run(i, worker int) {
	if o.inUse[worker].Add(1) != 1 {
		o.bad.Add(1)
	}
	o.sums[worker] += i
	for range i % 50 {
		pause(1)
	}
	o.inUse[worker].Add(-1)
}

func TestWorkerNumbers(t *testing.T) {
	p := New(4)
	defer p.Close()
	var o owned
	for range 50 {
		p.DoTask(100, &o)
	}
	if o.bad.Load() != 0 {
		t.Errorf("%d chunks shared a worker number", o.bad.Load())
	}
	got := 0
	for _, s := range o.sums {
		got += s
	}
	if want := 50 * 99 * 100 / 2; got != want {
		t.Errorf("sum of chunks got %d, want %d", got, want)
	}
}

func TestAllThreadsTakePart(t *testing.T) {
	const threads = 3
	p := New(threads)
	defer p.Close()
	var here atomic.Int32
	p.Do(threads, func(int) { // each chunk waits for the others
		here.Add(1)
		for here.Load() < threads {
			runtime.Gosched()
		}
	})
}

func TestParkedWorkersWake(t *testing.T) {
	p := New(2)
	defer p.Close()
	for range 20 {
		for deadline := time.Now().Add(10 * time.Second); !p.workers[0].parked.Load(); {
			if time.Now().After(deadline) {
				t.Fatal("an idle worker did not park in 10 s")
			}
			runtime.Gosched()
		}
		var here atomic.Int32
		p.Do(2, func(int) {
			here.Add(1)
			for here.Load() < 2 {
				runtime.Gosched()
			}
		})
	}
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic got %q, want %q", got, want)
		}
	}()
	f()
}

func TestMisuse(t *testing.T) {
	for threads := 1; threads <= 2; threads++ {
		p := New(threads)
		p.Do(1, func(int) {
			mustPanic(t, "a loop is running", func() { p.Do(1, func(int) {}) })
			mustPanic(t, "a loop is running", p.Close)
		})
		mustPanic(t, "out of range", func() { p.Do(-1, func(int) {}) })
		p.Do(3, func(int) {}) // still usable
		p.Close()
		p.Close()
		mustPanic(t, "closed", func() { p.Do(1, func(int) {}) })
	}
	mustPanic(t, "fewer threads", func() { New(0) })
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 2000 { // a close may find a worker awake, parked, or about to do either
		p := New(2 + i%3)
		for range i % 4 {
			p.Do(8, func(int) {})
		}
		p.Close()
	}
	// A worker has left its WaitGroup a moment before the runtime counts it as gone.
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("goroutines got %d, want %d", runtime.NumGoroutine(), before)
		}
	}
}

// TestCallerParks: a caller whose last chunk a worker holds gives its core away, and is woken.
func TestCallerParks(t *testing.T) {
	p := New(2)
	defer p.Close()
	for range 50 {
		o := &holdUp{p: p}
		p.DoTask(2, o)
		if !o.held.Load() || !o.parked.Load() {
			t.Fatalf("the worker had a chunk: %v; the caller parked: %v", o.held.Load(), o.parked.Load())
		}
	}
}

// holdUp is a loop of two chunks: the worker keeps one until the caller, which has had the other, has parked.
type holdUp struct {
	p            *Pool
	held, parked atomic.Bool
}

func (h *holdUp) Run(_, worker int) {
	if worker == 0 {
		for !h.held.Load() {
			runtime.Gosched()
		}
		return
	}
	h.held.Store(true)
	for !h.p.caller.parked.Load() {
		runtime.Gosched()
	}
	h.parked.Store(true)
}

func TestNoAllocation(t *testing.T) {
	p := New(2)
	defer p.Close()
	var o owned
	f := func(int) {}
	if got := testing.AllocsPerRun(200, func() { p.DoTask(8, &o); p.Do(8, f) }); got != 0 {
		t.Errorf("allocations a loop got %v, want 0", got)
	}
}

// TestAnotherProcessTakesACore: with every core contended a loop slows down by its share, and does not
// collapse to a scheduler's time slice a loop (4 ms or more).
func TestAnotherProcessTakesACore(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAR_TEST_BURN=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p := New(max(2, runtime.NumCPU()))
	defer p.Close()
	const loops = 2000
	start := time.Now()
	for range loops {
		p.Do(8, func(int) {
			for range 100 {
				pause(1)
			}
		})
	}
	if mean := time.Since(start) / loops; mean > 2*time.Millisecond {
		t.Errorf("mean loop with a busy process got %v, want below 2ms", mean)
	} else {
		t.Logf("mean loop with a busy process: %v", mean)
	}
}

func BenchmarkDo(b *testing.B) {
	for threads := 1; threads <= 2; threads++ {
		b.Run(fmt.Sprintf("empty/%dthreads", threads), func(b *testing.B) {
			p := New(threads)
			defer p.Close()
			f := func(int) {}
			for b.Loop() {
				p.Do(threads, f)
			}
		})
	}
}
