package train

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"weak"

	"loadline/compile"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/tensor/kernel"
	"loadline/train/checkpoint"
)

// lowered are the ways in which the optimizer's state can lie below.
var lowered = []struct {
	name        string
	device      mem.Bytes // of a limit
	ranks, zero int
}{{"a file", 0, 1, 0}, {"the host", mem.GiB, 1, 0}, {"a file, ranks", 0, 2, 0}, {"the host, stage 1", mem.GiB, 2, 1}, {"a file, stage 3", 0, 2, 3}}

// With masters and moments on a lower tier a run has the same bits and leaves the same files, with each optimizer and storage, on ranks too, and
// keeps its promise.
func TestOptimizerBelow(t *testing.T) {
	for i, r := range rules {
		for j, s := range append(storage, struct {
			name string
			set  func(o *Options)
		}{"fp16", func(o *Options) { o.Precision = "fp16" }}) {
			o := options(tiny())
			o.Config.VocabSize, o.Batch, o.Steps, o.piece = 512, 2, 4, 1
			o.Accumulate = 1 + (i+j)%2
			if i%2 == 1 {
				o.Clip = 0
			}
			r.set(&o)
			s.set(&o)
			for k, v := range lowered {
				if n := (k + i + 2*j) % len(lowered); n > 1 { // two of them each
					continue
				}
				o := o
				o.Ranks, o.Zero = v.ranks, v.zero
				name := fmt.Sprintf("%s %s on %s", r.name, s.name, v.name)
				whole, out := t.TempDir(), t.TempDir()
				want := train(t, o, setup{out: &checkpoint.Dir{Path: whole}})
				bytes := planned(t, o, setup{}).Promise.Peak[mem.Device]
				o.OffloadOptimizer, o.DeviceMemory = true, v.device
				two := setup{out: &checkpoint.Dir{Path: out}, device: cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()})}
				job := planned(t, o, two)
				keeps := bytes[mem.OptimState]+bytes[mem.MasterWeights] > 0
				if u := job.Promise.Peak[o.OffloadTier()]; (u[mem.OptimState]+u[mem.MasterWeights] > 0) != keeps || (job.Offloaded() > 0) != keeps {
					t.Errorf("%s: %v lie there", name, u)
				}
				got := trainJob(t, job, two)
				sameBits(t, name+": losses", got.losses, want.losses)
				sameBits(t, name+": norms", got.norms, want.norms)
				sameFiles(t, filepath.Join(out, "step-4"), filepath.Join(whole, "step-4"))
			}
		}
	}
}

// A run goes on from a checkpoint whichever of the two had its state below.
func TestOptimizerBelowResumes(t *testing.T) {
	for _, first := range []bool{false, true} {
		o := options(tiny())
		o.Batch, o.Precision, o.piece = 2, "bf16", 1
		whole, out := t.TempDir(), t.TempDir()
		want := train(t, o, setup{out: &checkpoint.Dir{Path: whole}})
		o.OffloadOptimizer = first
		stopAfter(t, o, setup{out: &checkpoint.Dir{Path: out}}, 3)
		o.OffloadOptimizer = !first
		got := train(t, o, setup{out: &checkpoint.Dir{Path: out}, resume: out})
		sameBits(t, "losses", got.losses, want.losses)
		sameFiles(t, filepath.Join(out, "step-6"), filepath.Join(whole, "step-6"))
	}
}

// broad is a run whose moments are most of its memory.
func broad() Options {
	o := options(tiny())
	o.Config.VocabSize, o.Config.HiddenSize, o.Config.HeadDim, o.Batch, o.Seq = 512, 192, 48, 1, 16
	o.piece = 64 << 10
	return o
}

// What lies below is not in memory, and a run that would not fit is told of it, or takes a tier that it may use by itself; where all fits, or the tier
// is too small, it does not.
func TestLower(t *testing.T) {
	o := broad()
	whole := planned(t, o, setup{})
	o.OffloadOptimizer = true
	low := planned(t, o, setup{})
	moments := whole.Promise.Peak[mem.Device][mem.OptimState]
	if got := whole.Promise.Memory() - low.Promise.Memory(); got < moments/2 || low.Offloaded() < moments {
		t.Fatalf("%v less memory, %v below, for %v of moments", got, low.Offloaded(), moments)
	}
	if low.Waits() <= 0 || whole.Waits() != 0 || low.Seconds() <= whole.Seconds() {
		t.Errorf("waits %v of %v, and %v of %v without", low.Waits(), low.Seconds(), whole.Waits(), whole.Seconds())
	}
	o.OffloadOptimizer, o.Memory = false, low.Promise.Memory()
	_, err := Compile(o, (&setup{}).dev(), FixedBytes{})
	does := new(DoesNotFitError)
	if !errors.As(err, &does) || does.Nearest != "--offload optimizer" {
		t.Fatalf("at %v: got %v (%+v), want advice to offload", o.Memory, err, does)
	}
	for _, c := range []struct {
		lower, memory mem.Bytes
		want, fits    bool
	}{
		{low.Offloaded(), o.Memory, true, true}, {low.Offloaded() - 1, o.Memory, false, false}, {mem.GiB, whole.Promise.Memory(), false, true},
		{mem.GiB, o.Memory - 1, true, false},
	} {
		o.Lower, o.Memory = c.lower, c.memory
		o.Recompute = compile.Recompute{}
		j, err := Compile(o, (&setup{}).dev(), FixedBytes{})
		if (err == nil) != c.fits {
			t.Errorf("%v of memory, %v below: %v", c.memory, c.lower, err)
		} else if err == nil && j.Options.OffloadOptimizer != c.want {
			t.Errorf("%v of memory, %v below: below %v, want %v", c.memory, c.lower, j.Options.OffloadOptimizer, c.want)
		}
	}
	o.Lower, o.Memory = mem.GiB, (low.Promise.Memory()+whole.Promise.Memory())/2
	if j, err := Compile(o, (&setup{}).dev(), FixedBytes{}); err != nil || j.Offloaded() == 0 || j.Offloaded() > low.Offloaded()*3/4 || j.Seconds() >= low.Seconds() {
		t.Errorf("half way: %v, %v lie below, of %v", err, j.Offloaded(), low.Offloaded())
	} else {
		sameBits(t, "losses", trainJob(t, j, setup{dir: t.TempDir()}).losses, trainJob(t, whole, setup{}).losses)
	}
	o.Memory = 0
	o.Recompute, o.Lower = compile.Recompute{Policy: compile.Full}, mem.GiB // which costs less than copies
	if j, err := Compile(o, (&setup{}).dev(), FixedBytes{}); err != nil || j.Options.OffloadOptimizer {
		t.Errorf("with nothing to gain: %v", err)
	}
}

// Once nobody asks for the least memory any more, a job holds none of the programs that were compiled to find it: of a large model they take more
// than the Go runtime's line of the plan.
func TestSeal(t *testing.T) {
	o := options(tiny())
	o.OffloadOptimizer = true
	j, err := Compile(o, (&setup{}).dev(), FixedBytes{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Least(); err != nil {
		t.Fatal(err)
	}
	held := weak.Make(j.compiler)
	j.Seal()
	runtime.GC()
	if held.Value() != nil {
		t.Error("what Least looked at is still there")
	}
	runtime.KeepAlive(j)
}

// TestRuntime: the Go runtime's line of the plan grows with programs that take more of the heap than it has for them, and they take no more than is said.
func TestRuntime(t *testing.T) {
	o := options(tiny())
	o.Config.NumLayers = 30
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	j, err := Compile(o, (&setup{}).dev(), FixedBytes{Runtime: RuntimeBytes})
	if err != nil {
		t.Fatal(err)
	}
	j.Seal()
	runtime.GC()
	runtime.ReadMemStats(&after)
	var said mem.Bytes
	for _, p := range j.Programs {
		said += heapBytes(p)
	}
	if held := mem.Bytes(after.HeapAlloc - before.HeapAlloc); held > said || 2*held < said {
		t.Errorf("programs hold %d bytes of heap, %d are said", held, said)
	}
	if j.Runtime != RuntimeBytes {
		t.Errorf("runtime %v, want %v: these programs are small", j.Runtime, RuntimeBytes)
	}
	c := &compiler{fixed: FixedBytes{Runtime: RuntimeBytes}}
	many := slices.Repeat(j.Programs, 20)
	if got, want := c.runtime(many), RuntimeBytes+20*said-heapPrograms; got != want {
		t.Errorf("twenty times as many: %v, want %v", got, want)
	}
	if got := j.Promise.Peak.ByPurpose()[mem.Runtime]; got != j.Runtime {
		t.Errorf("the plan has %v for the runtime, want %v", got, j.Runtime)
	}
}
