package shape

import (
	"fmt"
	"strings"
)

// ggufArchs are GGUF's architectures by model_type where the names differ (gguf-py/gguf/constants.py).
var ggufArchs = map[string]string{
	"qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "qwen3next": "qwen3_next", "gemma3": "gemma3_text", "phi2": "phi", "gptneox": "gpt_neox", "deepseek2": "deepseek_v3", "gpt-oss": "gpt_oss",
	"command-r": "cohere", "llama4": "llama4_text", "glm4moe": "glm4_moe", "starcoder": "gpt_bigcode", "granitemoe": "granite",
}

// ggufKeys are config.json's names of GGUF's keys, without the architecture before them.
var ggufKeys = map[string]string{
	"block_count": "num_hidden_layers", "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size", "attention.head_count": "num_attention_heads",
	"attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim", "attention.kv_lora_rank": "kv_lora_rank", "attention.q_lora_rank": "q_lora_rank",
	"rope.dimension_count": "qk_rope_head_dim", "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size",
	"expert_shared_feed_forward_length": "shared_expert_intermediate_size", "expert_shared_count": "n_shared_experts", "leading_dense_block_count": "first_k_dense_replace",
	"interleave_moe_layer_step": "interleave_moe_layer_step", "context_length": "max_position_embeddings", "attention.sliding_window": "sliding_window", "vocab_size": "vocab_size",
	"attention.chunk_size": "attention_chunk_size",
}

// ggufPatterns is after how many layers one sees everything, where llama.cpp has it in its code (llama-model.cpp,
// set_swa_pattern) and files do not say it.
var ggufPatterns = map[string]int{"gemma2": 2, "gemma3_text": 6, "gpt_oss": 2, "cohere2": 4, "llama4_text": 4}

// ggufShape translates a header into a config.json and reads that.
func ggufShape(name string, meta map[string]any, tensors *ggufTensors) (*Shape, error) {
	arch, _ := meta["general.architecture"].(string)
	if arch == "" {
		return nil, fmt.Errorf("shape: %s: the GGUF file does not say its general.architecture", name)
	}
	c := config{}
	for key, v := range meta {
		if short, ok := strings.CutPrefix(key, arch+"."); ok {
			if long, ok := ggufKeys[short]; ok {
				c[long] = v
			}
		}
	}
	get := func(key string) int { return config(meta).int(arch + "." + key) }
	kind := arch
	if known, ok := ggufArchs[arch]; ok {
		kind = known
	}
	c["model_type"] = kind
	if scaling, ok := meta[arch+".rope.scaling.type"].(string); ok {
		c["rope_scaling"] = map[string]any{
			"type": scaling, "factor": meta[arch+".rope.scaling.factor"], "original_max_position_embeddings": meta[arch+".rope.scaling.original_context_length"],
		}
	}
	if n, ok := meta["tokenizer.ggml.tokens"].(listLength); ok && c.int("vocab_size") == 0 {
		c["vocab_size"] = float64(n)
	}
	if heads := c.ints("num_attention_heads"); len(heads) > 1 { // one of every layer: the widest names the model's
		most := 0
		for _, h := range heads {
			most = max(most, h)
		}
		c["num_attention_heads"] = float64(most)
	}
	c.ggufMixers(kind, get)
	if pattern, ok := meta[arch+".attention.sliding_window_pattern"]; ok {
		c.ggufPattern(pattern)
	}
	has := func(n string) bool { return tensors.names[n] }
	if len(tensors.names) > 0 {
		c["tie_word_embeddings"] = !has("output.weight")
		bias := has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias")
		c["attention_bias"], c["attention_out_bias"], c["mlp_bias"] = bias, has("blk.0.attn_output.bias"), has("blk.0.ffn_up.bias")
		if has("blk.0.attn_q_norm.weight") {
			c["use_qk_norm"] = true
		}
	}
	return c.shape(name)
}

// ggufMixers fills in latent and recurrent layers.
func (c config) ggufMixers(kind string, get func(string) int) {
	switch {
	case c.int("kv_lora_rank") > 0:
		head, value := get("attention.key_length_mla"), get("attention.value_length_mla")
		if head == 0 { // files of before llama.cpp kept the latent
			head, value = get("attention.key_length"), get("attention.value_length")
		}
		c["qk_nope_head_dim"], c["v_head_dim"] = float64(head-c.int("qk_rope_head_dim")), float64(value)
		delete(c, "num_key_value_heads")
		delete(c, "head_dim")
	default:
		delete(c, "qk_rope_head_dim")
	}
	if kind == "qwen3_next" {
		heads := max(1, get("ssm.time_step_rank"))
		every := max(get("full_attention_interval"), 0)
		if every == 0 {
			every = 4
		}
		c["full_attention_interval"] = float64(every)
		c["linear_num_key_heads"], c["linear_key_head_dim"] = float64(get("ssm.group_count")), float64(get("ssm.state_size"))
		c["linear_num_value_heads"], c["linear_value_head_dim"] = float64(heads), float64(get("ssm.inner_size")/heads)
		c["linear_conv_kernel_dim"] = float64(get("ssm.conv_kernel"))
	}
	if kind == "llama4_text" && c.int("attention_chunk_size") == 0 {
		c["attention_chunk_size"] = float64(8192)
	}
	if every, ok := ggufPatterns[kind]; ok {
		c["sliding_window_pattern"] = float64(every)
		if kind == "gemma2" || kind == "gpt_oss" || kind == "llama4_text" { // Parse knows theirs
			delete(c, "sliding_window_pattern")
		}
	}
	if kind == "llama" || kind == "mistral" || kind == "mixtral" { // llama.cpp has no windows in it
		delete(c, "sliding_window")
	}
}

// ggufPattern takes a pattern of windows that the file has, a truth value a layer or a period.
func (c config) ggufPattern(pattern any) {
	switch p := pattern.(type) {
	case float64:
		c["sliding_window_pattern"] = p
	case []any:
		var kinds []any
		for _, x := range p {
			if windowed, _ := x.(bool); windowed {
				kinds = append(kinds, "sliding_attention")
			} else {
				kinds = append(kinds, "full_attention")
			}
		}
		c["layer_types"] = kinds
	}
}
