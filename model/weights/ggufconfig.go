package weights

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"loadline/model"
	"loadline/model/gguf"
	"loadline/tensor/quant"
)

// ggufArchitectures are the values of general.architecture that are read, with the model_type that config.json has for them.
func ggufArchitectures() map[string]string {
	return map[string]string{
		"llama": "llama", "smollm3": "smollm3", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe",
		"gemma2": "gemma2", "gemma3": "gemma3_text", "phi3": "phi3", "gpt2": "gpt2", "gpt-oss": "gpt_oss",
	}
}

// ggufConfig makes the configuration of a model from the metadata of its GGUF file: the config.json that the file was made from, as
// far as the file has it, is put together and read.
func ggufConfig(f *gguf.File) (model.Config, error) {
	g := &metadata{meta: f.Meta(), f: f, json: map[string]any{}}
	body, err := g.config()
	if err != nil {
		return model.Config{}, fmt.Errorf("weights: %w", err)
	}
	c, err := model.DecodeConfig(body)
	if err != nil {
		return c, fmt.Errorf("weights: general.architecture %q: %w", g.arch, err)
	}
	return c, addEnds(&c, g.ends(c.VocabSize))
}

// metadata is a config.json in the making.
type metadata struct {
	meta gguf.Metadata
	f    *gguf.File
	arch string
	kind string // model_type
	json map[string]any
	err  error
}

// integer reads a key of the architecture, which may be a list of one number for each layer.
func (g *metadata) integer(key string) (int, bool) {
	key = g.arch + "." + key
	list, ok := g.meta.Ints(key)
	if !ok || len(list) == 0 {
		if _, there := g.meta.Get(key); there && g.err == nil {
			g.err = fmt.Errorf("%s is no whole number", key)
		}
		return 0, false
	}
	for _, n := range list {
		if n != list[0] && g.err == nil {
			g.err = fmt.Errorf("%s differs between layers: %v", key, list[:min(8, len(list))])
		}
	}
	if list[0] < 0 || list[0] > math.MaxInt32 {
		if g.err == nil {
			g.err = fmt.Errorf("%s is %d", key, list[0])
		}
		return 0, false
	}
	return int(list[0]), true
}

// number reads a key of the architecture as the shortest decimal that a float32 is.
func (g *metadata) number(key string) (float64, bool) {
	x, ok := g.meta.Float(g.arch + "." + key)
	if !ok {
		return 0, false
	}
	if x-x != 0 {
		if g.err == nil {
			g.err = fmt.Errorf("%s.%s is %v", g.arch, key, x)
		}
		return 0, false
	}
	if short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64); err == nil && float32(short) == float32(x) {
		x = short
	}
	return x, true
}

// copy puts integers of the file under names of config.json.
func (g *metadata) copy(names map[string]string) {
	for key, name := range names {
		if n, ok := g.integer(key); ok {
			g.json[name] = n
		}
	}
}

// config puts config.json together.
func (g *metadata) config() ([]byte, error) {
	arch, ok := g.meta.Text("general.architecture")
	if !ok {
		return nil, fmt.Errorf("the file does not say its general.architecture")
	}
	g.arch, g.kind = arch, ggufArchitectures()[arch]
	if g.kind == "" {
		return nil, fmt.Errorf("general.architecture %q is not known", arch)
	}
	if n, ok := g.integer("expert_count"); ok && n > 0 && g.kind == "llama" {
		g.kind = "mixtral"
	}
	g.json["model_type"] = g.kind
	if embed, ok := g.f.Tensor("token_embd.weight"); ok && len(embed.Shape) == 2 {
		g.json["vocab_size"] = embed.Shape[0]
	}
	_, head := g.f.Tensor("output.weight")
	g.json["tie_word_embeddings"] = !head
	if id, ok := g.meta.Int("tokenizer.ggml.bos_token_id"); ok && id >= 0 {
		g.json["bos_token_id"] = id
	}
	if g.kind == "gpt2" {
		g.gpt2()
	} else {
		g.decoder()
	}
	if g.err != nil {
		return nil, g.err
	}
	return json.Marshal(g.json)
}

func (g *metadata) gpt2() {
	g.copy(map[string]string{
		"embedding_length": "n_embd", "block_count": "n_layer", "attention.head_count": "n_head", "feed_forward_length": "n_inner", "context_length": "n_positions",
	})
	if eps, ok := g.number("attention.layer_norm_epsilon"); ok {
		g.json["layer_norm_epsilon"] = eps
	}
	g.json["activation_function"] = "gelu_new"
}

// decoder fills in what all but GPT-2 have, and then their own.
func (g *metadata) decoder() {
	g.copy(map[string]string{
		"embedding_length": "hidden_size", "block_count": "num_hidden_layers", "attention.head_count": "num_attention_heads",
		"attention.head_count_kv": "num_key_value_heads", "feed_forward_length": "intermediate_size", "context_length": "max_position_embeddings",
	})
	heads, _ := g.json["num_attention_heads"].(int)
	hidden, _ := g.json["hidden_size"].(int)
	head, ok := g.integer("attention.key_length")
	if !ok && heads > 0 && hidden%heads == 0 {
		head = hidden / heads
	}
	g.json["head_dim"] = head
	if v, ok := g.integer("attention.value_length"); ok && v != head && g.err == nil {
		g.err = fmt.Errorf("%s: values of %d elements a head and keys of %d", g.arch, v, head)
	}
	if eps, ok := g.number("attention.layer_norm_rms_epsilon"); ok {
		g.json["rms_norm_eps"] = eps
	}
	theta, ok := g.number("rope.freq_base")
	if !ok {
		theta = 10000
	}
	g.json["rope_theta"] = theta
	if n, ok := g.integer("rope.dimension_count"); ok && head > 0 && n != head {
		g.json["partial_rotary_factor"] = float64(n) / float64(head)
	}
	g.json["hidden_act"] = "silu"
	has := func(name string) bool { _, ok := g.f.Tensor(name); return ok }
	g.json["attention_bias"] = has("blk.0.attn_q.bias") && g.kind != "qwen2"
	g.json["mlp_bias"] = has("blk.0.ffn_up.bias")
	g.ropeScaling(head, theta)
	switch g.kind {
	case "mixtral":
		g.copy(map[string]string{"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"})
	case "qwen3_moe":
		g.copy(map[string]string{"expert_count": "num_experts", "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size"})
		g.json["norm_topk_prob"], g.json["decoder_sparse_step"], g.json["mlp_only_layers"] = true, 1, []int{}
	case "gpt_oss":
		g.copy(map[string]string{
			"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "intermediate_size",
			"attention.sliding_window": "sliding_window",
		})
		g.json["layer_types"] = g.layerTypes(2)
		if s, ok := g.json["rope_scaling"].(map[string]any); ok { // of which llama.cpp keeps nothing
			s["truncate"] = false
		}
	case "gemma2", "gemma3_text":
		g.gemma(heads, hidden, head)
	case "phi3":
		if n, ok := g.integer("attention.sliding_window"); ok && n > 0 {
			g.json["sliding_window"] = n
		}
		if n, ok := g.integer("rope.scaling.original_context_length"); ok {
			g.json["original_max_position_embeddings"] = n
		}
	case "smollm3":
		layers, _ := g.json["num_hidden_layers"].(int)
		// llama.cpp has it in its code: every fourth layer has no rotary positions.
		rotated := make([]int, min(max(layers, 0), 1<<12)) //mem:ok at most 32 KiB
		for i := range rotated {
			if (i+1)%4 != 0 {
				rotated[i] = 1
			}
		}
		g.json["no_rope_layers"], g.json["no_rope_layer_interval"] = rotated, 4
	}
}

// gemma fills in what Gemma 2 and 3 have. Their scale of queries llama.cpp has in its code: by the number of layers it knows the
// largest model, whose heads are narrower than the scale says.
func (g *metadata) gemma(heads, hidden, head int) {
	layers, _ := g.json["num_hidden_layers"].(int)
	large, pattern := 46, 2
	if g.kind == "gemma3_text" {
		large, pattern = 62, 6
		g.json["rope_local_base_freq"] = 10000.0
		if x, ok := g.number("rope.freq_base_swa"); ok {
			g.json["rope_local_base_freq"] = x
		}
	}
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		if x, ok := g.number(key); ok {
			g.json[key] = x
		}
	}
	scale := head
	if layers == large && heads > 0 {
		scale = hidden / heads
	}
	g.json["query_pre_attn_scalar"] = scale
	g.json["hidden_act"], g.json["hidden_activation"] = "gelu_pytorch_tanh", "gelu_pytorch_tanh"
	g.copy(map[string]string{"attention.sliding_window": "sliding_window"})
	g.json["layer_types"] = g.layerTypes(pattern)
}

// layerTypes lists which layers see a window: all but each last of so many, unless the file says otherwise.
func (g *metadata) layerTypes(every int) []string {
	layers, _ := g.json["num_hidden_layers"].(int)
	key := g.arch + ".attention.sliding_window_pattern"
	if n, ok := g.meta.Int(key); ok && n > 0 && n < 1<<12 {
		every = int(n)
	}
	v, _ := g.meta.Get(key)
	flags, _ := v.([]bool)
	kinds := []string{}
	for i := range min(layers, 1<<12) {
		windowed := (i+1)%every != 0
		if i < len(flags) {
			windowed = flags[i]
		}
		if windowed {
			kinds = append(kinds, "sliding_attention")
		} else {
			kinds = append(kinds, "full_attention")
		}
	}
	return kinds
}

// ropeScaling fills in how rotary positions are scaled.
func (g *metadata) ropeScaling(head int, theta float64) {
	scaling := map[string]any{}
	kind, _ := g.meta.Text(g.arch + ".rope.scaling.type")
	factor, hasFactor := g.number("rope.scaling.factor")
	if old, ok := g.number("rope.scale_linear"); ok && !hasFactor {
		factor, hasFactor = old, true
		if kind == "" {
			kind = "linear"
		}
	}
	long, isLong := g.factors("rope_factors_long.weight", head/2)
	short, isShort := g.factors("rope_factors_short.weight", head/2)
	llama3, isLlama3 := g.factors("rope_freqs.weight", head/2)
	switch {
	case isLong && isShort:
		scaling["rope_type"], scaling["type"], scaling["long_factor"], scaling["short_factor"] = "longrope", "longrope", long, short
		if x, ok := g.number("rope.scaling.attn_factor"); ok {
			scaling["attention_factor"] = x
		}
	case isLlama3:
		g.llama3(scaling, llama3, head, theta)
	case kind == "linear" || kind == "yarn":
		if !hasFactor {
			g.fail("%s.rope.scaling.type is %s, without a factor", g.arch, kind)
		}
		if kind == "linear" && factor == 1 {
			return
		}
		scaling["rope_type"], scaling["type"], scaling["factor"] = kind, kind, factor
		for key, name := range map[string]string{
			"rope.scaling.yarn_beta_fast": "beta_fast", "rope.scaling.yarn_beta_slow": "beta_slow", "rope.scaling.yarn_attn_factor": "attention_factor",
		} {
			if x, ok := g.number(key); ok && kind == "yarn" {
				scaling[name] = x
			}
		}
	case kind == "" || kind == "none":
	default:
		g.fail("%s.rope.scaling.type %q is not known", g.arch, kind)
	}
	if n, ok := g.integer("rope.scaling.original_context_length"); ok && scaling["original_max_position_embeddings"] == nil && scaling["rope_type"] != "linear" {
		scaling["original_max_position_embeddings"] = n
	}
	if scaling["rope_type"] != nil {
		g.json["rope_scaling"] = scaling
	}
}

func (g *metadata) fail(format string, args ...any) {
	if g.err == nil {
		g.err = fmt.Errorf(format, args...)
	}
}

// factors reads a tensor with a factor for every pair that rotary positions turn; false if it is not there.
func (g *metadata) factors(name string, n int) ([]float64, bool) {
	i, ok := g.f.Tensor(name)
	if !ok {
		return nil, false
	}
	if i.Type != quant.F32 || len(i.Shape) != 1 || i.Shape[0] < 1 || i.Shape[0] > int64(max(n, 1)) {
		g.fail("tensor %q: want at most %d elements of F32, file has %v of %v", name, n, i.Shape, i.Type)
		return nil, false
	}
	p := make([]byte, i.Bytes) //mem:ok at most half a head
	if err := g.f.ReadInto(name, p); err != nil {
		g.fail("%v", err)
		return nil, false
	}
	x := make([]float32, i.Shape[0]) //mem:ok as many
	quant.Decode(x, quant.F32, p)
	wide := make([]float64, len(x)) //mem:ok as many
	for k, v := range x {
		if !(v > 0 && v < 1e9) {
			g.fail("tensor %q: element %d is %v", name, k, v)
			return nil, false
		}
		wide[k], _ = strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	}
	return wide, true
}

// llama3 takes the factors of Llama 3.1's scaling, of which files keep nothing else. Those of the bounds that Meta's models have are told
// by name; any others are kept as they are, as longrope keeps factors.
func (g *metadata) llama3(scaling map[string]any, have []float64, head int, theta float64) {
	const low, high, original = 1, 4, 8192
	factor := slices.Max(have)
	if factor == 1 && slices.Min(have) == 1 {
		return
	}
	known := len(have) == head/2
	for i, x := range have {
		wave := 2 * math.Pi * math.Pow(theta, 2*float64(i)/float64(head))
		want := factor
		switch smooth := (original/wave - low) / (high - low); {
		case wave < original/high:
			want = 1
		case wave <= original/low:
			want = 1 / ((1-smooth)/factor + smooth)
		}
		known = known && math.Abs(x-want) <= 1e-3*want
	}
	if known {
		scaling["rope_type"], scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"] = "llama3", factor, low, high
		scaling["original_max_position_embeddings"] = original
		return
	}
	scaling["rope_type"], scaling["factor"], scaling["attention_factor"], scaling["long_factor"], scaling["short_factor"] = "longrope", 1, 1, have, have
	scaling["original_max_position_embeddings"] = g.json["max_position_embeddings"]
}
