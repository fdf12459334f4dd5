package train

import (
	"fmt"
	"math"
	"testing"

	"loadline/compile"
	"loadline/model"
)

// The loss goes down on a real text.
func TestLossGoesDown(t *testing.T) {
	geglu, moe := tiny(), tinyMoE()
	geglu.HiddenAct, moe.HiddenAct = "gelu_pytorch_tanh", "gelu"
	for _, c := range []model.Config{tiny(), tinyMoE(), tinyGPT2(), geglu, moe} {
		o := options(c)
		o.Steps = 30
		r := train(t, o, setup{})
		if first, last := r.losses[0], r.losses[len(r.losses)-1]; math.Abs(float64(first)-math.Log(128)) > 0.5 || last > 0.75*first {
			t.Errorf("%s: got losses from %v to %v, want about ln 128 at first and a quarter less at last", c.ModelType, first, last)
		}
	}
}

// Recompute, attention with a fixed policy, and offload change no bit of the loss.
func TestRecomputeChangesNoBit(t *testing.T) {
	for _, c := range []model.Config{tiny(), tinyMoE()} {
		o := options(c)
		o.Dropout, o.Steps, o.Accumulate = 0.1, 3, 2
		want := train(t, o, setup{})
		for _, policy := range []string{"full", "attn.core,norm"} {
			o := o
			var err error
			if o.Recompute, err = compile.ParseRecompute(policy); err != nil {
				t.Fatal(err)
			}
			got := train(t, o, setup{})
			sameBits(t, c.ModelType+" recompute "+policy, got.losses, want.losses)
			sameBits(t, c.ModelType+" norms "+policy, got.norms, want.norms)
		}
	}
}

// Two micro-batches of B give the loss of one of 2B but for rounding, and the very tokens in the very order.
func TestAccumulation(t *testing.T) {
	o := options(tiny())
	o.Steps = 6
	want := train(t, o, setup{})
	o.Batch, o.Accumulate = 2, 2
	got := train(t, o, setup{})
	for i := range want.losses {
		if d := math.Abs(float64(got.losses[i] - want.losses[i])); d > 2e-5 {
			t.Errorf("step %d: got %v, want %v within 2e-5", i+1, got.losses[i], want.losses[i])
		}
	}
}

// All ZeRO stages give the same bits at two ranks, with and without clipping and accumulation, and one rank with the same sequences gives
// the same but for rounding.
func TestZeroChangesNoBit(t *testing.T) {
	for _, v := range []struct {
		clip float64
		acc  int
		c    model.Config
	}{{1, 1, tiny()}, {0, 1, tiny()}, {0.5, 2, tiny()}, {1, 1, tinyMoE()}} {
		name := fmt.Sprintf("%s clip %g accumulate %d", v.c.ModelType, v.clip, v.acc)
		o := options(v.c)
		o.Steps, o.Clip, o.Accumulate = 3, v.clip, v.acc
		whole := train(t, o, setup{})
		o.Batch, o.Ranks = o.Batch/2, 2
		want := train(t, o, setup{})
		for i := range want.losses {
			if d := math.Abs(float64(want.losses[i] - whole.losses[i])); d > 2e-5 {
				t.Errorf("%s: step %d on two ranks: got %v, on one %v", name, i+1, want.losses[i], whole.losses[i])
			}
		}
		got := [4]result{want}
		for stage := 1; stage <= 3; stage++ {
			o.Zero = stage
			got[stage] = train(t, o, setup{})
		}
		for stage := 1; stage <= 3; stage++ {
			sameBits(t, fmt.Sprintf("%s: losses of stage %d", name, stage), got[stage].losses, want.losses)
			sameBits(t, fmt.Sprintf("%s: norms of stage %d", name, stage), got[stage].norms, want.norms)
		}
	}
}
