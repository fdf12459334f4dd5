package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"loadline/internal/regular"
)

// maxConfigBytes is the longest config.json that is read.
const maxConfigBytes = 1 << 20

// tokenIDs is a token id, a list of them, or null.
type tokenIDs []int

func (t *tokenIDs) UnmarshalJSON(b []byte) error {
	var one *int
	if err := json.Unmarshal(b, &one); err == nil {
		*t = nil
		if one != nil {
			*t = tokenIDs{*one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(t))
}

func (t tokenIDs) MarshalJSON() ([]byte, error) {
	switch len(t) {
	case 0:
		return []byte("null"), nil
	case 1:
		return json.Marshal(t[0])
	}
	return json.Marshal([]int(t))
}

// nullable is a field of which null is not the same as nothing: null asks for none, nothing for the default.
type nullable[T int | real] struct {
	given bool
	value *T
}

func (n *nullable[T]) UnmarshalJSON(b []byte) error {
	n.given = true
	return json.Unmarshal(b, &n.value)
}

func (n nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.value) }

// or is the value, 0 for null, or otherwise where there is none.
func (n nullable[T]) or(otherwise T) T {
	switch {
	case !n.given:
		return otherwise
	case n.value == nil:
		return 0
	}
	return *n.value
}

// real is a number that is written with a point or an exponent, which is how readers that check types tell it from an integer.
type real float64

func (r real) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(float64(r))
	if err == nil && !bytes.ContainsAny(b, ".e") {
		b = append(b, ".0"...)
	}
	return b, err
}

// known is v, null for 0.
func known[T int | real](v T) nullable[T] {
	if v == 0 {
		return nullable[T]{given: true}
	}
	return nullable[T]{true, &v}
}

// configJSON is config.json: what is read of it. Pointers tell absent fields from zeros.
type configJSON struct {
	Architectures         []string  `json:"architectures,omitempty"`
	ModelType             string    `json:"model_type"`
	HiddenSize            *int      `json:"hidden_size,omitempty"`
	NumLayers             *int      `json:"num_hidden_layers,omitempty"`
	NumHeads              *int      `json:"num_attention_heads,omitempty"`
	NumKVHeads            *int      `json:"num_key_value_heads,omitempty"`
	HeadDim               *int      `json:"head_dim,omitempty"`
	IntermediateSize      *int      `json:"intermediate_size,omitempty"`
	VocabSize             *int      `json:"vocab_size,omitempty"`
	MaxPositionEmbeddings *int      `json:"max_position_embeddings,omitempty"`
	RMSNormEps            *float64  `json:"rms_norm_eps,omitempty"`
	RopeTheta             *float64  `json:"rope_theta,omitempty"`
	RopeScaling           *ropeJSON `json:"rope_scaling,omitempty"`
	RopeParameters        *ropeJSON `json:"rope_parameters,omitempty"`
	TieWordEmbeddings     *bool     `json:"tie_word_embeddings,omitempty"`
	HiddenAct             *string   `json:"hidden_act,omitempty"`
	NumLocalExperts       *int      `json:"num_local_experts,omitempty"`
	NumExpertsPerTok      *int      `json:"num_experts_per_tok,omitempty"`
	AttentionBias         *bool     `json:"attention_bias,omitempty"`
	MLPBias               *bool     `json:"mlp_bias,omitempty"`
	Partial               *float64  `json:"partial_rotary_factor,omitempty"`
	Original              *int      `json:"original_max_position_embeddings,omitempty"`
	RopeLocalTheta        *float64  `json:"rope_local_base_freq,omitempty"`
	LayerTypes            []string  `json:"layer_types,omitempty"`
	UseSlidingWindow      *bool     `json:"use_sliding_window,omitempty"`
	MaxWindowLayers       *int      `json:"max_window_layers,omitempty"`
	SlidingWindowPattern  *int      `json:"sliding_window_pattern,omitempty"`

	SlidingWindow         nullable[int]  `json:"sliding_window,omitzero"`
	AttnLogitSoftcapping  nullable[real] `json:"attn_logit_softcapping,omitzero"`
	FinalLogitSoftcapping nullable[real] `json:"final_logit_softcapping,omitzero"`

	HiddenActivation          *string  `json:"hidden_activation,omitempty"`
	QueryPreAttnScalar        *float64 `json:"query_pre_attn_scalar,omitempty"`
	UseBidirectionalAttention *bool    `json:"use_bidirectional_attention,omitempty"`
	NoRopeLayers              []int    `json:"no_rope_layers,omitempty"`
	NoRopeLayerInterval       *int     `json:"no_rope_layer_interval,omitempty"`
	NumExperts                *int     `json:"num_experts,omitempty"`
	MoEIntermediateSize       *int     `json:"moe_intermediate_size,omitempty"`
	NormTopKProb              *bool    `json:"norm_topk_prob,omitempty"`
	DecoderSparseStep         *int     `json:"decoder_sparse_step,omitempty"`
	MLPOnlyLayers             []int    `json:"mlp_only_layers,omitempty"`
	SwiGLUAlpha               *real    `json:"swiglu_alpha,omitempty"`
	SwiGLULimit               *real    `json:"swiglu_limit,omitempty"`

	NEmbd        *int     `json:"n_embd,omitempty"`
	NLayer       *int     `json:"n_layer,omitempty"`
	NHead        *int     `json:"n_head,omitempty"`
	NInner       *int     `json:"n_inner,omitempty"`
	NPositions   *int     `json:"n_positions,omitempty"`
	LayerNormEps *float64 `json:"layer_norm_epsilon,omitempty"`
	Activation   *string  `json:"activation_function,omitempty"`
	ScaleAttn    *bool    `json:"scale_attn_weights,omitempty"`
	ScaleByLayer *bool    `json:"scale_attn_by_inverse_layer_idx,omitempty"`
	CrossAttn    *bool    `json:"add_cross_attention,omitempty"`

	BOSTokenID *int          `json:"bos_token_id,omitempty"`
	EOSTokenID tokenIDs      `json:"eos_token_id"`
	PadTokenID nullable[int] `json:"pad_token_id,omitzero"` // written as null where the family's default may lie outside the vocabulary
	TorchDType string        `json:"torch_dtype,omitempty"`

	unread string // names a field that was read and cannot be followed
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// DecodeConfig reads config.json. Absent fields take transformers' defaults, unknown fields are ignored, and a field that
// asks for a variant which is not built (scaled rotary positions, sliding windows, …) is an error rather than a wrong model.
func DecodeConfig(data []byte) (Config, error) {
	var j configJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return Config{}, fmt.Errorf("model: config.json: %w", err)
	}
	if j.ModelType == "" && len(j.Architectures) == 1 {
		for _, f := range families() {
			if f.class == j.Architectures[0] {
				j.ModelType = f.modelType
			}
		}
	}
	c := Config{ModelType: j.ModelType, VocabSize: or(j.VocabSize, 0), BOSTokenID: or(j.BOSTokenID, -1), EOSTokenIDs: j.EOSTokenID}
	f := c.family()
	if f.read != nil {
		f.read(&j, &c)
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	if j.unread == "" && f.refuse != nil {
		j.unread = f.refuse(&j)
	}
	if j.unread != "" {
		return Config{}, fmt.Errorf("model: config.json: this %s of a %s model is not supported", j.unread, c.ModelType)
	}
	return c, nil
}

// defaults are what transformers takes for fields that a file of a family leaves out.
type defaults struct {
	eps, theta float64
	local      float64 // of RopeLocalTheta; 0 where the family has none
	positions  int
	original   int // of original_max_position_embeddings, where it stands outside rope_scaling; 0 where it does not
	headDim    int // 0 is HiddenSize/NumHeads
	act        string
	tie        bool
	partial    bool // a part of a head may turn
}

// rotary fills c with what all families with rotary positions share.
func (j *configJSON) rotary(c *Config, d defaults) {
	c.HiddenSize, c.NumLayers, c.NumHeads = or(j.HiddenSize, 0), or(j.NumLayers, 0), or(j.NumHeads, 0)
	c.NumKVHeads = or(j.NumKVHeads, c.NumHeads)
	if j.HeadDim != nil {
		c.HeadDim = *j.HeadDim
	} else if d.headDim > 0 {
		c.HeadDim = d.headDim
	} else if c.NumHeads > 0 && c.HiddenSize%c.NumHeads == 0 {
		c.HeadDim = c.HiddenSize / c.NumHeads
	}
	c.IntermediateSize = or(j.IntermediateSize, 0)
	if d.act == "" {
		d.act = "silu"
	}
	switch c.HiddenAct = or(j.HiddenAct, d.act); c.HiddenAct { // other names of the same functions
	case "swish":
		c.HiddenAct = "silu"
	case "gelu_new":
		c.HiddenAct = geluTanh
	}
	c.TieWordEmbeddings = or(j.TieWordEmbeddings, d.tie)
	c.RMSNormEps, c.MaxPositionEmbeddings = or(j.RMSNormEps, d.eps), or(j.MaxPositionEmbeddings, d.positions)
	j.rope(c, d)
}

// everyLayer is slides's answer for families whose layers are alike.
func everyLayer(int) bool { return true }

// slides fills c's windows: n positions, 0 for none, in the layers that layer_types lists or else in those that by names.
func (j *configJSON) slides(c *Config, n int, by func(layer int) bool) {
	types := j.LayerTypes
	for i := range max(0, min(c.NumLayers, maxLayers)) {
		if len(j.LayerTypes) > 0 {
			break
		}
		t := FullAttention
		if n != 0 && by(i) {
			t = SlidingAttention
		}
		types = append(types, t)
	}
	count := map[string]int{}
	for _, t := range types {
		count[t]++
	}
	c.SlidingWindow, c.LayerTypes = n, types
	switch c.NumLayers {
	case count[FullAttention]:
		c.SlidingWindow, c.LayerTypes = 0, nil
	case count[SlidingAttention]:
		if n != 0 {
			c.LayerTypes = nil
		}
	}
}

// window is sliding_window of c.
func window(c Config) nullable[int] { return known(c.SlidingWindow) }

// writeSlides is slides's inverse, for families whose layers differ.
func (j *configJSON) writeSlides(c Config) {
	slides := c.SlidingWindow > 0
	j.SlidingWindow, j.UseSlidingWindow = window(c), &slides
	for i := range c.NumLayers {
		t := FullAttention
		if c.Window(i) > 0 {
			t = SlidingAttention
		}
		j.LayerTypes = append(j.LayerTypes, t)
	}
}

// EncodeConfig writes c as config.json, which transformers 4 and 5 and DecodeConfig read.
func EncodeConfig(c Config) ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	j := configJSON{
		Architectures: []string{c.Architecture()}, ModelType: c.ModelType, VocabSize: &c.VocabSize,
		TieWordEmbeddings: &c.TieWordEmbeddings, EOSTokenID: c.EOSTokenIDs, TorchDType: "float32",
	}
	if c.BOSTokenID >= 0 {
		j.BOSTokenID = &c.BOSTokenID
	}
	f := c.family()
	if c.ModelType != GPT2 {
		j.HiddenSize, j.NumLayers, j.NumHeads, j.NumKVHeads, j.HeadDim = &c.HiddenSize, &c.NumLayers, &c.NumHeads, &c.NumKVHeads, &c.HeadDim
		j.IntermediateSize, j.MaxPositionEmbeddings, j.HiddenAct = &c.IntermediateSize, &c.MaxPositionEmbeddings, &c.HiddenAct
		j.RMSNormEps = &c.RMSNormEps
		j.writeRope(c, c.ModelType == Phi3)
	}
	f.write(c, &j)
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("model: config.json: %w", err)
	}
	return append(data, '\n'), nil
}

// ReadConfig reads the config.json at path.
func ReadConfig(path string) (c Config, err error) {
	data, err := regular.ReadAll(path, maxConfigBytes)
	if err != nil {
		return c, fmt.Errorf("model: %w", err)
	}
	if c, err = DecodeConfig(data); err != nil {
		return c, fmt.Errorf("%w (in %s)", err, path)
	}
	return c, nil
}

// WriteConfig writes c to path; it does not sync.
func WriteConfig(path string, c Config) error {
	data, err := EncodeConfig(c)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}
