package train

import (
	"fmt"
	"math"

	"loadline/train/checkpoint"
)

// ScaleRule says how the scale of an fp16 loss is chosen: gradients of activations below 2⁻²⁴ vanish in float16 and those above 65504
// are infinite, so the loss is multiplied by as much as they bear. A step whose gradients are not finite is skipped.
//
//	step is clean       Window of them in a row: scale ×2, hysteresis is full again; the first Idle of a row count for nothing
//	step overflows      hysteresis > 1: it shrinks by one; otherwise scale ×½, but not below Floor. The row starts anew
//
// An overflow at Floor with the hysteresis spent ends the run, and so do maxSkips overflows in a row. All scales are powers of two, so
// that scaling changes no bit of a gradient that neither vanishes nor overflows; they stay within 2^±100, where the scaled loss and the
// scale's inverse are float32's.
//
// Sources: torch.amp.GradScaler (amp_update_scale) and DeepSpeed's DynamicLossScaler.update_scale.
type ScaleRule struct {
	Start      float64 // a power of two
	Window     int     // clean steps; at least 1
	Hysteresis int     // overflows until one halves the scale; at least 1. Only a growth fills it again
	Floor      float64 // a power of two, or 0: none
	Idle       int     // clean steps that count for nothing, after the start and after each overflow
}

// String has Idle where it is not 0: checkpoints hold the text, and those written before there was an Idle go on.
func (r ScaleRule) String() string {
	s := fmt.Sprintf("{Start:%v Window:%d Hysteresis:%d Floor:%v", r.Start, r.Window, r.Hysteresis, r.Floor)
	if r.Idle != 0 {
		s += fmt.Sprintf(" Idle:%d", r.Idle)
	}
	return s + "}"
}

// TorchScale is the rule of torch's GradScaler.
func TorchScale() ScaleRule { return ScaleRule{Start: 65536, Window: 2000, Hysteresis: 1} }

// DeepSpeedScale is DeepSpeed's rule for fp16, as release 0.19.8 has it: it grows after Window+1 clean steps, then after each Window more. Older ones
// counted so outside of ZeRO alone, and had no Idle there.
func DeepSpeedScale() ScaleRule {
	return ScaleRule{Start: 65536, Window: 1000, Hysteresis: 2, Floor: 1, Idle: 1}
}

// Bounds of a scale, and the skipped steps in a row after which a run ends.
const (
	maxScale = 0x1p100
	minScale = 0x1p-100
	maxSkips = 20
)

// Validate reports what cannot be.
func (r ScaleRule) Validate() error {
	power := func(x float64) bool {
		f, _ := math.Frexp(x)
		return f == 0.5 && x >= minScale && x <= maxScale
	}
	switch {
	case !power(r.Start):
		return fmt.Errorf("loss scale starts at %g: want a power of two from 2^-100 to 2^100", r.Start)
	case r.Floor != 0 && (!power(r.Floor) || r.Floor > r.Start):
		return fmt.Errorf("floor of the loss scale %g: want a power of two up to the start, or 0", r.Floor)
	case r.Window < 1 || r.Hysteresis < 1 || r.Idle < 0:
		return fmt.Errorf("loss scale with a window of %d, a hysteresis of %d and %d steps idle: want at least 1, 1 and 0", r.Window, r.Hysteresis, r.Idle)
	}
	return nil
}

// Scaler is a ScaleRule at work: a state machine without clock or arithmetic on tensors.
//
// Invariants: -Idle <= Clean < Window; 1 <= Hysteresis <= Rule.Hysteresis.
type Scaler struct {
	Rule ScaleRule
	checkpoint.LossScale
}

// NewScaler returns a Scaler before its first step.
func NewScaler(r ScaleRule) *Scaler {
	return &Scaler{Rule: r, LossScale: checkpoint.LossScale{Scale: float32(r.Start), Clean: -r.Idle, Hysteresis: r.Hysteresis}}
}

// Restore goes on from where a checkpoint was.
func (s *Scaler) Restore(from checkpoint.LossScale) error {
	f, _ := math.Frexp(float64(from.Scale))
	if f != 0.5 || from.Scale < minScale || from.Scale > maxScale || from.Clean < -s.Rule.Idle || from.Clean >= s.Rule.Window ||
		from.Hysteresis < 1 || from.Hysteresis > s.Rule.Hysteresis || from.Row < 0 || from.Skipped < int64(from.Row) {
		return fmt.Errorf("train: resume: no state of a loss scale: %+v", from)
	}
	s.LossScale = from
	return nil
}

// Clean notes a step whose gradients were finite.
func (s *Scaler) Clean() {
	s.Row = 0
	if s.LossScale.Clean++; s.LossScale.Clean < s.Rule.Window {
		return
	}
	s.LossScale.Clean, s.Hysteresis = 0, s.Rule.Hysteresis
	if s.Scale < maxScale {
		s.Scale *= 2
	}
}

// Overflow notes a step that is skipped, and tells whether another one has a chance.
func (s *Scaler) Overflow() bool {
	s.LossScale.Clean = -s.Rule.Idle
	s.Row++
	s.Skipped++
	switch floor := float32(max(s.Rule.Floor, minScale)); {
	case s.Hysteresis > 1:
		s.Hysteresis--
	case s.Scale <= floor:
		return false
	default:
		s.Scale /= 2
	}
	return s.Row < maxSkips
}
