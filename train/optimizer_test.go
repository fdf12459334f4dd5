package train

import (
	"fmt"
	"path/filepath"
	"testing"

	"loadline/compile"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train/checkpoint"
)

// rule is an optimizer with settings that suit a tiny model.
type rule struct {
	name string
	set  func(o *Options)
}

var rules = []rule{
	{"adamw", func(*Options) {}},
	{"sgd", func(o *Options) { o.Optimizer, o.LR = compile.SGD, 0.1 }},
	{"nesterov", func(o *Options) { o.Optimizer, o.Momentum, o.Nesterov, o.LR = compile.SGD, 0.9, true, 0.05 }},
	{"lion", func(o *Options) { o.Optimizer, o.Beta2, o.LR = compile.Lion, 0.99, 1e-3 }},
	{"adafactor", func(o *Options) { o.Optimizer, o.LR = compile.Adafactor, 1e-2 }},
}

// storage is how weights are kept.
var storage = []struct {
	name string
	set  func(o *Options)
}{
	{"fp32", func(*Options) {}},
	{"bf16", func(o *Options) { o.Precision = "bf16" }},
	{"bf16 without masters", func(o *Options) { o.Precision, o.NoMaster = "bf16", true }},
}

// Every optimizer learns in every kind of storage, and neither recompute nor threads change a bit.
func TestOptimizersLearn(t *testing.T) {
	for _, r := range rules {
		for _, s := range storage {
			o := options(tiny())
			o.Steps, o.Batch, o.Seq = 40, 2, 32
			r.set(&o)
			s.set(&o)
			name := r.name + " " + s.name
			want := train(t, o, setup{})
			first, last := want.losses[0], want.losses[o.Steps-1]
			if !(last < 0.85*first) {
				t.Errorf("%s: losses from %v to %v: want less than 85%%", name, first, last)
			}
			t.Logf("%s: losses from %v to %v", name, first, last)
			o.Steps = 4 // with a schedule of its own
			want = train(t, o, setup{})
			o.Recompute.Policy = compile.Full
			got := train(t, o, setup{device: cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()})})
			sameBits(t, name+", recomputed on two threads", got.losses, want.losses)
		}
	}
}

// Every ZeRO stage has the same bits, with each optimizer and storage, and a run that goes on in another stage leaves the same files.
func TestOptimizersOnRanks(t *testing.T) {
	for i, r := range rules {
		for _, s := range storage {
			for _, c := range []model.Config{tiny(), tinyMoE()} {
				if c.MoE() && (r.name != "adafactor" || s.name == "bf16") {
					continue
				}
				o := options(c)
				o.Batch, o.Ranks, o.Steps = 1, 2, 4
				if o.Accumulate = 1 + i%2; c.MoE() {
					o.Accumulate = 2
				}
				r.set(&o)
				s.set(&o)
				name := c.ModelType + " " + r.name + " " + s.name
				whole, out := t.TempDir(), t.TempDir()
				want := train(t, o, setup{out: &checkpoint.Dir{Path: whole}})
				for o.Zero = 1; o.Zero <= 3; o.Zero++ {
					if !o.NoMaster && o.Zero != 1+i%3 {
						continue // the stages are the same to a master
					}
					got := train(t, o, setup{})
					sameBits(t, fmt.Sprintf("%s stage %d", name, o.Zero), got.losses, want.losses)
				}
				o.Zero = 3 - i%3
				stopAfter(t, o, setup{out: &checkpoint.Dir{Path: out}}, 2)
				o.Zero = 0
				got := train(t, o, setup{out: &checkpoint.Dir{Path: out}, resume: out})
				sameBits(t, name+" resumed", got.losses, want.losses)
				sameFiles(t, filepath.Join(out, "step-4"), filepath.Join(whole, "step-4"))
			}
		}
	}
}

// The plan of each optimizer's State: two moments, one, none, or a row and a column; and no masters where there are none.
func TestOptimizerBytes(t *testing.T) {
	var weights, factored mem.Bytes
	for _, p := range tiny().Parameters() {
		s := p.Type.Shape
		n := mem.Bytes(p.Elems())
		weights += 4 * n
		if factored += 4 * n; s.N == 2 {
			factored += 4 * mem.Bytes(s.Dims[0].N+s.Dims[1].N-int(n))
		}
	}
	want := map[string]mem.Bytes{"adamw": 2 * weights, "sgd": 0, "nesterov": weights, "lion": weights, "adafactor": factored}
	for _, r := range rules {
		for _, s := range storage {
			o := options(tiny())
			r.set(&o)
			s.set(&o)
			by := planned(t, o, setup{}).Promise.Peak.ByPurpose()
			if got, want := by[mem.OptimState], want[r.name]; got < want || got > want+want/20+mem.KiB {
				t.Errorf("%s %s: %v of optimizer state, want %v", r.name, s.name, got, want)
			}
			if has := by[mem.MasterWeights] > 0; has != (s.name == "bf16") {
				t.Errorf("%s %s: %v of masters", r.name, s.name, by[mem.MasterWeights])
			}
		}
	}
}

// Without masters, and with every update rounded at random, 200 losses stay near those of fp32. The rounding has no bias: nearest rounding
// loses updates that are smaller than half a step of bf16, and the run with it.
func TestStochasticRoundingFollowsPyTorch(t *testing.T) {
	c, o, like := loadCurve(t, "curve_dense")
	o.Precision, o.NoMaster = "bf16", true
	got := train(t, o, like)
	worst := 0.0
	for i := 0; i < len(c.LossesF64); i += 20 { // means of twenty
		var sum, want float64
		for k := i; k < i+20; k++ {
			sum, want = sum+float64(got.losses[k]), want+c.LossesF64[k]
		}
		if d := (sum - want) / want; !(d < 0.02 && d > -0.02) {
			t.Errorf("steps %d to %d: mean loss %v, want %v within 2%%", i, i+19, sum/20, want/20)
		} else if worst = max(worst, d, -d); false {
			continue
		}
	}
	t.Logf("largest difference of means %.2g of the loss", worst)
}
