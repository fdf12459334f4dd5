package model

import (
	"fmt"
	"math"

	"loadline/graph"
)

// Kinds of RopeScaling, as config.json's rope_type spells them.
const (
	LinearRope  = "linear"   // all frequencies are divided by Factor
	DynamicRope = "dynamic"  // Theta grows with the context beyond MaxPositionEmbeddings
	YarnRope    = "yarn"     // low frequencies are divided, high ones stay (arXiv 2309.00071)
	LongRope    = "longrope" // every frequency has divisors of its own, for short and for long contexts (arXiv 2402.13753)
	Llama3Rope  = "llama3"   // low frequencies are divided, high ones stay, by wavelength (arXiv 2407.21783)
)

// RopeScaling says how rotary frequencies differ from Theta^(−2i/K), so that a context may be longer than the one first trained
// with. Fields are zero where the kind does not have them.
type RopeScaling struct {
	Type            string  // "" for none
	Factor          float64 // all but LongRope, where it may be 0: MaxPositionEmbeddings/Original
	Original        int     // YarnRope, LongRope, Llama3Rope: the context first trained with
	LowFreqFactor   float64 // Llama3Rope: wavelengths above Original/LowFreqFactor are divided,
	HighFreqFactor  float64 // those below Original/HighFreqFactor stay
	AttentionFactor float64 // YarnRope, LongRope: what turned elements are multiplied by; 0 is as the paper has it
	BetaFast        float64 // YarnRope: turns in Original above which a frequency stays,
	BetaSlow        float64 // and below which it is divided
	MScale          float64 // YarnRope: 0, or with MScaleAllDim in place of AttentionFactor
	MScaleAllDim    float64
	Exact           bool      // YarnRope: the pairs between which frequencies change are not rounded to whole ones
	Short, Long     []float64 // LongRope: divisors of pairs in contexts up to Original, and beyond
}

// turns is how many elements of a head turn.
func (c Config) turns() int {
	if c.RotaryDim > 0 {
		return c.RotaryDim
	}
	return c.HeadDim
}

// Rope is how queries and keys of a layer turn in contexts of so many positions, but for Rope.Heads; false where they do not.
// DynamicRope and LongRope take their frequencies from the context once, so that a row's do not depend on how long its sequence is.
func (c Config) Rope(layer, context int) (graph.Rope, bool) {
	if len(c.NoRopeLayers) > 0 && c.NoRopeLayers[layer] == 0 {
		return graph.Rope{}, false
	}
	o := graph.Rope{HeadDim: c.HeadDim, Theta: c.RopeTheta, Turned: c.RotaryDim}
	if c.RopeLocalTheta > 0 && c.Window(layer) > 0 {
		o.Theta = c.RopeLocalTheta
		return o, true
	}
	s, t := c.RopeScaling, float64(c.turns())
	switch s.Type {
	case LinearRope:
		o.Divisors = graph.DivisorsOf(c.perPair(func(int) float64 { return s.Factor }))
	case DynamicRope:
		if longest := float64(c.MaxPositionEmbeddings); float64(context) > longest {
			o.Theta *= math.Pow(s.Factor*float64(context)/longest-(s.Factor-1), t/(t-2))
		}
	case Llama3Rope:
		o.Divisors = graph.DivisorsOf(c.perPair(func(i int) float64 { return s.llama3(c.wavelength(i)) }))
	case YarnRope:
		low, high := s.ramp(t, c.RopeTheta)
		o.Divisors = graph.DivisorsOf(c.perPair(func(i int) float64 {
			stays := 1 - min(max((float64(i)-low)/(high-low), 0), 1)
			return 1 / ((1-stays)/s.Factor + stays)
		}))
		o.Magnitude = s.yarnMagnitude()
	case LongRope:
		o.Divisors = graph.DivisorsOf(s.Short)
		if context > s.Original {
			o.Divisors = graph.DivisorsOf(s.Long)
		}
		o.Magnitude = s.longMagnitude(c.MaxPositionEmbeddings)
	}
	return o, true
}

// perPair is f of every pair that turns.
func (c Config) perPair(f func(i int) float64) []float64 {
	out := make([]float64, c.turns()/2) //mem:ok half a head
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// wavelength is how many positions a pair takes for a whole turn, unscaled.
func (c Config) wavelength(i int) float64 {
	return 2 * math.Pi * math.Pow(c.RopeTheta, 2*float64(i)/float64(c.turns()))
}

// llama3 is the divisor of a wavelength.
func (s RopeScaling) llama3(wavelength float64) float64 {
	original := float64(s.Original)
	switch {
	case wavelength < original/s.HighFreqFactor:
		return 1
	case wavelength > original/s.LowFreqFactor:
		return s.Factor
	}
	smooth := (original/wavelength - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
	return 1 / ((1-smooth)/s.Factor + smooth)
}

// ramp is the pairs between which YarnRope goes over from frequencies as they are to divided ones.
func (s RopeScaling) ramp(t, theta float64) (low, high float64) {
	pair := func(turns float64) float64 {
		return t * math.Log(float64(s.Original)/(turns*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high = pair(s.BetaFast), pair(s.BetaSlow)
	if !s.Exact {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, t-1)
	if low == high {
		high += 0.001
	}
	return low, high
}

func (s RopeScaling) yarnMagnitude() float64 {
	grown := func(m float64) float64 {
		if s.Factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(s.Factor) + 1
	}
	switch {
	case s.AttentionFactor > 0:
		return s.AttentionFactor
	case s.MScale > 0 && s.MScaleAllDim > 0:
		return grown(s.MScale) / grown(s.MScaleAllDim)
	}
	return grown(1)
}

func (s RopeScaling) longMagnitude(positions int) float64 {
	factor := s.Factor
	if factor == 0 {
		factor = float64(positions) / float64(s.Original)
	}
	switch {
	case s.AttentionFactor > 0:
		return s.AttentionFactor
	case factor <= 1:
		return 1
	}
	return math.Sqrt(1 + math.Log(factor)/math.Log(float64(s.Original)))
}

// validateRope checks what rotary positions need.
func (c Config) validateRope() error {
	s, pairs := c.RopeScaling, c.turns()/2
	outside := func(x, least, most float64) bool { return !(x >= least && x <= most) }
	switch {
	case outside(c.RopeTheta, 1, 1e12):
		return fmt.Errorf("model: rope_theta %g: want 1 to 1e12", c.RopeTheta)
	case c.RopeLocalTheta != 0 && outside(c.RopeLocalTheta, 1, 1e12):
		return fmt.Errorf("model: rope_local_base_freq %g: want 1 to 1e12", c.RopeLocalTheta)
	case c.RotaryDim < 0 || c.RotaryDim > c.HeadDim || c.RotaryDim%2 != 0:
		return fmt.Errorf("model: %d elements of a head turn: want an even number up to %d", c.RotaryDim, c.HeadDim)
	}
	switch s.Type {
	case "", LinearRope, DynamicRope, YarnRope, LongRope, Llama3Rope:
	default:
		return fmt.Errorf("model: rope_type %q: want default, %s, %s, %s, %s or %s", s.Type, LinearRope, DynamicRope, YarnRope, LongRope, Llama3Rope)
	}
	if s.Type != "" && s.Type != LongRope && outside(s.Factor, 1, 1e6) {
		return fmt.Errorf("model: rope_scaling %s: factor %g: want 1 to 1e6", s.Type, s.Factor)
	}
	if (s.Type == YarnRope || s.Type == LongRope || s.Type == Llama3Rope) && (s.Original < 2 || s.Original > maxPos) {
		return fmt.Errorf("model: rope_scaling %s: original_max_position_embeddings %d: want 2 to %d", s.Type, s.Original, maxPos)
	}
	if s.AttentionFactor != 0 && outside(s.AttentionFactor, 1e-3, 1e3) {
		return fmt.Errorf("model: rope_scaling %s: attention_factor %g: want 0.001 to 1000", s.Type, s.AttentionFactor)
	}
	switch s.Type {
	case DynamicRope:
		if c.turns() <= 2 {
			return fmt.Errorf("model: rope_scaling %s: want more than one pair of a head that turns", s.Type)
		}
	case Llama3Rope:
		if outside(s.LowFreqFactor, 1e-6, 1e6) || outside(s.HighFreqFactor, 1e-6, 1e6) || s.LowFreqFactor >= s.HighFreqFactor {
			return fmt.Errorf("model: rope_scaling %s: low_freq_factor %g, high_freq_factor %g: want the first to be less", s.Type, s.LowFreqFactor, s.HighFreqFactor)
		}
	case YarnRope:
		if outside(s.BetaFast, 1e-6, 1e6) || outside(s.BetaSlow, 1e-6, 1e6) || c.RopeTheta == 1 {
			return fmt.Errorf("model: rope_scaling %s: beta_fast %g, beta_slow %g, rope_theta %g: want 1e-6 to 1e6, and theta above 1", s.Type, s.BetaFast, s.BetaSlow, c.RopeTheta)
		}
		if s.MScale != 0 && outside(s.MScale, 0, 1e3) || s.MScaleAllDim != 0 && outside(s.MScaleAllDim, 0, 1e3) {
			return fmt.Errorf("model: rope_scaling %s: mscale %g, mscale_all_dim %g: want 0 to 1000", s.Type, s.MScale, s.MScaleAllDim)
		}
	case LongRope:
		for _, list := range [][]float64{s.Short, s.Long} {
			if len(list) != pairs {
				return fmt.Errorf("model: rope_scaling %s: a list of %d factors, want %d", s.Type, len(list), pairs)
			}
			for _, x := range list {
				if outside(x, 1e-6, 1e9) {
					return fmt.Errorf("model: rope_scaling %s: factor %g of a pair: want 1e-6 to 1e9", s.Type, x)
				}
			}
		}
		if s.Factor != 0 && outside(s.Factor, 1e-3, 1e6) {
			return fmt.Errorf("model: rope_scaling %s: factor %g: want 0.001 to 1e6", s.Type, s.Factor)
		}
	}
	return nil
}
