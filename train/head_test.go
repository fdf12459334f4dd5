package train

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"loadline/compile"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/tensor/kernel"
)

// The chunk of the loss head changes no bit, with terms of the loss and without; auto takes as much as the limit leaves, and no more.
func TestHeadChunk(t *testing.T) {
	for _, precision := range []string{"fp32", "bf16"} {
		o := options(tiny())
		o.Batch, o.Seq, o.Steps, o.Precision = 12, 64, 3, precision
		o.LabelSmoothing, o.ZLoss, o.HeadChunk = 0.1, 1e-3, 128
		want := train(t, o, setup{})
		least := planned(t, o, setup{}).Promise.Memory()
		last := 0
		for _, c := range []struct {
			memory mem.Bytes
			policy compile.Policy
			rows   int // 0 is any
		}{{least, compile.None, 128}, {least + 140*mem.KiB, compile.None, 0}, {least + 16*mem.MiB, compile.None, 768}, {least, compile.Auto, 0}, {0, compile.Full, 768}} {
			o := o
			o.HeadChunk, o.Memory, o.Recompute.Policy = AutoChunk, c.memory, c.policy
			j := planned(t, o, setup{})
			name := fmt.Sprintf("%s %v within %v: chunk of %d", precision, o.Recompute, c.memory, j.HeadChunk())
			if c.rows > 0 && j.HeadChunk() != c.rows || j.HeadChunk()%128 != 0 || c.memory > 0 && j.Promise.Memory() > c.memory {
				t.Errorf("%s, of %v: want %d rows within the limit", name, j.Promise.Memory(), c.rows)
			}
			if c.policy == compile.None {
				if j.HeadChunk() < last {
					t.Errorf("%s: less than %d with more memory", name, last)
				}
				last = j.HeadChunk()
			}
			sameBits(t, name, trainJob(t, j, setup{}).losses, want.losses)
		}
		o.HeadChunk, o.Memory = AutoChunk, least-mem.KiB
		var no *DoesNotFitError
		if _, err := Compile(o, cpu.New(cpu.Options{Threads: 1, Set: kernel.Best()}), FixedBytes{}); !errors.As(err, &no) {
			t.Errorf("%s: with less than the least: got %v, want a *DoesNotFitError", precision, err)
		}
	}
}

// The loss of a step has its terms, that of an evaluation has not, and the gradient is that of the terms too: a large z-loss keeps the
// softmax's denominator near 1.
func TestLossTerms(t *testing.T) {
	o := options(tiny())
	o.Steps, o.EvalEvery, o.LR, o.WeightDecay = 1, 1, 1e-9, 0
	plain := train(t, o, setup{})
	o.LabelSmoothing, o.ZLoss = 0.2, 0.01
	got := train(t, o, setup{})
	// At the start all classes are about alike, so smoothing changes little; z is about ln(128)².
	z := 0.01 * math.Log(128) * math.Log(128)
	if d := float64(got.losses[0]-plain.losses[0]) - z; math.Abs(d) > 0.02 {
		t.Errorf("got a first loss of %v, without terms %v: want %v more", got.losses[0], plain.losses[0], z)
	}
	if d := got.vals[0].Loss - plain.vals[0].Loss; math.Abs(float64(d)) > 1e-5 {
		t.Errorf("got a validation loss of %v, want %v without terms", got.vals[0].Loss, plain.vals[0].Loss)
	}

	o = options(tiny())
	o.Steps = 60
	plain = train(t, o, setup{})
	o.ZLoss = 0.1
	got = train(t, o, setup{})
	last := o.Steps - 1
	if extra := got.losses[last] - plain.losses[last]; extra > 0.5 {
		t.Errorf("after %d steps the z-loss still adds %v", o.Steps, extra)
	}
}
