package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"loadline/data"
	"loadline/internal/golden"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train"
)

// goldenDir holds what PyTorch computed.
const goldenDir = "../model/testdata/golden"

// curveBound is how far a loss may be from PyTorch's, in nats. What float32 in another order of sums gives is hundreds of times less; a
// token that the router sends to another expert would give ten times more.
const curveBound = 1e-3

// curveRows yields the rows that a curve was made with.
type curveRows struct {
	*golden.Curve
	text            []byte
	tokens, targets []int32 // of the step that next is in
	next            int     // micro-batches yielded
}

// Next gives micro-batches of a step one after the other.
func (c *curveRows) Next(tokens, targets []int32) error {
	m := c.next % c.MicroBatches
	if m == 0 {
		c.Rows(c.tokens, c.targets, c.text, c.next/c.MicroBatches)
	}
	at := m * c.MicroBatchRows * c.Seq
	copy(tokens, c.tokens[at:])
	copy(targets, c.targets[at:])
	c.next++
	return nil
}

// Position and Seek are for resuming, which these runs do not do.
func (c *curveRows) Position() data.Position  { return data.Position{Index: int64(c.next)} }
func (c *curveRows) Seek(data.Position) error { return fmt.Errorf("a curve begins at its beginning") }

// Every kernel set has PyTorch's loss at each of 200 steps, with flash and with standard attention.
func TestCurvesOfPyTorch(t *testing.T) {
	for _, file := range []string{"curve_dense", "curve_dense_cosine", "curve_moe"} {
		c := golden.LoadCurve(t, filepath.Join(goldenDir, file+".json"))
		text, err := os.ReadFile(filepath.Join(goldenDir, c.Data.File))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir() // with the names that a model's directory has
		for name, from := range map[string]string{"config.json": filepath.Join(c.Model, "config.json"), "model.safetensors": c.Weights} {
			p, err := os.ReadFile(filepath.Join(goldenDir, from))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), p, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		config, err := model.ReadConfig(filepath.Join(dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		o := train.Defaults(config)
		o.Batch, o.Seq, o.Accumulate, o.Steps = c.MicroBatchRows, c.Seq, c.MicroBatches, c.Steps
		o.LR, o.MinLR, o.Warmup, o.Schedule = c.Schedule.Peak, c.Schedule.FinalRatio, c.Schedule.Warmup, train.Schedule(c.Schedule.Kind)
		o.Beta1, o.Beta2, o.Eps, o.WeightDecay = c.Optimizer.Beta1, c.Optimizer.Beta2, c.Optimizer.Eps, c.Optimizer.WeightDecay
		o.Clip = c.Clip.MaxNorm
		for _, set := range kernel.Sets() {
			for _, attention := range []string{"flash", "standard"} {
				slow := set == kernel.Generic() // has each attention once
				if testing.Short() && (slow || attention == "standard") || slow && (attention == "flash") != (file == "curve_dense") || slow && file == "curve_dense_cosine" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", file, set.Name(), attention), func(t *testing.T) {
					t.Parallel()
					o := o
					o.Attention = attention
					n := c.Batch * c.Seq
					r := run(t, o, setup{device: cpuOf(set, 1), weights: dir, batches: func() train.Batches {
						return &curveRows{Curve: c, text: text, tokens: make([]int32, n), targets: make([]int32, n)}
					}})
					if len(r.losses) != len(c.LossesF64) || len(r.losses) < 200 {
						t.Fatalf("got %d losses, want %d", len(r.losses), len(c.LossesF64))
					}
					worst := 0.0
					for s, want := range c.LossesF64 {
						if worst = max(worst, math.Abs(float64(r.losses[s])-want)); !(worst <= curveBound) {
							t.Fatalf("step %d: got loss %v, want %v within %v", s, r.losses[s], want, curveBound)
						}
					}
					t.Logf("largest difference %.2g nats", worst)
				})
			}
		}
	}
}
