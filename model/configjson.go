package model

import (
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

// ropeJSON is rope_scaling, or rope_parameters since transformers 5.
type ropeJSON struct {
	RopeTheta *float64 `json:"rope_theta,omitempty"`
	RopeType  *string  `json:"rope_type,omitempty"`
	Type      *string  `json:"type,omitempty"`
	Partial   *float64 `json:"partial_rotary_factor,omitempty"`
}

// plain reports whether r asks for nothing but unscaled rotation of whole heads.
func (r *ropeJSON) plain() bool {
	if r == nil {
		return true
	}
	for _, t := range []*string{r.RopeType, r.Type} {
		if t != nil && *t != "default" {
			return false
		}
	}
	return r.Partial == nil || *r.Partial == 1
}

// configJSON is config.json: what is read of Llama, Mixtral and GPT-2. Pointers tell absent fields from zeros.
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
	SlidingWindow         *int      `json:"sliding_window,omitempty"`

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

	BOSTokenID *int     `json:"bos_token_id,omitempty"`
	EOSTokenID tokenIDs `json:"eos_token_id"`
	TorchDType string   `json:"torch_dtype,omitempty"`
}

func or[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

// refusal names a field whose value asks for arithmetic that this package does not have, or is "".
func (j *configJSON) refusal() string {
	switch {
	case !j.RopeScaling.plain():
		return "rope_scaling"
	case !j.RopeParameters.plain():
		return "rope_parameters"
	case or(j.AttentionBias, false):
		return "attention_bias"
	case or(j.MLPBias, false):
		return "mlp_bias"
	case j.SlidingWindow != nil && *j.SlidingWindow < or(j.MaxPositionEmbeddings, maxPos):
		return "sliding_window"
	case !or(j.ScaleAttn, true):
		return "scale_attn_weights"
	case or(j.ScaleByLayer, false):
		return "scale_attn_by_inverse_layer_idx"
	case or(j.CrossAttn, false):
		return "add_cross_attention"
	}
	return ""
}

// DecodeConfig reads config.json. Absent fields take transformers' defaults, unknown fields are ignored, and a field that
// asks for a variant which is not built (scaled rotary positions, sliding windows, …) is an error rather than a wrong model.
func DecodeConfig(data []byte) (Config, error) {
	var j configJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return Config{}, fmt.Errorf("model: config.json: %w", err)
	}
	if j.ModelType == "" && len(j.Architectures) == 1 {
		for _, t := range []string{Llama, Mixtral, GPT2} {
			if architecture(t) == j.Architectures[0] {
				j.ModelType = t
			}
		}
	}
	c := Config{ModelType: j.ModelType, VocabSize: or(j.VocabSize, 0), BOSTokenID: or(j.BOSTokenID, -1), EOSTokenIDs: j.EOSTokenID}
	switch c.ModelType {
	case Llama, Mixtral:
		j.llama(&c)
	case GPT2:
		j.gpt2(&c)
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	if f := j.refusal(); f != "" {
		return Config{}, fmt.Errorf("model: config.json: this %s of a %s model is not supported", f, c.ModelType)
	}
	return c, nil
}

// llama fills c with what Llama and Mixtral share and with Mixtral's own.
func (j *configJSON) llama(c *Config) {
	c.HiddenSize, c.NumLayers, c.NumHeads = or(j.HiddenSize, 0), or(j.NumLayers, 0), or(j.NumHeads, 0)
	c.NumKVHeads = or(j.NumKVHeads, c.NumHeads)
	if j.HeadDim != nil {
		c.HeadDim = *j.HeadDim
	} else if c.NumHeads > 0 && c.HiddenSize%c.NumHeads == 0 {
		c.HeadDim = c.HiddenSize / c.NumHeads
	}
	c.IntermediateSize = or(j.IntermediateSize, 0)
	switch c.HiddenAct = or(j.HiddenAct, "silu"); c.HiddenAct { // other names of the same functions
	case "swish":
		c.HiddenAct = "silu"
	case "gelu_new":
		c.HiddenAct = geluTanh
	}
	c.TieWordEmbeddings = or(j.TieWordEmbeddings, false)
	eps, theta, positions := 1e-6, 1e4, 2048
	if c.ModelType == Mixtral {
		eps, theta, positions = 1e-5, 1e6, 1<<17
		c.NumLocalExperts, c.NumExpertsPerTok = or(j.NumLocalExperts, 8), or(j.NumExpertsPerTok, 2)
	}
	c.RMSNormEps, c.MaxPositionEmbeddings = or(j.RMSNormEps, eps), or(j.MaxPositionEmbeddings, positions)
	c.RopeTheta = or(j.RopeTheta, theta)
	if r := j.RopeParameters; r != nil {
		c.RopeTheta = or(r.RopeTheta, c.RopeTheta)
	}
}

// gpt2 fills c from GPT-2's spellings.
func (j *configJSON) gpt2(c *Config) {
	c.HiddenSize, c.NumLayers, c.NumHeads = or(j.NEmbd, 768), or(j.NLayer, 12), or(j.NHead, 12)
	c.NumKVHeads = c.NumHeads
	if c.NumHeads > 0 && c.HiddenSize > 0 {
		c.HeadDim = max(1, c.HiddenSize/c.NumHeads)
	}
	c.IntermediateSize = or(j.NInner, 4*c.HiddenSize)
	c.VocabSize, c.MaxPositionEmbeddings = or(j.VocabSize, 50257), or(j.NPositions, 1024)
	c.LayerNormEps = or(j.LayerNormEps, 1e-5)
	c.TieWordEmbeddings = or(j.TieWordEmbeddings, true)
	c.HiddenAct = or(j.Activation, "gelu_new")
	if c.HiddenAct == geluTanh { // another name of the same function
		c.HiddenAct = "gelu_new"
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
	if c.ModelType == GPT2 {
		j.NEmbd, j.NLayer, j.NHead, j.NInner, j.NPositions = &c.HiddenSize, &c.NumLayers, &c.NumHeads, &c.IntermediateSize, &c.MaxPositionEmbeddings
		j.LayerNormEps, j.Activation = &c.LayerNormEps, &c.HiddenAct
	} else {
		j.HiddenSize, j.NumLayers, j.NumHeads, j.NumKVHeads, j.HeadDim = &c.HiddenSize, &c.NumLayers, &c.NumHeads, &c.NumKVHeads, &c.HeadDim
		j.IntermediateSize, j.MaxPositionEmbeddings, j.HiddenAct = &c.IntermediateSize, &c.MaxPositionEmbeddings, &c.HiddenAct
		j.RMSNormEps, j.RopeTheta = &c.RMSNormEps, &c.RopeTheta
	}
	if c.MoE() {
		j.NumLocalExperts, j.NumExpertsPerTok = &c.NumLocalExperts, &c.NumExpertsPerTok
	}
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
