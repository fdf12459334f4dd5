package model

import (
	"errors"
	"fmt"
	"math"
)

// Names of model types, as config.json's model_type spells them. families lists what each is.
const (
	Llama    = "llama"       // RMSNorm, rotary positions, grouped-query attention, SwiGLU or GeGLU; Llama 1 to 3, SmolLM 1 and 2
	Mistral  = "mistral"     // Llama whose rows see a window
	Mixtral  = "mixtral"     // Llama whose feed-forward is a mixture of experts
	SmolLM3  = "smollm3"     // Llama of which some layers have no positions
	Qwen2    = "qwen2"       // Llama whose queries, keys and values have biases
	Qwen3    = "qwen3"       // Llama that norms the heads of queries and keys
	Qwen3MoE = "qwen3_moe"   // Qwen3 whose feed-forward is a mixture of experts
	Phi3     = "phi3"        // Llama whose projections are published fused; Phi-3 and Phi-4
	Gemma2   = "gemma2"      // norms either side of sub-blocks, soft caps, every other layer has a window
	Gemma3   = "gemma3_text" // Gemma2 that norms the heads of queries and keys in place of capping their products
	GPTOss   = "gpt_oss"     // a mixture of experts with biases, sinks, every other layer a window
	GPT2     = "gpt2"        // LayerNorm, biases, GELU, learned positions
)

// geluTanh is the name in config.json of the tanh form of gelu; GPT-2's files have gelu_new.
const geluTanh = "gelu_pytorch_tanh"

// Config is a decoder's geometry. Fields follow Hugging Face's config.json of Llama; other spellings (GPT-2's n_embd, Gemma's
// hidden_activation, …) are read into the same fields. What a family does not have is zero.
type Config struct {
	ModelType             string // Llama, GPT2, …
	HiddenSize            int
	NumLayers             int
	NumHeads              int
	NumKVHeads            int // divides NumHeads; equal to it for GPT2
	HeadDim               int // even where positions are rotary; HiddenSize/NumHeads for GPT2
	IntermediateSize      int // of a dense feed-forward, and of Mixtral's experts
	VocabSize             int
	MaxPositionEmbeddings int
	RMSNormEps            float64 // all but GPT2
	LayerNormEps          float64 // GPT2
	RopeTheta             float64 // all but GPT2
	RopeLocalTheta        float64 // Gemma3: of layers with a window, whose frequencies are not scaled
	RopeScaling           RopeScaling
	RotaryDim             int      // elements of a head that turn; 0 is HeadDim
	NoRopeLayers          []int    // SmolLM3, by layer: 0 where it has no positions and 1 where it has; empty where all have
	SlidingWindow         int      // positions that a row of a sliding layer sees, its own the last; 0 where no layer slides
	LayerTypes            []string // SlidingAttention or FullAttention, by layer; empty where all layers slide, or none does
	TieWordEmbeddings     bool     // the head is the embedding
	AttentionBias         bool     // queries, keys and values have biases, and the output has, but for Qwen2
	MLPBias               bool     // a dense feed-forward has biases
	NumLocalExperts       int      // of a mixture of experts
	NumExpertsPerTok      int
	RouterShare           bool    // Qwen3MoE: weights of chosen experts are their shares among all, without norm_topk_prob
	MoEIntermediateSize   int     // Qwen3MoE: of an expert
	DenseLayers           []int   // Qwen3MoE: layers without experts, ascending
	QueryPreAttnScalar    float64 // Gemma: scores are divided by its root
	AttnLogitSoftcapping  float64 // Gemma2: of scaled scores; 0 is none
	FinalLogitSoftcapping float64 // Gemma: of logits; 0 is none
	SwiGLUAlpha           float64 // GPTOss: the slope of the gate's sigmoid
	SwiGLULimit           float64 // GPTOss: bounds gate and up
	HiddenAct             string  // "silu" (SwiGLU), or "gelu" or "gelu_pytorch_tanh" (GeGLU); for GPT2, without a gate, "gelu_new" (the tanh form) or "gelu"
	BOSTokenID            int     // −1 where there is none
	EOSTokenIDs           []int   // any of them ends a text
}

// The types of layers.
const (
	SlidingAttention = "sliding_attention"
	FullAttention    = "full_attention"
)

// Architecture is the class name that config.json lists.
func (c Config) Architecture() string { return c.family().class }

// MoE reports whether layers have a mixture of experts in place of their feed-forward.
func (c Config) MoE() bool { return c.NumLocalExperts > 0 }

// Window is how many positions a row of a layer sees, its own the last; 0 is all.
func (c Config) Window(layer int) int {
	if len(c.LayerTypes) > 0 && c.LayerTypes[layer] != SlidingAttention {
		return 0
	}
	return c.SlidingWindow
}

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
	f := c.family()
	if f.class == "" {
		return fmt.Errorf("model: model_type %q: want %s", c.ModelType, familyNames())
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
	check := c.validateRotary
	if f.check != nil {
		check = func() error { return f.check(c) }
	}
	if err := check(); err != nil {
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

// validateRotary checks what families with rotary positions share.
func (c Config) validateRotary() error {
	switch {
	case c.HeadDim%2 != 0:
		return fmt.Errorf("model: head_dim %d is odd; rotary positions turn pairs", c.HeadDim)
	case !small(c.RMSNormEps):
		return fmt.Errorf("model: rms_norm_eps %g: want between 0 and 1", c.RMSNormEps)
	case c.HiddenAct != "silu" && c.HiddenAct != "gelu" && c.HiddenAct != geluTanh:
		return fmt.Errorf("model: hidden_act %q: want silu, gelu or %s", c.HiddenAct, geluTanh)
	}
	if err := c.validateLayers(); err != nil {
		return err
	}
	if err := c.validateRope(); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		x    float64
	}{
		{"query_pre_attn_scalar", c.QueryPreAttnScalar}, {"attn_logit_softcapping", c.AttnLogitSoftcapping}, {"final_logit_softcapping", c.FinalLogitSoftcapping},
	} {
		if !(f.x >= 0 && f.x <= 1e6) || f.x > 0 && f.x < 1e-3 {
			return fmt.Errorf("model: %s %g: want 0.001 to 1e6, or 0 for none", f.name, f.x)
		}
	}
	if !c.family().mixture {
		if c.NumLocalExperts != 0 || c.NumExpertsPerTok != 0 || c.MoEIntermediateSize != 0 || len(c.DenseLayers) > 0 || c.RouterShare {
			return fmt.Errorf("model: num_local_experts %d: %s has no mixture of experts", c.NumLocalExperts, c.ModelType)
		}
		return nil
	}
	switch {
	case c.NumLocalExperts < 1 || c.NumLocalExperts > maxExperts:
		return fmt.Errorf("model: num_local_experts %d: want 1 to %d", c.NumLocalExperts, maxExperts)
	case c.NumExpertsPerTok < 1 || c.NumExpertsPerTok > c.NumLocalExperts:
		return fmt.Errorf("model: num_experts_per_tok %d of %d experts", c.NumExpertsPerTok, c.NumLocalExperts)
	case c.MoEIntermediateSize < 0 || c.MoEIntermediateSize > maxFFN:
		return fmt.Errorf("model: moe_intermediate_size %d: want 1 to %d", c.MoEIntermediateSize, maxFFN)
	}
	return nil
}

var (
	errNoRope   = errors.New("model: no_rope_layers of smollm3 lists every layer")
	errNoClamp  = errors.New("model: gpt_oss bounds its activation: want swiglu_alpha and swiglu_limit above 0")
	errNoBias   = errors.New("model: queries, keys and values of qwen2 have biases: want attention_bias")
	errNoScalar = errors.New("model: query_pre_attn_scalar 0: want 0.001 to 1e6")
)

// validateLayers checks what is listed by layer.
func (c Config) validateLayers() error {
	switch {
	case c.SlidingWindow < 0 || c.SlidingWindow > maxPos:
		return fmt.Errorf("model: sliding_window %d: want 1 to %d", c.SlidingWindow, maxPos)
	case len(c.LayerTypes) > 0 && len(c.LayerTypes) != c.NumLayers:
		return fmt.Errorf("model: layer_types has %d layers, the model %d", len(c.LayerTypes), c.NumLayers)
	case len(c.NoRopeLayers) > 0 && len(c.NoRopeLayers) != c.NumLayers:
		return fmt.Errorf("model: no_rope_layers has %d layers, the model %d", len(c.NoRopeLayers), c.NumLayers)
	}
	for i, t := range c.LayerTypes {
		if t != SlidingAttention && t != FullAttention {
			return fmt.Errorf("model: layer_types %q of layer %d: want %s or %s", t, i, SlidingAttention, FullAttention)
		}
		if t == SlidingAttention && c.SlidingWindow == 0 {
			return fmt.Errorf("model: layer %d has a window, and there is no sliding_window", i)
		}
	}
	for i, x := range c.NoRopeLayers {
		if x != 0 && x != 1 {
			return fmt.Errorf("model: no_rope_layers %d of layer %d: want 0 or 1", x, i)
		}
	}
	for i, x := range c.DenseLayers {
		if x < 0 || x >= c.NumLayers || i > 0 && x <= c.DenseLayers[i-1] {
			return fmt.Errorf("model: layer %d without experts: want layers of %d, ascending", x, c.NumLayers)
		}
	}
	return nil
}

// small reports whether a norm's epsilon is more than nothing as an f32 and less than 1.
func small(eps float64) bool { return eps >= math.SmallestNonzeroFloat32 && eps < 1 }

// params is the number of parameters without overflow.
func (c Config) params() float64 {
	l := &lister{counting: true}
	c.family().list(l, c)
	return l.count
}

// Params is the number of parameters of a valid configuration; a tied head is counted once.
func (c Config) Params() int64 { return int64(c.params()) }
