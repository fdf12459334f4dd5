package train

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"loadline/train/checkpoint"
)

// Scripts of clean (.) and overflowing (x) steps, with the scale that each step leaves, worked out by hand from the two rules; 0 is a
// run that ends.
func TestScalerScripts(t *testing.T) {
	torch, deepSpeed := TorchScale(), DeepSpeedScale()
	torch.Start, torch.Window = 8, 3
	deepSpeed.Start, deepSpeed.Window = 8, 3
	for _, c := range []struct {
		name  string
		rule  ScaleRule
		steps string
		want  []float32
	}{
		// Growth after three clean steps in a row; each overflow halves and starts the count anew.
		{"torch", torch, "..x....xx...", []float32{8, 8, 4, 4, 4, 8, 8, 4, 2, 2, 2, 4}},
		{"torch below 1", torch, "xxxxx...", []float32{4, 2, 1, 0.5, 0.25, 0.25, 0.25, 0.5}},
		// The first overflow spends hysteresis alone; growth at the fourth clean step since the last overflow fills it again.
		{"deepspeed", deepSpeed, "..x....xx.......x", []float32{8, 8, 8, 8, 8, 8, 16, 16, 8, 8, 8, 8, 16, 16, 16, 32, 32}},
		// Clean steps that do not reach the window fill nothing.
		{"deepspeed keeps hysteresis spent", deepSpeed, "x..x..x", []float32{8, 8, 8, 4, 4, 4, 2}},
		{"deepspeed ends at its floor", deepSpeed, "xxxxx", []float32{8, 4, 2, 1, 0}},
		// With hysteresis refilled at the floor one overflow passes, the next ends the run.
		{"deepspeed at its floor", deepSpeed, "xxxx....xxx.xx", []float32{8, 4, 2, 1, 1, 1, 1, 2, 2, 1, 0}},
	} {
		s := NewScaler(c.rule)
		for i, want := range c.want {
			got := float32(0)
			if c.steps[i] == '.' {
				s.Clean()
				got = s.Scale
			} else if s.Overflow() {
				got = s.Scale
			}
			if got != want {
				t.Errorf("%s: after step %d of %s: got scale %v, want %v", c.name, i+1, c.steps, got, want)
				break
			}
		}
		if n := int64(strings.Count(c.steps[:len(c.want)], "x")); s.Skipped != n {
			t.Errorf("%s: got %d steps skipped, want %d", c.name, s.Skipped, n)
		}
	}
}

// The rules' own numbers: windows of 2000 and 1000, the second after a step that does not count, the start at 2¹⁶, and an end after twenty
// steps skipped in a row.
func TestScalerDefaults(t *testing.T) {
	for _, c := range []struct {
		rule         ScaleRule
		window, idle int
	}{{TorchScale(), 2000, 0}, {DeepSpeedScale(), 1000, 1}} {
		s := NewScaler(c.rule)
		for i := 1; i <= 2*c.window; i++ {
			s.Clean()
			if want := float32(int(65536) << ((i - c.idle) / c.window)); s.Scale != want {
				t.Fatalf("window %d: after %d clean steps: got scale %v, want %v", c.window, i, s.Scale, want)
			}
		}
	}
	s := NewScaler(TorchScale())
	for i := 1; i < maxSkips; i++ {
		if !s.Overflow() {
			t.Fatalf("overflow %d ends the run, want %d", i, maxSkips)
		}
	}
	if s.Overflow() || s.Row != maxSkips {
		t.Errorf("after %d overflows in a row: got no end, want one at %d", s.Row, maxSkips)
	}
}

// Random patterns against the rules as their sources write them: torch's tracker of growth, DeepSpeed's distance to the last overflow.
func TestScalerAgainstItsSources(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	ends := 0
	for n := range 200 {
		window := 1 + n%7
		torch, deepSpeed := TorchScale(), DeepSpeedScale()
		torch.Window, deepSpeed.Window = window, window
		a, b := NewScaler(torch), NewScaler(deepSpeed)
		scale, tracker := 65536.0, 0
		ds, hysteresis, last := 65536.0, 2, -1
		for iter := range 80 {
			overflow, ended := rng.IntN(7) < n%5, false
			switch {
			case overflow:
				scale, tracker = scale/2, 0
			case tracker+1 == window:
				scale, tracker = scale*2, 0
			default:
				tracker++
			}
			switch {
			case overflow && hysteresis > 1:
				hysteresis, last = hysteresis-1, iter
			case overflow && ds == 1:
				ended = true
			case overflow:
				ds, last = ds/2, iter
			case iter-last > 1 && (iter-last-1)%window == 0:
				ds, hysteresis = ds*2, 2
			}
			going := true
			if overflow {
				a.Overflow()
				going = b.Overflow()
			} else {
				a.Clean()
				b.Clean()
			}
			if b.Row >= maxSkips { // which neither of them has
				break
			}
			if scale > minScale && scale < maxScale && float64(a.Scale) != scale {
				t.Fatalf("pattern %d, step %d: got scale %v, torch's is %v", n, iter, a.Scale, scale)
			}
			if ds < maxScale && (float64(b.Scale) != ds || going == ended) {
				t.Fatalf("pattern %d, step %d: got scale %v, going on %v, DeepSpeed's is %v, at its end %v", n, iter, b.Scale, going, ds, ended)
			}
			if ended {
				ends++
				break
			}
		}
	}
	if ends == 0 {
		t.Error("no pattern ends at the floor")
	}
}

// A state that no run can have is refused.
func TestScalerRestore(t *testing.T) {
	good := checkpoint.LossScale{Scale: 1024, Clean: 5, Hysteresis: 2, Row: 1, Skipped: 3}
	if s := NewScaler(DeepSpeedScale()); s.Restore(good) != nil || s.LossScale != good {
		t.Errorf("got %+v, want %+v", s.LossScale, good)
	}
	for _, change := range []func(*checkpoint.LossScale){
		func(x *checkpoint.LossScale) { x.Scale = 0 }, func(x *checkpoint.LossScale) { x.Scale = 3 }, func(x *checkpoint.LossScale) { x.Scale = -2 },
		func(x *checkpoint.LossScale) { x.Clean = 1000 }, func(x *checkpoint.LossScale) { x.Clean = -2 }, func(x *checkpoint.LossScale) { x.Hysteresis = 0 },
		func(x *checkpoint.LossScale) { x.Hysteresis = 3 }, func(x *checkpoint.LossScale) { x.Row = 4 }, func(x *checkpoint.LossScale) { x.Row = -1 },
	} {
		x := good
		change(&x)
		if err := NewScaler(DeepSpeedScale()).Restore(x); err == nil {
			t.Errorf("%+v is accepted", x)
		}
	}
}

func TestScaleRuleValidate(t *testing.T) {
	// Checkpoints hold these texts.
	if got, want := fmt.Sprintf("%+v %+v", TorchScale(), DeepSpeedScale()), "{Start:65536 Window:2000 Hysteresis:1 Floor:0} {Start:65536 Window:1000 Hysteresis:2 Floor:1 Idle:1}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, r := range []ScaleRule{TorchScale(), DeepSpeedScale()} {
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, r := range []ScaleRule{{}, {3, 1, 1, 0, 0}, {2, 0, 1, 0, 0}, {2, 1, 0, 0, 0}, {2, 1, 1, 4, 0}, {2, 1, 1, 0.3, 0}, {0x1p101, 1, 1, 0, 0}, {2, 1, 1, 0, -1}} {
		if err := r.Validate(); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
