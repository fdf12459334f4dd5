package planner

import (
	"testing"

	"loadline/planner/frameworks"
	"loadline/planner/hardware"
	"loadline/planner/shape"
)

// TestPredict checks that a job which clearly fits is said to, that one which cannot is not, and that the chance
// grows with the job.
func TestPredict(t *testing.T) {
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	card, err := table.Find("A100-80GB")
	if err != nil {
		t.Fatal(err)
	}
	s, ok := cards.ByName("Llama-3.1-8B")
	if !ok {
		t.Fatal("no card for Llama-3.1-8B")
	}
	for _, system := range Systems() {
		last := -1.0
		for _, mbs := range []int{1, 4, 16, 64} {
			p, err := Predict(system, frameworks.Job{Shape: s, Ranks: 8, MicroBatch: mbs, Seq: 4096, Shard: frameworks.ShardWeights, Recompute: frameworks.Full}, card)
			if err != nil {
				t.Fatalf("%s: %v", system, err)
			}
			if p.Low > p.Need || p.Need > p.High || p.OOMChance < last || p.OOMChance < 0 || p.OOMChance > 1 {
				t.Errorf("%s, micro-batch %d: need %v in [%v, %v], chance %.3f after %.3f", system, mbs, p.Need, p.Low, p.High, p.OOMChance, last)
			}
			if p.Fits(card) != (p.OOMChance <= 0.5) {
				t.Errorf("%s, micro-batch %d: fits %v at a chance of %.3f", system, mbs, p.Fits(card), p.OOMChance)
			}
			last = p.OOMChance
		}
	}
	whole, err := Predict("deepspeed", frameworks.Job{Shape: s, Ranks: 1, MicroBatch: 1, Seq: 4096, Recompute: frameworks.Full}, card)
	if err != nil || whole.OOMChance < 0.99 {
		t.Errorf("16 bytes a parameter of 8B on one card: got a chance of %.3f, %v, want 1", whole.OOMChance, err)
	}
	shared, err := Predict("deepspeed", frameworks.Job{Shape: s, Ranks: 8, MicroBatch: 1, Seq: 4096, Recompute: frameworks.Full, Shard: frameworks.ShardWeights}, card)
	if err != nil || shared.OOMChance > 0.01 {
		t.Errorf("the same over eight: got a chance of %.3f, %v, want 0", shared.OOMChance, err)
	}
	if _, err := Predict("nobody", frameworks.Job{Shape: s, Seq: 1}, card); err == nil {
		t.Error("an unknown system: got no error")
	}
}
