package train

import "math"

// Schedule names how the learning rate goes over the steps.
type Schedule string

// The schedules, each after a linear warm-up.
const (
	Constant Schedule = "constant" // stays at the peak
	Cosine   Schedule = "cosine"   // half a cosine from the peak at the end of warm-up to MinLR·peak after the last step
	WSD      Schedule = "wsd"      // warm-up, stable, decay: linear from the peak to MinLR·peak in the last Decay steps (arXiv 2404.06395)
)

// Rate returns the learning rate of a step, which counts from 0:
//
//	warm-up   LR·(s+1)/Warmup                                                 s < Warmup
//	cosine    LR·(MinLR + (1−MinLR)·½(1+cos(π·(s−Warmup)/(Steps−Warmup))))
//	wsd       LR                                                              s < Steps−Decay
//	          LR·(1 − (1−MinLR)·(s−(Steps−Decay)+1)/Decay)
//
// It is computed in float64 and rounded once by the caller.
func (o *Options) Rate(step int64) float64 {
	s, warm, steps := float64(step), float64(o.Warmup), float64(o.Steps)
	if s < warm {
		return o.LR * (s + 1) / warm
	}
	s = min(s, steps) // a step beyond the last has the last rate
	switch o.Schedule {
	case Cosine:
		return o.LR * (o.MinLR + (1-o.MinLR)*0.5*(1+math.Cos(math.Pi*(s-warm)/max(steps-warm, 1))))
	case WSD:
		decay := float64(o.Decay)
		if from := steps - decay; s >= from && decay > 0 {
			return o.LR * (1 - (1-o.MinLR)*min(s-from+1, decay)/decay)
		}
	}
	return o.LR
}

func (o *Options) validateSchedule() error {
	switch {
	case o.Schedule != Constant && o.Schedule != Cosine && o.Schedule != WSD:
		return bad("schedule", "%q: want constant, cosine or wsd", o.Schedule)
	case !(float32(o.LR) > 0 && o.LR < math.MaxFloat32): // the device takes it as a float32
		return bad("lr", "%g: want more than 0, and less than %.3g", o.LR, math.MaxFloat32)
	case !(o.MinLR >= 0 && o.MinLR <= 1):
		return bad("min-lr", "%g: want a fraction of the peak, 0 to 1", o.MinLR)
	case o.Warmup < 0 || o.Decay < 0:
		return bad("warmup", "%d steps, decay %d: want 0 or more", o.Warmup, o.Decay)
	case o.Schedule == WSD && o.Warmup > o.Steps-o.Decay:
		return bad("warmup", "%d steps and a decay of %d do not fit into %d steps", o.Warmup, o.Decay, o.Steps)
	}
	return nil
}
