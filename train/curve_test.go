package train

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"loadline/data"
	"loadline/internal/golden"
	"loadline/model"
)

// curveFeed yields the rows that a curve was made with.
type curveFeed struct {
	*golden.Curve
	text            []byte
	tokens, targets []int32 // of the step that next is in
	next            int64   // micro-batches yielded
}

func (f *curveFeed) Next(tokens, targets []int32) error {
	m := int(f.next % int64(f.MicroBatches))
	if m == 0 {
		f.Rows(f.tokens, f.targets, f.text, int(f.next/int64(f.MicroBatches)))
	}
	n := f.MicroBatchRows * f.Seq
	copy(tokens, f.tokens[m*n:(m+1)*n])
	copy(targets, f.targets[m*n:(m+1)*n])
	f.next++
	return nil
}

func (f *curveFeed) Position() data.Position { return data.Position{Index: f.next} }

func (f *curveFeed) Seek(p data.Position) error {
	f.next = p.Index
	return nil
}

// goldenModel makes a directory with the names that OpenModel looks for.
func goldenModel(t testing.TB, config, weights string) string {
	t.Helper()
	dir := t.TempDir()
	for name, from := range map[string]string{"config.json": config, "model.safetensors": weights} {
		p, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loadCurve reads a curve, and the options and setup of a run like it.
func loadCurve(t testing.TB, name string) (*golden.Curve, Options, setup) {
	t.Helper()
	c := golden.LoadCurve(t, filepath.Join(goldenDir, name+".json"))
	text, err := os.ReadFile(filepath.Join(goldenDir, c.Data.File))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(goldenDir, c.Model, "config.json")
	o := Defaults(model.Config{})
	if o.Config, err = model.ReadConfig(config); err != nil {
		t.Fatal(err)
	}
	o.Batch, o.Seq, o.Accumulate, o.Steps = c.MicroBatchRows, c.Seq, c.MicroBatches, c.Steps
	o.LR, o.MinLR, o.Warmup, o.Schedule = c.Schedule.Peak, c.Schedule.FinalRatio, c.Schedule.Warmup, Schedule(c.Schedule.Kind)
	o.Beta1, o.Beta2, o.Eps, o.WeightDecay = c.Optimizer.Beta1, c.Optimizer.Beta2, c.Optimizer.Eps, c.Optimizer.WeightDecay
	o.Clip = c.Clip.MaxNorm
	n := c.Batch * c.Seq
	return c, o, setup{
		weight: goldenModel(t, config, filepath.Join(goldenDir, c.Weights)),
		batch: func(int) Batches {
			return &curveFeed{Curve: c, text: text, tokens: make([]int32, n), targets: make([]int32, n)}
		},
	}
}

// Every step of 200 has PyTorch's loss within 1e-3 nats and its gradient norm within 1%.
func TestCurvesOfPyTorch(t *testing.T) {
	for _, name := range []string{"curve_dense", "curve_dense_cosine", "curve_moe"} {
		t.Run(name, func(t *testing.T) {
			c, o, like := loadCurve(t, name)
			for s, want := range c.LR {
				if got := o.Rate(int64(s)); math.Abs(got-want) > 1e-12 {
					t.Fatalf("step %d: got rate %v, want %v", s, got, want)
				}
			}
			r := train(t, o, like)
			worst := 0.0
			for s, want := range c.LossesF64 {
				d := math.Abs(float64(r.losses[s]) - want)
				worst = max(worst, d)
				if !(d <= 1e-3) {
					t.Fatalf("step %d: got loss %v, want %v within 1e-3%s", s, r.losses[s], want, gap(c, s))
				}
				if got, want := float64(r.norms[s]), float64(c.GradNorms[s]); math.Abs(got-want) > 0.01*want {
					t.Fatalf("step %d: got gradient norm %v, want %v within 1%%", s, got, want)
				}
			}
			t.Logf("largest difference %.2g nats", worst)
		})
	}
}

// gap says how near to a tie the router of a mixture of experts was.
func gap(c *golden.Curve, step int) string {
	if c.RouterGaps == nil {
		return ""
	}
	least := math.Inf(1)
	for _, g := range c.RouterGaps[:step+1] {
		least = min(least, g)
	}
	return fmt.Sprintf(" (least router gap so far %.2g)", least)
}
