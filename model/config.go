package model

import (
	"fmt"
	"math"
)

// Names of model types, as config.json's model_type spells them.
const (
	Llama   = "llama"   // RMSNorm, rotary positions, grouped-query attention, SwiGLU or GeGLU
	Mixtral = "mixtral" // Llama whose feed-forward is a mixture of experts
	GPT2    = "gpt2"    // LayerNorm, biases, GELU, learned positions
)

// geluTanh is the name in config.json of the tanh form of gelu; GPT-2's files have gelu_new.
const geluTanh = "gelu_pytorch_tanh"

// architecture is the class name that config.json lists for a model type, or "".
func architecture(modelType string) string {
	switch modelType {
	case Llama:
		return "LlamaForCausalLM"
	case Mixtral:
		return "MixtralForCausalLM"
	case GPT2:
		return "GPT2LMHeadModel"
	}
	return ""
}

// Config is a decoder's geometry. Fields follow Hugging Face's config.json of Llama; GPT-2's own spellings (n_embd, …) are
// read into the same fields.
type Config struct {
	ModelType             string // Llama, Mixtral or GPT2
	HiddenSize            int
	NumLayers             int
	NumHeads              int
	NumKVHeads            int // divides NumHeads; equal to it for GPT2
	HeadDim               int // even where positions are rotary; HiddenSize/NumHeads for GPT2
	IntermediateSize      int
	VocabSize             int
	MaxPositionEmbeddings int
	RMSNormEps            float64 // Llama, Mixtral
	LayerNormEps          float64 // GPT2
	RopeTheta             float64 // Llama, Mixtral
	TieWordEmbeddings     bool    // the head is the embedding
	NumLocalExperts       int     // Mixtral
	NumExpertsPerTok      int     // Mixtral
	HiddenAct             string  // "silu" (SwiGLU), or "gelu" or "gelu_pytorch_tanh" (GeGLU); for GPT2, without a gate, "gelu_new" (the tanh form) or "gelu"
	BOSTokenID            int     // −1 where there is none
	EOSTokenIDs           []int   // any of them ends a text
}

// Architecture is the class name that config.json lists.
func (c Config) Architecture() string { return architecture(c.ModelType) }

// MoE reports whether the feed-forward is a mixture of experts.
func (c Config) MoE() bool { return c.ModelType == Mixtral }

// Largest values that Validate lets through; MaxParams also keeps every product of them in range.
const (
	maxHidden  = 1 << 20
	maxLayers  = 1 << 12
	maxHeads   = 1 << 14
	maxHeadDim = 1 << 13
	maxFFN     = 1 << 24
	maxVocab   = 1 << 24
	maxPos     = 1 << 30
	maxExperts = 1 << 12
	maxParams  = 1 << 46
)

// Validate returns one line about the first thing that cannot be, or nil.
func (c Config) Validate() error {
	if c.Architecture() == "" {
		return fmt.Errorf("model: model_type %q: want llama, mixtral or gpt2", c.ModelType)
	}
	if c.HeadDim == 0 && c.NumHeads > 0 && c.HiddenSize%c.NumHeads != 0 {
		return fmt.Errorf("model: hidden_size %d is not divisible by num_attention_heads %d, and there is no head_dim", c.HiddenSize, c.NumHeads)
	}
	for _, f := range []struct {
		name   string
		n, max int
	}{
		{"hidden_size", c.HiddenSize, maxHidden},
		{"num_hidden_layers", c.NumLayers, maxLayers},
		{"num_attention_heads", c.NumHeads, maxHeads},
		{"num_key_value_heads", c.NumKVHeads, maxHeads},
		{"head_dim", c.HeadDim, maxHeadDim},
		{"intermediate_size", c.IntermediateSize, maxFFN},
		{"vocab_size", c.VocabSize, maxVocab},
		{"max_position_embeddings", c.MaxPositionEmbeddings, maxPos},
	} {
		if f.n < 1 || f.n > f.max {
			return fmt.Errorf("model: %s %d: want 1 to %d", f.name, f.n, f.max)
		}
	}
	if c.NumHeads%c.NumKVHeads != 0 {
		return fmt.Errorf("model: num_attention_heads %d is not divisible by num_key_value_heads %d", c.NumHeads, c.NumKVHeads)
	}
	if err := c.validateKind(); err != nil {
		return err
	}
	if n := c.params(); n > maxParams {
		return fmt.Errorf("model: %.3g parameters: want at most %.3g", n, float64(maxParams))
	}
	for _, id := range append([]int{c.BOSTokenID}, c.EOSTokenIDs...) {
		if id < -1 || id >= c.VocabSize {
			return fmt.Errorf("model: token id %d in a vocabulary of %d", id, c.VocabSize)
		}
	}
	return nil
}

// validateKind checks what only some model types have.
func (c Config) validateKind() error {
	if c.ModelType == GPT2 {
		switch {
		case c.HiddenSize != c.NumHeads*c.HeadDim:
			return fmt.Errorf("model: n_embd %d is not n_head %d times a head width", c.HiddenSize, c.NumHeads)
		case c.NumKVHeads != c.NumHeads:
			return fmt.Errorf("model: gpt2 has as many key heads as heads: want %d, got %d", c.NumHeads, c.NumKVHeads)
		case !small(c.LayerNormEps):
			return fmt.Errorf("model: layer_norm_epsilon %g: want between 0 and 1", c.LayerNormEps)
		case c.HiddenAct != "gelu_new" && c.HiddenAct != "gelu":
			return fmt.Errorf("model: activation_function %q: want gelu_new or gelu", c.HiddenAct)
		}
		return nil
	}
	switch {
	case c.HeadDim%2 != 0:
		return fmt.Errorf("model: head_dim %d is odd; rotary positions turn pairs", c.HeadDim)
	case !small(c.RMSNormEps):
		return fmt.Errorf("model: rms_norm_eps %g: want between 0 and 1", c.RMSNormEps)
	case !(c.RopeTheta >= 1 && c.RopeTheta <= 1e12):
		return fmt.Errorf("model: rope_theta %g: want 1 to 1e12", c.RopeTheta)
	case c.HiddenAct != "silu" && c.HiddenAct != "gelu" && c.HiddenAct != geluTanh:
		return fmt.Errorf("model: hidden_act %q: want silu, gelu or %s", c.HiddenAct, geluTanh)
	}
	if !c.MoE() {
		return nil
	}
	switch {
	case c.NumLocalExperts < 1 || c.NumLocalExperts > maxExperts:
		return fmt.Errorf("model: num_local_experts %d: want 1 to %d", c.NumLocalExperts, maxExperts)
	case c.NumExpertsPerTok < 1 || c.NumExpertsPerTok > c.NumLocalExperts:
		return fmt.Errorf("model: num_experts_per_tok %d of %d experts", c.NumExpertsPerTok, c.NumLocalExperts)
	}
	return nil
}

// small reports whether a norm's epsilon is more than nothing as an f32 and less than 1.
func small(eps float64) bool { return eps >= math.SmallestNonzeroFloat32 && eps < 1 }

// params is the number of parameters without overflow.
func (c Config) params() float64 {
	d, f, v := float64(c.HiddenSize), float64(c.IntermediateSize), float64(c.VocabSize)
	q, kv := float64(c.NumHeads)*float64(c.HeadDim), float64(c.NumKVHeads)*float64(c.HeadDim)
	embed := v * d
	if !c.TieWordEmbeddings {
		embed *= 2
	}
	layers := float64(c.NumLayers)
	attn := 2*d*q + 2*d*kv
	switch c.ModelType {
	case GPT2:
		embed += float64(c.MaxPositionEmbeddings) * d
		return embed + 2*d + layers*(attn+q+2*kv+d+2*d*f+f+d+4*d)
	case Mixtral:
		e := float64(c.NumLocalExperts)
		return embed + d + layers*(attn+e*d+3*e*d*f+2*d)
	}
	return embed + d + layers*(attn+3*d*f+2*d)
}

// Params is the number of parameters of a valid configuration; a tied head is counted once.
func (c Config) Params() int64 { return int64(c.params()) }
