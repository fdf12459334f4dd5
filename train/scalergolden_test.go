package train

import (
	"encoding/json"
	"os"
	"testing"
)

// Step by step through scripted patterns of infinities, the scale and its state are those that torch's GradScaler and DeepSpeed's
// DynamicLossScaler have, which testdata/scaler.py ran: torch's count of clean steps, DeepSpeed's hysteresis, and the step that ends a run.
func TestScalerOfTorchAndDeepSpeed(t *testing.T) {
	file, err := os.ReadFile("testdata/scaler.json")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []struct {
		Window int
		Steps  string
		Torch  struct {
			Scale []float32
			Clean []int
			Moved []bool
		}
		DeepSpeed struct {
			Scale      []float32 // 0: the run ends
			Hysteresis []int
		}
	}
	if err := json.Unmarshal(file, &patterns); err != nil {
		t.Fatal(err)
	}
	steps, grown, ended := 0, 0, 0
	for n, p := range patterns {
		if len(p.Torch.Scale) != len(p.Steps) || len(p.DeepSpeed.Scale) == 0 || len(p.DeepSpeed.Scale) > len(p.Steps) {
			t.Fatalf("pattern %d: %d steps, torch has %d, DeepSpeed %d", n, len(p.Steps), len(p.Torch.Scale), len(p.DeepSpeed.Scale))
		}
		torch, deepSpeed := TorchScale(), DeepSpeedScale()
		torch.Window, deepSpeed.Window = p.Window, p.Window
		a, b := NewScaler(torch), NewScaler(deepSpeed)
		for i, step := range p.Steps {
			over := step == 'x'
			if going := advance(a, over); !going {
				t.Fatalf("pattern %d, step %d: the run ends under torch's rule", n, i)
			}
			if a.Scale != p.Torch.Scale[i] || a.LossScale.Clean != p.Torch.Clean[i] || over == p.Torch.Moved[i] {
				t.Fatalf("pattern %d, step %d of %s, window %d: got scale %v after %d clean steps, torch has %v after %d, its weight moved %v", n, i, p.Steps, p.Window,
					a.Scale, a.LossScale.Clean, p.Torch.Scale[i], p.Torch.Clean[i], p.Torch.Moved[i])
			}
			if steps++; a.LossScale.Clean == 0 && !over {
				grown++
			}
		}
		for i, want := range p.DeepSpeed.Scale {
			got := float32(0)
			if advance(b, p.Steps[i] == 'x') {
				got = b.Scale
			}
			if got != want || b.Hysteresis != p.DeepSpeed.Hysteresis[i] {
				t.Fatalf("pattern %d, step %d of %s, window %d: got scale %v, hysteresis %d; DeepSpeed has %v, %d", n, i, p.Steps, p.Window,
					got, b.Hysteresis, want, p.DeepSpeed.Hysteresis[i])
			}
			if want == 0 {
				ended++
			}
		}
	}
	if steps < 1000 || grown < 100 || ended == 0 {
		t.Errorf("%d steps with %d growths, %d runs ended: too few to tell rules apart", steps, grown, ended)
	}
}

// advance notes a step, and tells whether another one has a chance.
func advance(s *Scaler, overflow bool) bool {
	if overflow {
		return s.Overflow()
	}
	s.Clean()
	return true
}
