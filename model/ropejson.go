package model

import (
	"math"
	"reflect"
)

// ropeJSON is rope_scaling, or rope_parameters since transformers 5, which may hold one for every type of layer.
type ropeJSON struct {
	RopeTheta       *real   `json:"rope_theta,omitempty"`
	RopeType        *string `json:"rope_type,omitempty"`
	Type            *string `json:"type,omitempty"`
	Partial         *real   `json:"partial_rotary_factor,omitempty"`
	Factor          *real   `json:"factor,omitempty"`
	Original        *int    `json:"original_max_position_embeddings,omitempty"`
	LowFreqFactor   *real   `json:"low_freq_factor,omitempty"`
	HighFreqFactor  *real   `json:"high_freq_factor,omitempty"`
	AttentionFactor *real   `json:"attention_factor,omitempty"`
	BetaFast        *real   `json:"beta_fast,omitempty"`
	BetaSlow        *real   `json:"beta_slow,omitempty"`
	MScale          *real   `json:"mscale,omitempty"`
	MScaleAllDim    *real   `json:"mscale_all_dim,omitempty"`
	Truncate        *bool   `json:"truncate,omitempty"`
	ShortFactor     []real  `json:"short_factor,omitempty"`
	LongFactor      []real  `json:"long_factor,omitempty"`

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
			c.RopeLocalTheta = num(sliding.RopeTheta, c.RopeLocalTheta)
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
	c.RopeTheta = num(r.RopeTheta, c.RopeTheta)
	if p := num(r.Partial, or(j.Partial, 1)); p != 1 {
		if !d.partial {
			j.unread = "partial_rotary_factor"
		}
		if c.RotaryDim = int(float64(c.HeadDim) * p); !(p > 0 && p < 1) || c.RotaryDim == 0 {
			c.RotaryDim = -1 // is refused
		}
	}
	c.RopeScaling = r.scaling(j, c.MaxPositionEmbeddings, d.original)
}

// num is *p, or otherwise where there is none.
func num(p *real, otherwise float64) float64 { return float64(or(p, real(otherwise))) }

// numbers is v.
func numbers(v []real) (out []float64) {
	for _, x := range v {
		out = append(out, float64(x))
	}
	return out
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
		s.Factor = num(r.Factor, 0)
	case Llama3Rope:
		s.Factor, s.LowFreqFactor, s.HighFreqFactor, s.Original = num(r.Factor, 0), num(r.LowFreqFactor, 0), num(r.HighFreqFactor, 0), first
	case YarnRope:
		s.Factor, s.Original, s.AttentionFactor = num(r.Factor, float64(positions)/float64(max(1, first))), first, num(r.AttentionFactor, 0)
		s.BetaFast, s.BetaSlow, s.Exact = num(r.BetaFast, 32), num(r.BetaSlow, 1), !or(r.Truncate, true)
		if a, b := num(r.MScale, 0), num(r.MScaleAllDim, 0); a != 0 && b != 0 {
			s.MScale, s.MScaleAllDim = a, b
		}
	case LongRope:
		s.Factor, s.Original, s.AttentionFactor = num(r.Factor, 0), first, num(r.AttentionFactor, 0)
		s.Short, s.Long = numbers(r.ShortFactor), numbers(r.LongFactor)
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
	some := func(x float64) *real {
		if x == 0 {
			return nil
		}
		r := real(x)
		return &r
	}
	list := func(v []float64) (out []real) {
		for _, x := range v {
			out = append(out, real(x))
		}
		return out
	}
	r := &ropeJSON{
		RopeType: &s.Type, Factor: some(s.Factor), LowFreqFactor: some(s.LowFreqFactor), HighFreqFactor: some(s.HighFreqFactor),
		AttentionFactor: some(s.AttentionFactor), BetaFast: some(s.BetaFast), BetaSlow: some(s.BetaSlow), MScale: some(s.MScale), MScaleAllDim: some(s.MScaleAllDim),
		ShortFactor: list(s.Short), LongFactor: list(s.Long),
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
