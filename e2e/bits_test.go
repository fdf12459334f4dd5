package e2e

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"loadline/compile"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/device/far"
	"loadline/device/ref"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train"
)

// bitSteps is how long losses are compared.
const bitSteps = 20

// bitOptions are those of the runs that are compared: enough rows for two chunks of the loss head and more bytes in a value than the
// smallest that is offloaded, dropout, clipping, accumulation, evaluation.
func bitOptions(c model.Config) train.Options {
	o := train.Defaults(c)
	o.Batch, o.Seq, o.Accumulate, o.Steps, o.Warmup, o.LR = 4, 40, 2, bitSteps, 4, 4e-3
	o.Dropout, o.HeadChunk, o.EvalEvery = 0.1, 128, 10
	return o
}

// cpuOf makes a processor for each rank.
func cpuOf(set kernel.Set, threads int) func(int) device.Device {
	return func(int) device.Device { return cpu.New(cpu.Options{Threads: threads, Set: set}) }
}

// run compiles and runs, and keeps the promise.
func run(t testing.TB, o train.Options, s setup) result {
	t.Helper()
	return execute(t, plan(t, o, s), s)
}

// sameRun fails unless two runs have the same losses, validation losses, gradient norms and, where both were saved, weights.
func sameRun(t testing.TB, got, want result) {
	t.Helper()
	if !sameBits(t, "losses", got.losses, want.losses) {
		return
	}
	sameBits(t, "gradient norms", got.norms, want.norms)
	if fmt.Sprint(got.vals) != fmt.Sprint(want.vals) || len(want.vals) == 0 {
		t.Errorf("validation losses: got %v, want %v", got.vals, want.vals)
	}
	if got.path != "" && want.path != "" && !bytes.Equal(modelFile(t, got.path), modelFile(t, want.path)) {
		t.Error("trained weights differ")
	}
}

// variant is a way to make the same run in other memory.
type variant struct {
	name    string
	edit    func(t *testing.T, o *train.Options, s setup)
	threads int
	check   func(t *testing.T, j *train.Job) // that the variant is what its name says
}

func recompute(text string) func(t *testing.T, o *train.Options, s setup) {
	return func(t *testing.T, o *train.Options, s setup) { o.Recompute = policy(t, text) }
}

// wantAgain wants something to be computed again, and wantNested something more than once, where that saves memory: in a few layers whose
// gradients, being accumulated, take no part of the arena.
func wantAgain(t *testing.T, j *train.Job) {
	if j.Step.Again == 0 {
		t.Error("nothing is computed again")
	}
}

func wantNested(t *testing.T, j *train.Job) {
	if wantAgain(t, j); j.Options.Accumulate > 1 && j.Options.Config.NumLayers > 3 && !nested(j.Step) {
		t.Error("no layer is replayed more than once")
	}
}

// wantCopies wants values to leave the device.
func wantCopies(to mem.Tier) func(t *testing.T, j *train.Job) {
	return func(t *testing.T, j *train.Job) {
		if j.Arena[to] == 0 {
			t.Errorf("nothing goes to %v", to)
		}
	}
}

// wantBelow wants optimizer state to lie on a lower tier.
func wantBelow(t *testing.T, j *train.Job) {
	if j.Offloaded() == 0 {
		t.Error("no state lies below")
	}
}

func variants() []variant {
	toDisk := func(t *testing.T, o *train.Options, s setup) { o.Offload = true }
	toHost := func(t *testing.T, o *train.Options, s setup) { o.Offload, o.DeviceMemory = true, mem.GiB }
	return []variant{
		{name: "again", edit: recompute("none")},
		{name: "two threads", edit: recompute("none"), threads: 2},
		{name: "recompute full", edit: recompute("full"), check: wantAgain},
		{name: "recompute tags", edit: recompute("attn.core,norm"), check: wantAgain, threads: 2},
		{name: "recompute auto, half", edit: func(t *testing.T, o *train.Options, s setup) { halfway(t, o, s) }, check: wantAgain},
		{name: "recompute auto, least", edit: func(t *testing.T, o *train.Options, s setup) { tightest(t, o, s) }, check: wantNested, threads: 2},
		{name: "offload to disk", edit: toDisk, check: wantCopies(mem.Disk)},
		{name: "offload to host", edit: toHost, check: wantCopies(mem.Host), threads: 2},
		{name: "offload to host, recompute auto", edit: func(t *testing.T, o *train.Options, s setup) {
			toHost(t, o, s)
			halfway(t, o, s)
		}},
		{name: "offload to disk, recompute tags", edit: func(t *testing.T, o *train.Options, s setup) {
			toDisk(t, o, s)
			recompute("mlp")(t, o, s)
		}, check: wantAgain},
		{name: "optimizer to disk", edit: func(t *testing.T, o *train.Options, s setup) { o.OffloadOptimizer = true }, check: wantBelow},
		{name: "optimizer and activations to host, recompute auto", edit: func(t *testing.T, o *train.Options, s setup) {
			toHost(t, o, s)
			o.OffloadOptimizer = true
			halfway(t, o, s)
		}, check: wantBelow, threads: 2},
		{name: "one step a save", edit: func(t *testing.T, o *train.Options, s setup) { o.SaveEvery, o.Keep = 4, 1 }},
	}
}

// precisions are those that the techniques are tried in for long; the matrix has all of them with all sets of kernels for short.
func precisions() []string {
	if testing.Short() {
		return []string{"fp32"}
	}
	return []string{"fp32", "bf16", "fp16"}
}

// A budget never changes the answer: recompute, offload, threads and saving, in every precision, for each attention.
func TestMemoryChangesNoBit(t *testing.T) {
	set := kernel.Best()
	for _, precision := range precisions() {
		for _, c := range []model.Config{dense(4), experts(2)} {
			for _, attention := range []string{"flash", "standard"} {
				if testing.Short() && attention == "standard" || precision != "fp32" && c.MoE() == (attention == "flash") {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", precision, c.ModelType, attention), func(t *testing.T) {
					t.Parallel()
					o := bitOptions(c)
					o.Attention, o.Precision = attention, precision
					s := setup{device: cpuOf(set, 1), out: t.TempDir()}
					want := run(t, o, s)
					for _, v := range variants() {
						t.Run(v.name, func(t *testing.T) {
							o, s := o, setup{device: cpuOf(set, max(v.threads, 1)), out: t.TempDir()}
							v.edit(t, &o, s)
							j := plan(t, o, s)
							if v.check != nil {
								v.check(t, j)
							}
							sameRun(t, execute(t, j, s), want)
						})
					}
				})
			}
		}
	}
}

// Two ranks give the same bits in every ZeRO stage, whatever else is done about memory.
func TestZeroChangesNoBit(t *testing.T) {
	set := kernel.Best()
	for _, precision := range precisions() {
		for _, c := range []model.Config{dense(4), experts(2)} {
			o := bitOptions(c)
			o.Batch, o.Ranks, o.Precision, o.Zero = 2, 2, precision, 3
			if o.Validate() != nil { // this precision is not shared out
				continue
			}
			o.Zero = 0
			t.Run(fmt.Sprintf("%s/%s", precision, c.ModelType), func(t *testing.T) {
				s := setup{device: cpuOf(set, 1), out: t.TempDir()}
				want := run(t, o, s)
				for stage := 1; stage <= 3; stage++ {
					t.Run(fmt.Sprint("stage ", stage), func(t *testing.T) {
						o, s := o, setup{device: cpuOf(set, 1), out: t.TempDir()}
						o.Zero = stage
						sameRun(t, run(t, o, s), want)
					})
				}
				t.Run("everything at once", func(t *testing.T) {
					o, s := o, setup{device: cpuOf(set, 2), out: t.TempDir()}
					o.Zero, o.Offload, o.OffloadOptimizer, o.DeviceMemory = 3, true, true, mem.GiB
					halfway(t, &o, s)
					sameRun(t, run(t, o, s), want)
				})
			})
		}
	}
}

// The rows of logits that the loss head holds at once change no bit, and neither does holding them all.
func TestChunksChangeNoBit(t *testing.T) {
	set := kernel.Best()
	for _, precision := range precisions() {
		o := bitOptions(dense(1))
		o.Precision = precision
		o.Batch, o.Seq, o.Accumulate, o.EvalEvery = 10, 64, 1, bitSteps // 640 rows: five chunks of 128, two and a half of 256, one and a quarter of 512
		if testing.Short() {
			o.Steps, o.EvalEvery = 5, 5
		}
		var want result
		for i, chunk := range []int{128, 256, 512, 640} {
			o.HeadChunk = chunk
			o.Recompute = compile.Recompute{Policy: []compile.Policy{compile.None, compile.Full}[i%2]}
			t.Run(fmt.Sprintf("%s/%d", precision, chunk), func(t *testing.T) {
				got := run(t, o, setup{device: cpuOf(set, 1+i/2)})
				if want.losses == nil {
					want = got
					return
				}
				sameRun(t, got, want)
			})
		}
	}
}

// A pretend device whose memory the host cannot read computes what the processor does.
func TestFarIsCPU(t *testing.T) {
	for _, c := range []model.Config{dense(2), experts(2), gpt2(2)} {
		for _, v := range []variant{variants()[0], {name: "offload to host", edit: func(t *testing.T, o *train.Options, s setup) {
			o.Offload, o.OffloadOptimizer, o.DeviceMemory = true, true, mem.GiB
		}}} {
			t.Run(c.ModelType+"/"+v.name, func(t *testing.T) {
				o := bitOptions(c)
				want := run(t, o, setup{out: t.TempDir()})
				s := setup{out: t.TempDir(), loose: true, device: func(int) device.Device { return far.New(cpu.Options{Threads: 2, Set: kernel.Best()}) }}
				v.edit(t, &o, s)
				sameRun(t, run(t, o, s), want)
			})
		}
	}
}

// refBound is how far a loss on cpu may be from that on ref, in nats: ref sums in float64 and rounds once, cpu sums in float32 by blocks. A
// loss of 5 nats has an ulp of 4.8e-7, which is what such differences come to in twenty updates; four ulps are let pass.
const refBound = 2e-6

// Every kernel set is within a bound of the reference at each of 20 steps.
func TestCPUNearRef(t *testing.T) {
	for _, c := range []model.Config{dense(2), experts(2), gpt2(2)} {
		for _, attention := range []string{"flash", "standard"} {
			if testing.Short() && attention == "standard" {
				continue
			}
			t.Run(c.ModelType+"/"+attention, func(t *testing.T) {
				t.Parallel()
				o := bitOptions(c)
				o.Attention, o.Batch, o.Accumulate = attention, 2, 1
				want := run(t, o, setup{device: func(int) device.Device { return ref.New(ref.F32) }})
				if d := want.losses[0] - want.losses[bitSteps-1]; d < 0.2 {
					t.Errorf("the loss falls by %v nats alone", d)
				}
				for _, set := range kernel.Sets() {
					got := run(t, o, setup{device: cpuOf(set, 1)})
					worst := 0.0
					for i := range want.losses {
						worst = max(worst, math.Abs(float64(got.losses[i])-float64(want.losses[i])))
					}
					t.Logf("%s: largest difference %.2g nats", set.Name(), worst)
					if !(worst <= refBound) {
						t.Errorf("%s: losses are off by up to %v, want %v at most", set.Name(), worst, refBound)
					}
				}
			})
		}
	}
}
