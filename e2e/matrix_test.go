package e2e

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"loadline/compile"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train"
)

// Axes of the matrix. Those before memoryAxes are of what is computed: they may change its bits. The others may not.
const (
	axisPrecision = iota
	axisKernels
	axisModel
	axisAttention
	axisOptimizer
	axisAccumulate
	axisRanks
	memoryAxes

	axisRecompute = iota - 1
	axisOffload
	axisZero
	axisThreads
	axisChunk
	axisStop
)

// matrixAxes are the axes for a number of ranks in one process, and their values. The first of each memory axis is what runs are
// compared with.
func matrixAxes() []axis {
	var sets []string
	for _, s := range kernel.Sets() {
		sets = append(sets, s.Name())
	}
	return []axis{
		{"precision", []string{"fp32", "bf16", "bf16 alone", "fp16"}}, // alone is without masters
		{"kernels", sets},
		{"model", []string{model.Llama, model.Mixtral, model.GPT2}},
		{"attention", []string{"flash", "standard"}},
		{"optimizer", []string{"adamw", "sgd", "lion", "adafactor"}},
		{"accumulate", []string{"1", "2"}},
		{"ranks", []string{"1", "2"}},
		{"recompute", []string{"none", "full", "attn.core,norm", "auto half", "auto least"}},
		{"offload", []string{"off", "host", "disk", "optimizer to disk", "both to host"}},
		{"zero", []string{"0", "1", "2", "3"}},
		{"threads", []string{"1", "2"}},
		{"head rows", []string{"128", "256"}},
		{"stopped", []string{"no", "half way"}},
	}
}

// cell is a run of the matrix.
type cell struct {
	axes []axis
	c    []int
}

func (x cell) value(axis int) string { return x.axes[axis].values[x.c[axis]] }

func (x cell) number(axis int) int {
	n, err := strconv.Atoi(x.value(axis))
	if err != nil {
		panic(err)
	}
	return n
}

// options are the cell's, but for what automatic recompute is given.
func (x cell) options() train.Options {
	config := map[string]model.Config{model.Llama: dense(3), model.Mixtral: experts(2), model.GPT2: gpt2(3)}[x.value(axisModel)]
	o := train.Defaults(config)
	// Rows times width is the least that is offloaded, and more than a chunk of the loss head.
	o.Batch, o.Seq, o.Steps, o.Warmup, o.LR = 3, 90, 4, 1, 2e-3
	o.Dropout, o.EvalEvery, o.Keep = 0.1, 2, 1
	o.Precision, o.NoMaster = strings.CutSuffix(x.value(axisPrecision), " alone")
	o.Attention, o.Optimizer = x.value(axisAttention), compile.Optimizer(x.c[axisOptimizer])
	o.Accumulate, o.Ranks = x.number(axisAccumulate), x.number(axisRanks)
	o.Zero, o.HeadChunk = x.number(axisZero), x.number(axisChunk)
	setOffload(&o, x.value(axisOffload))
	return o
}

// setOffload reads a value of an axis of what is offloaded, and where to.
func setOffload(o *train.Options, value string) {
	if strings.HasSuffix(value, "host") {
		o.DeviceMemory = mem.GiB
	}
	o.Offload = value != "off" && !strings.HasPrefix(value, "optimizer")
	o.OffloadOptimizer = strings.HasPrefix(value, "optimizer") || strings.HasPrefix(value, "both")
}

// run makes the cell's run and keeps its promise: what was predicted is what the ledger saw, to the byte.
func (x cell) run(t *testing.T, dir string) result {
	t.Helper()
	o := x.options()
	s := setup{device: cpuOf(kernel.Sets()[x.c[axisKernels]], x.number(axisThreads)), out: dir}
	switch x.value(axisRecompute) {
	case "auto half":
		halfway(t, &o, s)
	case "auto least":
		tightest(t, &o, s)
	default:
		o.Recompute = policy(t, x.value(axisRecompute))
	}
	j := plan(t, o, s)
	if o.Offload && j.Arena[o.OffloadTier()] == 0 && x.value(axisRecompute) == "none" {
		t.Errorf("nothing goes to %v", o.OffloadTier())
	}
	if x.value(axisRecompute) != "none" && j.Step.Again == 0 {
		t.Error("nothing is computed again")
	}
	if x.value(axisStop) == "no" {
		return execute(t, j, s)
	}
	half := *j
	half.Options.Steps = o.Steps / 2
	before := execute(t, &half, s)
	s.resume = s.out
	after := execute(t, j, s)
	after.norms = append(before.norms, after.norms...) // which a checkpoint does not hold
	return after
}

// plain is the cell that has the same numbers and no technique.
func (x cell) plain() cell {
	c := append([]int(nil), x.c...)
	clear(c[memoryAxes:])
	return cell{x.axes, c}
}

// Every promise for every precision and set of kernels that this machine runs: the bytes are those that were planned, and losses, norms
// and trained weights have the same bits whatever is done about memory, threads, the loss head's rows, division among ranks and being
// stopped and resumed. Each precision on each set meets each value of every other axis, and each pair of those is in one of the runs at
// least; -v prints them.
func TestMatrix(t *testing.T) {
	whole := t // runs that others are compared with leave their weights as long as it lasts
	axes := matrixAxes()
	chosen := cover(axes, 2, func(c []int) bool {
		o := cell{axes, c}.options()
		return o.Validate() == nil
	})
	if testing.Short() {
		chosen = chosen[:len(chosen)/3]
	}
	t.Logf("%d runs\n%s", len(chosen), table(axes, chosen))
	plain := struct {
		sync.Mutex
		runs map[string]func() result
	}{runs: map[string]func() result{}}
	for _, c := range chosen {
		x := cell{axes, c}
		t.Run(named(axes, c), func(t *testing.T) {
			t.Parallel()
			key := named(axes[:memoryAxes], x.c[:memoryAxes])
			plain.Lock()
			want := plain.runs[key]
			if want == nil {
				want = sync.OnceValue(func() result { return x.plain().run(t, whole.TempDir()) })
				plain.runs[key] = want
			}
			plain.Unlock()
			sameRun(t, x.run(t, t.TempDir()), want())
		})
	}
}
