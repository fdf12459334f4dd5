package model

import (
	"math"
	"reflect"
)

// ropeJSON is rope_scaling, or rope_parameters since transformers 5, which may hold one for every type of layer.
type ropeJSON struct {
	RopeTheta       *float64  `json:"rope_theta,omitempty"`
	RopeType        *string   `json:"rope_type,omitempty"`
	Type            *string   `json:"type,omitempty"`
	Partial         *float64  `json:"partial_rotary_factor,omitempty"`
	Factor          *float64  `json:"factor,omitempty"`
	Original        *int      `json:"original_max_position_embeddings,omitempty"`
	LowFreqFactor   *float64  `json:"low_freq_factor,omitempty"`
	HighFreqFactor  *float64  `json:"high_freq_factor,omitempty"`
	AttentionFactor *float64  `json:"attention_factor,omitempty"`
	BetaFast        *float64  `json:"beta_fast,omitempty"`
	BetaSlow        *float64  `json:"beta_slow,omitempty"`
	MScale          *float64  `json:"mscale,omitempty"`
	MScaleAllDim    *float64  `json:"mscale_all_dim,omitempty"`
	Truncate        *bool     `json:"truncate,omitempty"`
	ShortFactor     []float64 `json:"short_factor,omitempty"`
	LongFactor      []float64 `json:"long_factor,omitempty"`

	Full    *ropeJSON `json:"full_attention,omitempty"`
	Sliding *ropeJSON `json:"sliding_attention,omitempty"`
}

// rope reads rotary positions into c, whose widths are known.
func (j *configJSON) rope(c *Config, d defaults) {
	c.RopeTheta, c.RopeLocalTheta = or(j.RopeTheta, d.theta), 0
	if d.local > 0 {
		c.RopeLocalTheta = or(j.RopeLocalTheta, d.local)
	}
	r := j.RopeParameters
	if j.RopeScaling != nil {
		r = j.RopeScaling
	}
	if r != nil && (r.Full != nil || r.Sliding != nil) {
		full, sliding := r.Full, r.Sliding
		if full == nil {
			full = &ropeJSON{}
		}
		switch {
		case d.local > 0 && sliding != nil:
			c.RopeLocalTheta = or(sliding.RopeTheta, c.RopeLocalTheta)
			if sliding.kind() != "" {
				j.unread = "rope_parameters of sliding layers"
			}
		case d.local == 0 && sliding != nil && !reflect.DeepEqual(sliding, full):
			j.unread = "rope_parameters of sliding layers"
		}
		r = full
	}
	if r == nil {
		r = &ropeJSON{}
	}
	c.RopeTheta = or(r.RopeTheta, c.RopeTheta)
	if p := or(r.Partial, or(j.Partial, 1)); p != 1 {
		if !d.partial {
			j.unread = "partial_rotary_factor"
		}
		if c.RotaryDim = int(float64(c.HeadDim) * p); !(p > 0 && p < 1) || c.RotaryDim == 0 {
			c.RotaryDim = -1 // is refused
		}
	}
	c.RopeScaling = r.scaling(j, c.MaxPositionEmbeddings, d.original)
}

// kind is the kind of scaling, "" for none.
func (r *ropeJSON) kind() string {
	switch k := or(r.RopeType, or(r.Type, "default")); k {
	case "default":
		return ""
	case "su": // its name when it was new
		return LongRope
	default:
		return k
	}
}

// scaling is what r says of its kind. original is the family's default of a field outside r, 0 where it has none.
func (r *ropeJSON) scaling(j *configJSON, positions, original int) RopeScaling {
	s := RopeScaling{Type: r.kind()}
	if original > 0 && s.Type == YarnRope { // Phi-3's early name
		s.Type = LongRope
	}
	first := or(r.Original, or(j.Original, positions))
	if original > 0 {
		first = or(j.Original, or(r.Original, original))
	}
	switch s.Type {
	case LinearRope, DynamicRope:
		s.Factor = or(r.Factor, 0)
	case Llama3Rope:
		s.Factor, s.LowFreqFactor, s.HighFreqFactor, s.Original = or(r.Factor, 0), or(r.LowFreqFactor, 0), or(r.HighFreqFactor, 0), first
	case YarnRope:
		s.Factor, s.Original, s.AttentionFactor = or(r.Factor, float64(positions)/float64(max(1, first))), first, or(r.AttentionFactor, 0)
		s.BetaFast, s.BetaSlow, s.Exact = or(r.BetaFast, 32), or(r.BetaSlow, 1), !or(r.Truncate, true)
		if a, b := or(r.MScale, 0), or(r.MScaleAllDim, 0); a != 0 && b != 0 {
			s.MScale, s.MScaleAllDim = a, b
		}
	case LongRope:
		s.Factor, s.Original, s.AttentionFactor = or(r.Factor, 0), first, or(r.AttentionFactor, 0)
		s.Short, s.Long = r.ShortFactor, r.LongFactor
	}
	return s
}

// writeRope is rope's inverse, in the fields that transformers 4 and 5 read.
func (j *configJSON) writeRope(c Config, d bool) {
	j.RopeTheta = &c.RopeTheta
	if c.RotaryDim > 0 {
		p := float64(c.RotaryDim) / float64(c.HeadDim)
		if int(float64(c.HeadDim)*p) < c.RotaryDim {
			p = math.Nextafter(p, 1)
		}
		j.Partial = &p
	}
	s := c.RopeScaling
	if s.Type == "" {
		return
	}
	some := func(x float64) *float64 {
		if x == 0 {
			return nil
		}
		return &x
	}
	r := &ropeJSON{
		RopeType: &s.Type, Factor: some(s.Factor), LowFreqFactor: some(s.LowFreqFactor), HighFreqFactor: some(s.HighFreqFactor),
		AttentionFactor: some(s.AttentionFactor), BetaFast: some(s.BetaFast), BetaSlow: some(s.BetaSlow), MScale: some(s.MScale), MScaleAllDim: some(s.MScaleAllDim),
		ShortFactor: s.Short, LongFactor: s.Long,
	}
	if s.Exact {
		truncate := false
		r.Truncate = &truncate
	}
	if s.Original > 0 {
		if d { // Phi-3 has it outside, and nothing else beside the lists
			r.RopeType, r.Type, j.Original = nil, &s.Type, &s.Original
		} else {
			r.Original = &s.Original
		}
	}
	j.RopeScaling = r
}
