package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"loadline/model"
	"loadline/model/gguf"
)

// architectures are the values of general.architecture, by model_type.
func architectures() map[string]string {
	return map[string]string{
		"llama": "llama", "mistral": "llama", "mixtral": "llama", "smollm3": "smollm3", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe",
		"gemma2": "gemma2", "gemma3_text": "gemma3", "phi3": "phi3", "gpt2": "gpt2", "gpt_oss": "gpt-oss",
	}
}

// config is a config.json in the fields that loadline writes, by whatever names the model's own file has them.
type config map[string]any

// readConfig takes a configuration apart.
func readConfig(c model.Config) (config, error) {
	body, err := model.EncodeConfig(c)
	if err != nil {
		return nil, err
	}
	var j config
	return j, json.Unmarshal(body, &j)
}

// number is a field, or one of others of the same meaning.
func (j config) number(names ...string) (float64, bool) {
	for _, n := range names {
		if x, ok := j[n].(float64); ok {
			return x, true
		}
	}
	return 0, false
}

// rope is the field of rotary positions, in transformers 5's form or 4's: that of layers which see all, where layers differ.
func (j config) rope() config {
	for _, name := range []string{"rope_parameters", "rope_scaling"} {
		r, ok := j[name].(map[string]any)
		if !ok {
			continue
		}
		if full, ok := r["full_attention"].(map[string]any); ok {
			return full
		}
		return r
	}
	return nil
}

// metadata is what a GGUF file says of the model: its configuration, its tokenizer, and tensors that go with the first.
func (o *Options) metadata(x *crossing) (meta gguf.Metadata, more []*tensor, err error) {
	j, err := readConfig(x.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("convert: %w", err)
	}
	kind, _ := j["model_type"].(string)
	arch := architectures()[kind]
	if arch == "" {
		return nil, nil, fmt.Errorf("convert: model_type %q has no architecture in GGUF", kind)
	}
	meta.Set("general.architecture", arch)
	meta.Set("general.type", "model")
	meta.Set("general.name", filepath.Base(filepath.Clean(o.In)))
	s, err := x.sampling()
	if err != nil {
		return nil, nil, err
	}
	writeSampling(&meta, s)
	w := &writer{meta: &meta, arch: arch, j: j}
	w.geometry()
	more = w.positions()
	if err := o.tokens(&meta, x); err != nil {
		return nil, nil, err
	}
	ends(&meta, x.Config)
	return meta, more, nil
}

// ends writes the tokens that begin and end a text, the tokenizer's word before the configuration's.
func ends(meta *gguf.Metadata, c model.Config) {
	if _, ok := meta.Int("tokenizer.ggml.bos_token_id"); !ok && c.BOSTokenID >= 0 {
		meta.Set("tokenizer.ggml.bos_token_id", uint32(c.BOSTokenID))
	}
	ids := slices.Clone(c.EOSTokenIDs)
	if id, ok := meta.Int("tokenizer.ggml.eos_token_id"); ok {
		ids = append([]int{int(id)}, slices.DeleteFunc(ids, func(x int) bool { return x == int(id) })...)
	}
	for i, key := range []string{"eos", "eot", "eom"} { // readers stop at each of them
		if i < len(ids) {
			meta.Set("tokenizer.ggml."+key+"_token_id", uint32(ids[i]))
		}
	}
}

// writer writes keys of an architecture.
type writer struct {
	meta *gguf.Metadata
	arch string
	j    config
}

func (w *writer) set(key string, v any) { w.meta.Set(w.arch+"."+key, v) }

// whole writes a whole number, if config.json has it.
func (w *writer) whole(key string, names ...string) (int, bool) {
	x, ok := w.j.number(names...)
	if !ok || x < 0 || x > math.MaxInt32 {
		return 0, false
	}
	w.set(key, uint32(x))
	return int(x), true
}

// real writes a number, if config.json has it.
func (w *writer) real(key string, names ...string) {
	if x, ok := w.j.number(names...); ok {
		w.set(key, float32(x))
	}
}

// geometry writes sizes.
func (w *writer) geometry() {
	w.whole("context_length", "max_position_embeddings", "n_positions")
	hidden, _ := w.whole("embedding_length", "hidden_size", "n_embd")
	w.whole("block_count", "num_hidden_layers", "n_layer")
	w.whole("feed_forward_length", "intermediate_size", "n_inner")
	heads, _ := w.whole("attention.head_count", "num_attention_heads", "n_head")
	if _, ok := w.whole("attention.head_count_kv", "num_key_value_heads"); !ok {
		w.set("attention.head_count_kv", uint32(heads))
	}
	w.real("attention.layer_norm_rms_epsilon", "rms_norm_eps")
	w.real("attention.layer_norm_epsilon", "layer_norm_epsilon")
	w.whole("vocab_size", "vocab_size")
	head := 0
	if heads > 0 {
		head = hidden / heads
	}
	if h, ok := w.j.number("head_dim"); ok {
		head = int(h)
		w.set("attention.key_length", uint32(head))
		w.set("attention.value_length", uint32(head))
	}
	if w.arch != "gpt2" {
		turn := head
		if part, ok := w.j.number("partial_rotary_factor"); ok {
			turn = int(part * float64(head))
		}
		w.set("rope.dimension_count", uint32(turn))
	}
	w.whole("expert_count", "num_local_experts", "num_experts")
	w.whole("expert_used_count", "num_experts_per_tok")
	if w.arch == "gpt-oss" {
		w.whole("expert_feed_forward_length", "intermediate_size")
	}
	w.whole("expert_feed_forward_length", "moe_intermediate_size")
	w.whole("attention.sliding_window", "sliding_window")
	w.real("attn_logit_softcapping", "attn_logit_softcapping")
	w.real("final_logit_softcapping", "final_logit_softcapping")
}

// positions writes what rotary positions are.
func (w *writer) positions() (more []*tensor) {
	if w.arch == "gpt2" {
		return nil
	}
	r := w.j.rope()
	theta, ok := w.j.number("rope_theta")
	if !ok {
		theta, ok = r.number("rope_theta")
	}
	if ok {
		w.set("rope.freq_base", float32(theta))
	}
	kind, _ := r["rope_type"].(string)
	if kind == "" {
		kind, _ = r["type"].(string)
	}
	factor, _ := r.number("factor")
	original, hasOriginal := r.number("original_max_position_embeddings")
	if !hasOriginal {
		original, hasOriginal = w.j.number("original_max_position_embeddings")
	}
	switch kind {
	case "linear", "yarn":
		w.set("rope.scaling.type", kind)
		w.set("rope.scaling.factor", float32(factor))
		if kind == "yarn" && hasOriginal {
			w.set("rope.scaling.original_context_length", uint32(original))
		}
		for _, name := range []string{"beta_fast", "beta_slow"} {
			if x, ok := r.number(name); ok && kind == "yarn" {
				w.set("rope.scaling.yarn_"+name, float32(x))
			}
		}
	case "llama3":
		more = append(more, made("rope_freqs.weight", llama3Factors(r, theta, w.turning())))
	case "longrope", "su":
		if hasOriginal {
			w.set("rope.scaling.original_context_length", uint32(original))
			if all, ok := w.j.number("max_position_embeddings"); ok {
				attn := attentionFactor(all, original)
				if x, ok := r.number("attention_factor"); ok {
					attn = x
				}
				w.set("rope.scaling.attn_factor", float32(attn))
			}
		}
		for _, name := range []string{"long", "short"} {
			more = append(more, made("rope_factors_"+name+".weight", floats(r[name+"_factor"])))
		}
	}
	return more
}

// turning is how many elements of a head turn.
func (w *writer) turning() int {
	n, _ := w.meta.Int(w.arch + ".rope.dimension_count")
	return int(n)
}

// llama3Factors are what llama.cpp divides frequencies by, for a head (convert_hf_to_gguf.py, LlamaModel.generate_extra_tensors).
func llama3Factors(r config, theta float64, turning int) []float64 {
	get := func(name string, otherwise float64) float64 {
		if x, ok := r.number(name); ok {
			return x
		}
		return otherwise
	}
	factor, low, high := get("factor", 8), get("low_freq_factor", 1), get("high_freq_factor", 4)
	original := get("original_max_position_embeddings", 8192)
	var factors []float64
	for i := 0; i < turning; i += 2 {
		wave := 2 * math.Pi * math.Pow(theta, float64(i)/float64(turning))
		switch smooth := (original/wave - low) / (high - low); {
		case wave < original/high:
			factors = append(factors, 1)
		case wave > original/low:
			factors = append(factors, factor)
		default:
			factors = append(factors, 1/((1-smooth)/factor+smooth))
		}
	}
	return factors
}

// floats is a list of numbers.
func floats(v any) (list []float64) {
	all, _ := v.([]any)
	for _, x := range all {
		f, _ := x.(float64)
		list = append(list, f)
	}
	return slices.Clip(list)
}
