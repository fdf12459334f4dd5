package frameworks

import (
	"strings"

	"loadline/planner/shape"
)

// quants are storage formats with the bits of a weight, its share of scales and zeros included.
var quants = []Quant{
	{Name: "nf4-dq", Bits: 4.127}, // bitsandbytes, blocks of 64, scales in blocks of 256 (QLoRA, arXiv 2305.14314, section 3)
	{Name: "nf4", Bits: 4.5},
	{Name: "gptq-int4", Bits: 4.156}, // groups of 128: a 16-bit scale, a 4-bit zero
	{Name: "awq-int4", Bits: 4.156},
	{Name: "int4", Bits: 4.156},
	{Name: "mxfp4", Bits: 4.25},
	{Name: "nvfp4", Bits: 4.5},
	{Name: "fp4", Bits: 4.5}, // behind the names that it is part of
	{Name: "w4", Bits: 4.25}, // FlexGen, groups of 64
	{Name: "gptq-int8", Bits: 8.16},
	{Name: "int8", Bits: 8.16},
	{Name: "fp8", Bits: 8.002}, // a fp32 scale for 128 × 128
	{Name: "fp32", Bits: 32, EmbedBits: 32},
	{Name: "bf16"}, {Name: "fp16"},
}

// QuantByName finds a storage format in a name such as "AWQ-INT4", "bnb.nf4-dq" or "bf16+nf4"; 16 bits where none is
// named.
func QuantByName(name string) Quant {
	name = strings.ToLower(name)
	for _, q := range quants {
		if strings.Contains(name, q.Name) {
			return q
		}
	}
	return Quant{Name: "bf16"}
}

// Whole tells whether the format is a plain 16-bit or 32-bit one.
func (q Quant) Whole() bool { return q.Bits == 0 || q.Bits >= 16 }

func (q Quant) bits() float64 {
	if q.Bits == 0 {
		return 16
	}
	return q.Bits
}

func (q Quant) embedBits() float64 {
	if q.EmbedBits == 0 {
		return 16
	}
	return q.EmbedBits
}

// bytes returns the weights of a whole model: matrices in q, norms and embeddings as EmbedBits says.
func (q Quant) bytes(s *shape.Shape) float64 {
	linear := s.LinearParams()
	return linear*q.bits()/8 + (float64(s.Params())-linear)*q.embedBits()/8
}

// embedElems returns the elements of the token embedding, which are those of an output projection.
func embedElems(s *shape.Shape) float64 { return float64(s.Vocab) * float64(s.Hidden) }

// sumLayers adds f over the layers.
func sumLayers(s *shape.Shape, f func(l shape.Layer) float64) float64 {
	n := 0.0
	for _, l := range s.Layers {
		n += f(l)
	}
	return n
}

// active returns the width of the MLP that a token meets in layer l: the dense one, or the experts it is sent to.
func active(s *shape.Shape, l shape.Layer) float64 {
	n := float64(l.FFN)
	if l.Experts > 0 {
		n += float64(s.TopK*s.ExpertFFN + s.SharedFFN)
	}
	return n
}

// widths returns a layer's query and key widths; a latent or recurrent mixer counts as its inner width.
func widths(s *shape.Shape, l shape.Layer) (q, k float64) {
	switch l.Mixer {
	case shape.Attention:
		return float64(s.Heads * l.HeadDim), float64(l.KVHeads * l.HeadDim)
	case shape.Latent:
		return float64(s.Heads * s.HeadDim), float64(s.Heads * s.HeadDim)
	case shape.Recurrent:
		return 2 * float64(s.Hidden), 0
	}
	return 0, 0
}

// largestLayer returns the parameters of the largest layer.
func largestLayer(s *shape.Shape) float64 {
	n := 0.0
	for i := range s.Layers {
		n = max(n, s.BlockParams(i))
	}
	return n
}
