package golden

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCurves(t *testing.T) {
	for _, name := range []string{"curve_dense.json", "curve_moe.json", "curve_dense_cosine.json", "curve_moe_wide.json"} {
		c := LoadCurve(t, filepath.Join(dir, name))
		if c.Steps != 200 || c.MicroBatches*c.MicroBatchRows != c.Batch {
			t.Errorf("%s: got %d steps of %d micro-batches of %d for batch %d", name, c.Steps, c.MicroBatches, c.MicroBatchRows, c.Batch)
		}
		if first, last := c.Losses[0], c.Losses[c.Steps-1]; !(first > 5 && last < 3) {
			t.Errorf("%s: loss from %v to %v, want one that learns", name, first, last)
		}
		if got, want := len(c.RouterGaps) > 0, c.Model == "moe"; got != want {
			t.Errorf("%s: got router gaps %v, want %v", name, got, want)
		}
		bound, what := 1e-4, "1e-3" // nats
		if halves := c.LossesBF16 != nil; halves != (c.LossesFP16 != nil) || halves != (name == "curve_moe_wide.json") {
			t.Errorf("%s: %d losses in bf16, %d in fp16", name, len(c.LossesBF16), len(c.LossesFP16))
		} else if halves {
			bound, what = 5e-3, "1%"
		}
		for s, loss := range c.Losses {
			if d := math.Abs(float64(loss) - c.LossesF64[s]); !(d <= bound) {
				t.Errorf("%s step %d: float32 and float64 differ by %g nats, too far to judge others to %s", name, s, d, what)
			}
			for half, losses := range map[string][]float32{"bf16": c.LossesBF16, "fp16": c.LossesFP16} {
				if losses != nil && !(math.Abs(float64(losses[s]-loss)) < 0.01*float64(loss)) {
					t.Errorf("%s step %d: PyTorch has loss %v in %s, %v in float32", name, s, losses[s], half, loss)
				}
			}
			lr := c.Schedule.Peak
			if c.Schedule.Kind == "cosine" {
				progress := float64(s-c.Schedule.Warmup) / float64(c.Steps-c.Schedule.Warmup)
				f := c.Schedule.FinalRatio
				lr *= f + (1-f)*0.5*(1+math.Cos(math.Pi*progress))
				if s < c.Schedule.Warmup {
					lr = c.Schedule.Peak * float64(s+1) / float64(c.Schedule.Warmup)
				}
			}
			if math.Abs(lr-c.LR[s]) > 1e-15 {
				t.Errorf("%s step %d: got a learning rate of %v, want %v", name, s, lr, c.LR[s])
			}
		}
	}
}

// The last step asked for lies behind the text's end, where the rows have wrapped.
func TestCurveRows(t *testing.T) {
	c := LoadCurve(t, filepath.Join(dir, "curve_dense.json"))
	text, err := os.ReadFile(filepath.Join(dir, c.Data.File))
	if err != nil {
		t.Fatal(err)
	}
	tokens, targets := make([]int32, c.Batch*c.Seq), make([]int32, c.Batch*c.Seq)
	if last := c.Steps * c.Batch * c.Seq; last <= len(text) {
		t.Errorf("got %d bytes for %d tokens, want fewer so that rows wrap", len(text), last)
	}
	for _, step := range []int{0, 1, 199} {
		c.Rows(tokens, targets, text, step)
		for b := range c.Batch {
			start := (step*c.Batch + b) * c.Seq % (len(text) - c.Seq - 1)
			var row, next strings.Builder
			for i := b * c.Seq; i < (b+1)*c.Seq; i++ {
				row.WriteByte(byte(tokens[i]))
				next.WriteByte(byte(targets[i]))
			}
			if got, want := row.String(), string(text[start:start+c.Seq]); got != want {
				t.Errorf("step %d row %d: got %q, want %q", step, b, got, want)
			}
			if got, want := next.String(), string(text[start+1:start+c.Seq+1]); got != want {
				t.Errorf("step %d row %d targets: got %q, want %q", step, b, got, want)
			}
		}
	}
}

func TestCurveRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"unknown field": {`{"steps": 0, "dropout": 0.1}`, "dropout"},
		"short":         {`{"steps": 2, "lr": [1, 1], "losses": [1, 2], "losses_f64": [1], "grad_norms": [1, 1]}`, "losses_f64: want 2 values, file has 1"},
		"short half":    {`{"steps": 1, "lr": [1], "losses": [1], "losses_f64": [1], "grad_norms": [1], "losses_bf16": [1, 2]}`, "losses_bf16: want 1 values or none, file has 2"},
	} {
		if _, err := parseCurve([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}
