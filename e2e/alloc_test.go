package e2e

import (
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"loadline/compile"
	"loadline/device"
	"loadline/model"
	"loadline/train"
)

// counted is a device that counts the runs in which its programs allocate on the Go heap, from the second run of each on.
type counted struct {
	device.Device
	runs, allocate map[string]int
}

// Open opens a session of the device behind.
func (c *counted) Open(j *compile.Job, e device.Env) (device.Session, error) {
	s, err := c.Device.Open(j, e)
	return &countedSession{s, c}, err
}

type countedSession struct {
	device.Session
	c *counted
}

// Run runs and counts, but for what the caller's own Sink allocates, which is given a file to write. Other goroutines' allocations count
// too, so nothing else may be running.
func (s *countedSession) Run(program string, a device.Args) error {
	var before, after, sink runtime.MemStats
	theirs := uint64(0)
	if f := a.Sink; f != nil {
		a.Sink = func(state string, p []byte) error {
			runtime.ReadMemStats(&sink)
			n := sink.Mallocs
			err := f(state, p)
			runtime.ReadMemStats(&sink)
			theirs += sink.Mallocs - n
			return err
		}
	}
	runtime.ReadMemStats(&before)
	err := s.Session.Run(program, a)
	runtime.ReadMemStats(&after)
	if n := s.c.runs[program]; n > 0 {
		if after.Mallocs-before.Mallocs > theirs {
			s.c.allocate[program]++
		}
	}
	s.c.runs[program]++
	return err
}

// keepWaiters makes the runtime keep enough of what it allocates for a goroutine that waits: it goes from core to core, and one may have none left.
func keepWaiters() {
	const n = 1000
	var waiting, done sync.WaitGroup
	begin := make(chan struct{})
	for range n {
		waiting.Add(1)
		done.Go(func() {
			waiting.Done()
			<-begin
		})
	}
	waiting.Wait()
	time.Sleep(time.Millisecond) // the last is on its way from Done to begin
	close(begin)
	done.Wait()
}

// From its second run on, every program of a job allocates nothing: steps, micro-batches, norms, updates, evaluations, saves; in every
// precision, with one thread and two, and whatever is done about memory. What the Go runtime allocates for itself, as
// for a new thread, falls in single runs, so a program fails that allocates in more than half of its own.
func TestRunsAllocateNothing(t *testing.T) {
	axes := []axis{
		{"precision", []string{"fp32", "bf16", "fp16"}},
		{"threads", []string{"1", "2"}},
		{"model", []string{model.Llama, model.Mixtral, model.GPT2}},
		{"attention", []string{"flash", "standard"}},
		{"recompute", []string{"none", "full"}},
		{"offload", []string{"off", "host", "disk", "optimizer to disk", "both to host"}},
		{"accumulate", []string{"1", "2"}},
		{"clip", []string{"0", "1"}},
	}
	programs := map[string]bool{}
	for _, c := range cover(axes, 2, func([]int) bool { return true }) {
		t.Run(named(axes, c), func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection frees what the runtime keeps for goroutines that wait
			keepWaiters()
			x := cell{axes, c}
			config := map[string]model.Config{model.Llama: dense(2), model.Mixtral: experts(2), model.GPT2: gpt2(2)}[x.value(2)]
			o := train.Defaults(config)
			o.Batch, o.Seq, o.Steps, o.Warmup, o.EvalEvery, o.SaveEvery, o.Keep, o.Dropout = 3, 90, 6, 1, 2, 1, 1, 0.1
			o.Precision, o.Attention, o.Accumulate, o.Clip = x.value(0), x.value(3), x.number(6), float64(x.number(7))
			o.Recompute = policy(t, x.value(4))
			setOffload(&o, x.value(5))
			d := &counted{newCPU(x.number(1)), map[string]int{}, map[string]int{}}
			s := setup{device: func(int) device.Device { return d }, out: t.TempDir()}
			execute(t, plan(t, o, s), s)
			for _, p := range slices.Sorted(maps.Keys(d.runs)) {
				runs := d.runs[p] - 1
				if runs == 0 {
					continue
				}
				programs[p] = true
				if n := d.allocate[p]; 2*n > runs {
					t.Errorf("program %q allocates in %d of %d runs", p, n, runs)
				}
			}
		})
	}
	t.Logf("programs: %v", slices.Sorted(maps.Keys(programs)))
	for _, p := range []string{train.StepProgram, train.MicroProgram, train.UpdateProgram, train.NormProgram, train.EvalProgram, train.SaveProgram} {
		if !programs[p] {
			t.Errorf("program %q did not run twice", fmt.Sprint(p))
		}
	}
}
