package shape

// Params returns the number of parameters, tied ones once.
func (s *Shape) Params() int64 { return int64(s.count()) }

// count works in floating point, which holds counts exactly to 2⁵³ and overflows nowhere.
func (s *Shape) count() float64 {
	n := s.EmbedParams() + s.HeadParams() + s.FinalParams()
	for i := range s.Layers {
		n += s.MixerParams(i) + s.DenseParams(i) + s.ExpertParams(i)
	}
	return n
}

// ActiveParams returns the number of parameters that one token meets.
func (s *Shape) ActiveParams() int64 {
	n := s.EmbedParams() + s.HeadParams() + s.FinalParams()
	for i := range s.Layers {
		n += s.MixerParams(i) + s.DenseParams(i)
		if e := s.Layers[i].Experts; e > 0 {
			n += s.ExpertParams(i) * float64(min(s.TopK, e)) / float64(e)
		}
	}
	return int64(n)
}

// BlockParams returns the parameters of layer i.
func (s *Shape) BlockParams(i int) float64 {
	return s.MixerParams(i) + s.DenseParams(i) + s.ExpertParams(i)
}

// LinearParams returns the weights of the matrices in every layer: what quantisation and adapters act on.
func (s *Shape) LinearParams() float64 {
	n := 0.0
	for i := range s.Layers {
		n += s.BlockParams(i) - s.normParams(i)
	}
	return n
}

// EmbedParams returns the parameters of the embeddings, and those outside the language model: no product of a token
// meets them.
func (s *Shape) EmbedParams() float64 {
	n := float64(s.Vocab+s.Positions)*float64(s.Hidden) + float64(s.Other)
	if s.EmbedNorm {
		n += s.norm()
	}
	return n
}

// HeadParams returns those of an output projection of its own.
func (s *Shape) HeadParams() float64 {
	n := 0.0
	if !s.Tied {
		n = float64(s.Vocab) * float64(s.Hidden)
	}
	if s.HeadBias {
		n += float64(s.Vocab)
	}
	return n
}

// FinalParams returns those of the last norm.
func (s *Shape) FinalParams() float64 { return s.norm() }

func (s *Shape) norm() float64 {
	if s.NormBias {
		return 2 * float64(s.Hidden)
	}
	return float64(s.Hidden)
}

func (s *Shape) normParams(i int) float64 {
	n := float64(s.Norms) * s.norm()
	if l := s.Layers[i]; s.QKNorm && l.Mixer == Attention {
		n += 2 * float64(l.HeadDim)
	}
	return n
}

// MixerParams returns the parameters of layer i outside its MLP, its norms included.
func (s *Shape) MixerParams(i int) float64 {
	h, l := float64(s.Hidden), s.Layers[i]
	n := s.normParams(i)
	switch l.Mixer {
	case Attention:
		q, k := float64(s.Heads*l.HeadDim), float64(l.KVHeads*l.HeadDim)
		n += h * (2*q + 2*k)
		if s.OutputGate {
			n += h * q
		}
		if s.QKVBias {
			n += q + 2*k
		}
		if s.OutBias {
			n += h
		}
	case Latent:
		heads, kv := float64(s.Heads), float64(s.KVRank)
		q := heads * float64(s.NopeDim+s.RopeDim)
		if r := float64(s.QRank); r > 0 {
			n += h*r + r + r*q
		} else {
			n += h * q
		}
		n += h*(kv+float64(s.RopeDim)) + kv + kv*heads*float64(s.NopeDim+s.VDim) + heads*float64(s.VDim)*h
	case Recurrent:
		n += float64(s.RecurrentPs)
	}
	return n
}

func (s *Shape) mlp(width float64, bias bool) float64 {
	h, mats := float64(s.Hidden), 2.0
	if s.Gated {
		mats = 3
	}
	n := mats * h * width
	if bias {
		n += (mats-1)*width + h
	}
	return n
}

// DenseParams returns the parameters of layer i's dense MLP, or of its router and shared experts.
func (s *Shape) DenseParams(i int) float64 {
	l := s.Layers[i]
	n := 0.0
	if l.FFN > 0 {
		n += s.mlp(float64(l.FFN), s.MLPBias)
	}
	if l.Experts > 0 {
		n += float64(s.Hidden) * float64(l.Experts)
		if s.ExpertBias {
			n += float64(l.Experts)
		}
		if s.SharedFFN > 0 {
			n += s.mlp(float64(s.SharedFFN), false)
		}
	}
	return n
}

// ExpertParams returns the parameters of layer i's routed experts.
func (s *Shape) ExpertParams(i int) float64 {
	if e := s.Layers[i].Experts; e > 0 {
		return float64(e) * s.mlp(float64(s.ExpertFFN), s.ExpertBias)
	}
	return 0
}

// KVElems returns the elements that layer i caches for each of the tokens it can see.
func (s *Shape) KVElems(i int) int {
	switch l := s.Layers[i]; l.Mixer {
	case Attention:
		return 2 * l.KVHeads * l.HeadDim
	case Latent:
		return s.KVRank + s.RopeDim
	}
	return 0
}

// KVElemsPerToken returns the elements that one more token adds to the cache in all layers that see everything, and
// in those with a window until it is full.
func (s *Shape) KVElemsPerToken() int {
	n := 0
	for i := range s.Layers {
		n += s.KVElems(i)
	}
	return n
}

// KVElemsAt returns the cached elements of one sequence of ctx tokens, windows respected.
func (s *Shape) KVElemsAt(ctx int) float64 {
	n := 0.0
	for i, l := range s.Layers {
		seen := ctx
		if l.Window > 0 {
			seen = min(seen, l.Window)
		}
		n += float64(s.KVElems(i)) * float64(seen)
	}
	return n
}

// StateBytes returns what the recurrent layers hold for one sequence, whatever its length.
func (s *Shape) StateBytes() float64 {
	n := 0.0
	for _, l := range s.Layers {
		if l.Mixer == Recurrent {
			n += 4 * float64(s.StateElems)
		}
	}
	return n
}
