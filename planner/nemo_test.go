package planner

import (
	"math"
	"slices"
	"testing"

	"loadline/planner/frameworks"
	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// nemo are NVIDIA's pre-training results in FP8 on DGX H100 with container 24.07: NVIDIA/NeMo at 070a0bb,
// docs/source/performance/performance_summary.md.
var nemo = []struct {
	model                             string
	ranks, global, micro, seq, tp, pp int
	cp, virtual                       int
	perGPU                            float64
}{
	{"Llama-2-7B", 8, 128, 1, 4096, 1, 1, 1, 1, 16847},
	{"Llama-2-13B", 16, 128, 1, 4096, 1, 4, 1, 10, 8646},
	{"Llama-2-70B", 64, 128, 1, 4096, 4, 4, 1, 20, 1707},
	{"Llama-3.1-8B", 8, 128, 1, 8192, 1, 1, 2, 1, 12036},
	{"Llama-3.1-70B", 64, 128, 1, 8192, 4, 4, 2, 5, 1533},
}

// TestMegatronSpeed checks the tokens a second of Megatron against NVIDIA's own figures.
func TestMegatronSpeed(t *testing.T) {
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	card, err := table.Find("H100-SXM-80GB")
	if err != nil {
		t.Fatal(err)
	}
	var off []float64
	for _, r := range nemo {
		s, ok := cards.ByName(r.model)
		if !ok {
			t.Fatalf("no model %q", r.model)
		}
		j := frameworks.Job{
			Shape: s, Ranks: r.ranks, TP: r.tp, PP: r.pp, CP: r.cp, MicroBatch: r.micro, GlobalBatch: r.global, Seq: r.seq, FP8: true,
			Shard: frameworks.ShardOptim, SequenceParallel: r.tp > 1,
		}
		if r.virtual > 1 {
			j.ChunkLayers = s.Depth() / (r.pp * r.virtual)
		}
		got := frameworks.TrainStep(j, card, frameworks.ProfileOf("megatron")).PerSecond() / float64(r.ranks)
		off = append(off, math.Abs(got/r.perGPU-1))
		t.Logf("%-14s %3d ranks: got %6.0f tokens/s a GPU, want %6.0f: %+.1f%%", r.model, r.ranks, got, r.perGPU, 100*(got/r.perGPU-1))
	}
	slices.Sort(off)
	if m := off[len(off)/2]; m > 0.06 {
		t.Errorf("got a median error of %.1f%%, want at most 6%%", 100*m)
	}
	if worst := off[len(off)-1]; worst > 0.1 {
		t.Errorf("got an error of %.1f%%, want at most 10%%", 100*worst)
	}
}
