package shape

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// MaxConfigBytes is the longest config.json that Parse reads.
const MaxConfigBytes = 1 << 20

// config is a config.json, whatever the architecture.
type config map[string]any

// Parse reads a config.json. Of a model of several parts it takes the language model.
func Parse(name string, body []byte) (*Shape, error) {
	if len(body) > MaxConfigBytes {
		return nil, fmt.Errorf("shape: %s: config.json of %d bytes, want at most %d", name, len(body), MaxConfigBytes)
	}
	var c config
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, fmt.Errorf("shape: %s: %w", name, err)
	}
	return c.shape(name)
}

// traits are what an architecture fixes without saying so in its config.json.
type traits struct {
	plain   bool // an MLP without a gate
	untied  bool // output projection of its own unless tie_word_embeddings says otherwise
	bias    bool // biases on every projection
	qkvBias bool
	qkNorm  bool
	layer   bool // LayerNorm with a bias
	norms   int  // a layer, where not 2
	learned bool // learned positions
}

var known = map[string]traits{
	"gpt2": {plain: true, bias: true, layer: true, learned: true}, "gpt_bigcode": {plain: true, bias: true, layer: true, learned: true},
	"gpt_neox": {plain: true, untied: true, bias: true, layer: true}, "gptj": {plain: true, untied: true, layer: true, norms: 1},
	"opt": {plain: true, bias: true, layer: true, learned: true}, "bloom": {plain: true, bias: true, layer: true},
	"mpt": {plain: true}, "falcon": {plain: true, layer: true, norms: 1}, "bert": {plain: true, bias: true, layer: true, learned: true},
	"phi": {plain: true, untied: true, bias: true, layer: true, norms: 1}, "phi3": {untied: true},
	"starcoder2": {plain: true, bias: true, layer: true}, "nemotron": {plain: true, untied: true, layer: true},
	"llama": {untied: true}, "mistral": {untied: true}, "mixtral": {untied: true}, "stablelm": {untied: true, layer: true},
	"qwen": {untied: true, qkvBias: true}, "qwen2": {untied: true, qkvBias: true}, "qwen2_moe": {untied: true, qkvBias: true},
	"qwen3": {untied: true, qkNorm: true}, "qwen3_moe": {untied: true, qkNorm: true}, "qwen3_next": {untied: true, qkNorm: true},
	"gemma": {}, "gemma2": {norms: 4}, "gemma3_text": {norms: 4, qkNorm: true}, "gemma3": {norms: 4, qkNorm: true},
	"cohere": {norms: 1}, "cohere2": {norms: 1}, "olmo": {untied: true}, "olmo2": {untied: true},
	"deepseek_v2": {untied: true}, "deepseek_v3": {untied: true}, "kimi_k2": {untied: true},
	"glm": {untied: true}, "glm4": {untied: true, norms: 4}, "glm4_moe": {untied: true}, "hunyuan_v1_moe": {qkNorm: true}, "chatglm": {untied: true, qkvBias: true},
	"gpt_oss": {untied: true, qkvBias: true}, "llama4_text": {untied: true}, "granite": {}, "internlm2": {untied: true},
	"baichuan": {untied: true}, "exaone": {}, "smollm3": {}, "bitnet": {}, "minicpm": {untied: true}, "yi": {untied: true},
}

func (c config) shape(name string) (*Shape, error) {
	if inner, ok := c["text_config"].(map[string]any); ok {
		if tie, ok := c["tie_word_embeddings"]; ok && inner["tie_word_embeddings"] == nil {
			inner["tie_word_embeddings"] = tie
		}
		c = inner
	}
	if err := c.check(name); err != nil {
		return nil, err
	}
	arch := strings.ToLower(c.text("model_type"))
	t, ok := known[arch]
	if !ok {
		t = traits{untied: true} // as Llama
	}
	s := &Shape{
		Name: name, Arch: arch,
		Hidden: c.int("hidden_size", "n_embd", "d_model"), Heads: c.int("num_attention_heads", "n_head", "n_heads"),
		Vocab: c.int("padded_vocab_size", "vocab_size"), Tied: c.flag(!t.untied, "tie_word_embeddings"),
		Gated: !t.plain, NormBias: t.layer, QKNorm: t.qkNorm || c.flag(false, "use_qk_norm"), Norms: 2, EmbedNorm: arch == "bloom", HeadBias: arch == "phi" || arch == "gptj",
		QKVBias: c.flag(t.bias || t.qkvBias, "attention_bias", "qkv_bias", "add_qkv_bias"), OutBias: c.flag(t.bias, "attention_out_bias"),
		MLPBias: c.flag(t.bias, "mlp_bias"), OutputGate: arch == "qwen3_next",
		QRank: c.int("q_lora_rank"), KVRank: c.int("kv_lora_rank"), NopeDim: c.int("qk_nope_head_dim"), RopeDim: c.int("qk_rope_head_dim"), VDim: c.int("v_head_dim"),
		TopK: c.int("num_experts_per_tok", "moe_topk"), ExpertFFN: c.int("moe_intermediate_size"),
	}
	if t.norms > 0 {
		s.Norms = t.norms
	}
	if arch == "gpt_oss" {
		s.OutBias, s.ExpertBias = true, true
	}
	if t.learned {
		s.Positions = c.int("max_position_embeddings", "n_positions")
		if arch == "opt" {
			s.Positions += 2 // padding rows
		}
	}
	if s.Heads > 0 {
		s.HeadDim = s.Hidden / s.Heads
	}
	if d := c.int("head_dim", "kv_channels"); d > 0 {
		s.HeadDim = d
	} else if s.KVRank == 0 && s.Heads > 0 && s.Heads <= 1<<14 && s.Hidden <= 1<<20 && s.Hidden%s.Heads != 0 {
		near := nearestDivisor(s.Hidden, s.Heads)
		return nil, fmt.Errorf("shape: %s: %d heads do not divide the hidden size, %s; the nearest valid value is %d", name, s.Heads, number(s.Hidden), near)
	}
	if s.KVRank > 0 {
		s.HeadDim = s.NopeDim + s.RopeDim
	}
	s.MaxTokens = c.maxTokens(arch)
	if err := c.layers(s); err != nil {
		return nil, err
	}
	return s, s.Validate()
}

// maxTokens returns the longest context, or 0 where the config.json does not bound it. Scaled rotation raises it as in
// vllm/config/model.py: by its factor, yarn's from the length before it, where the length does not count it already.
func (c config) maxTokens(arch string) int {
	if arch == "bloom" || arch == "mpt" { // ALiBi
		return 0
	}
	n := float64(c.int("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"))
	rope, _ := c["rope_scaling"].(map[string]any)
	if rope == nil {
		rope, _ = c["rope_parameters"].(map[string]any)
	}
	kind := config(rope).text("rope_type")
	if kind == "" {
		kind = config(rope).text("type")
	}
	factor, _ := rope["factor"].(float64)
	switch kind {
	case "yarn":
		before, _ := rope["original_max_position_embeddings"].(float64)
		if before <= 0 {
			before = n
		}
		n = max(n, before*factor)
	case "linear", "dynamic":
		if !strings.HasPrefix(arch, "gemma3") { // whose length counts it
			n *= max(1, factor)
		}
	}
	if !(n > 0 && n <= maxDim) {
		return 0
	}
	return int(n)
}

// layers builds the list of layers.
func (c config) layers(s *Shape) error {
	n := c.int(layerKeys...)
	if n < 1 || n > 4096 {
		return fmt.Errorf("shape: %s: got %s layers, want 1 to 4096; the nearest valid value is %d", s.Name, number(n), min(4096, max(1, n)))
	}
	ffn := c.ints("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim")
	if len(ffn) == 0 {
		ratio := max(c.int("expansion_ratio"), 4)
		ffn = []int{ratio * s.Hidden}
	}
	if s.Arch == "qwen" {
		ffn[0] /= 2 // its config.json counts gate and up
	}
	kv := c.ints("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
	if s.Arch == "falcon" && !c.flag(false, "new_decoder_architecture") && c.flag(false, "multi_query") {
		kv = []int{1}
	}
	if attn, ok := c["attn_config"].(map[string]any); ok && len(kv) == 0 {
		kv = config(attn).ints("kv_n_heads")
	}
	if len(kv) == 0 {
		kv = []int{s.Heads}
	}
	if s.Arch == "falcon" && c.flag(false, "new_decoder_architecture") {
		s.Norms = 2
	}
	experts := c.int("n_routed_experts", "num_local_experts", "num_experts")
	if experts > 0 && s.ExpertFFN == 0 {
		s.ExpertFFN = ffn[0]
	}
	shared := c.int("shared_expert_intermediate_size")
	if k := c.int("n_shared_experts"); k > 0 {
		shared = k * s.ExpertFFN
	}
	s.SharedFFN = shared
	dense, every := c.int("first_k_dense_replace"), max(1, c.int("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq"))
	if s.Arch == "llama4_text" {
		s.SharedFFN = s.ExpertFFN
		if m := c.int("intermediate_size_mlp"); m > 0 {
			ffn = []int{m}
		}
	}
	only := c.ints("mlp_only_layers")
	for i := range n {
		l := Layer{Mixer: Attention, KVHeads: at(kv, i), HeadDim: s.HeadDim, FFN: at(ffn, i)}
		if s.KVRank > 0 {
			l = Layer{Mixer: Latent, FFN: at(ffn, i)}
		}
		if experts > 0 && i >= dense && (i+1)%every == 0 && !slices.Contains(only, i) {
			l.FFN, l.Experts = 0, experts
		}
		c.mixer(s, &l, i)
		s.Layers = append(s.Layers, l)
	}
	return nil
}

// mixer sets what layer i looks at: windows, and the recurrent layers of hybrids.
func (c config) mixer(s *Shape, l *Layer, i int) {
	window := c.int("sliding_window", "sliding_window_size", "attention_chunk_size")
	kind := ""
	if kinds, ok := c["layer_types"].([]any); ok {
		if i < len(kinds) {
			kind, _ = kinds[i].(string)
		}
	} else if every := c.int("sliding_window_pattern", "_sliding_window_pattern"); every > 0 {
		if (i+1)%every != 0 {
			kind = "sliding_attention"
		}
	} else if s.Arch == "gemma2" || s.Arch == "gpt_oss" {
		if i%2 == 0 {
			kind = "sliding_attention"
		}
	} else if s.Arch == "mistral" || s.Arch == "mixtral" || s.Arch == "phi3" || s.Arch == "starcoder2" {
		kind = "sliding_attention"
	} else if s.Arch == "llama4_text" && (i+1)%4 != 0 {
		kind = "chunked_attention"
	} else if every := c.int("full_attention_interval"); every > 0 && (i+1)%every != 0 {
		kind = "linear_attention"
	}
	switch kind {
	case "sliding_attention", "chunked_attention":
		l.Window = window
	case "linear_attention", "mamba", "recurrent":
		*l = Layer{Mixer: Recurrent, FFN: l.FFN, Experts: l.Experts}
		kh, kd, vh, vd := c.int("linear_num_key_heads"), c.int("linear_key_head_dim"), c.int("linear_num_value_heads"), c.int("linear_value_head_dim")
		if max(kh, kd, vh, vd, c.int("linear_conv_kernel_dim")) > 1<<14 || s.Hidden > 1<<20 {
			s.RecurrentPs = -1 // refused by Validate
			return
		}
		conv := 2*kh*kd + vh*vd
		s.StateElems = kd*vh*vd + (c.int("linear_conv_kernel_dim")-1)*conv
		// in: query, key, value, gate and two scalars a value head; out; the convolution; decay and norm
		s.RecurrentPs = s.Hidden*(conv+vh*vd+2*vh) + vh*vd*s.Hidden + conv*c.int("linear_conv_kernel_dim") + 2*vh + vd
	}
}

func at(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return list[len(list)-1]
}

func (c config) text(key string) string {
	s, _ := c[key].(string)
	return s
}

// int returns the first of keys that has a number, or 0.
func (c config) int(keys ...string) int {
	for _, k := range keys {
		if f, ok := c[k].(float64); ok {
			return whole(f)
		}
	}
	return 0
}

// ints returns the first of keys that has a number or a list of them.
func (c config) ints(keys ...string) []int {
	for _, k := range keys {
		switch v := c[k].(type) {
		case float64:
			return []int{whole(v)}
		case []any:
			var all []int
			for _, x := range v {
				f, ok := x.(float64)
				if !ok {
					return nil
				}
				all = append(all, whole(f))
			}
			if len(all) > 0 {
				return all
			}
		}
	}
	return nil
}

func whole(f float64) int {
	switch {
	case f != math.Trunc(f) || f < -huge:
		return -1 // refused by Validate
	case f > huge:
		return huge
	}
	return int(f)
}

// flag returns the first of keys that has a truth value, or def.
func (c config) flag(def bool, keys ...string) bool {
	for _, k := range keys {
		if b, ok := c[k].(bool); ok {
			return b
		}
	}
	return def
}
