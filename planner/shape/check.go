package shape

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Keys of a config.json by what they have to be. A null is as good as absent.
var (
	countKeys = []string{
		"hidden_size", "n_embd", "d_model", "num_attention_heads", "n_head", "n_heads", "padded_vocab_size", "vocab_size", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
		"qk_rope_head_dim", "v_head_dim", "num_experts_per_tok", "moe_topk", "moe_intermediate_size", "max_position_embeddings", "n_positions", "head_dim", "kv_channels",
		"num_hidden_layers", "n_layer", "n_layers", "num_layers", "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "num_key_value_heads", "num_kv_heads",
		"multi_query_group_num", "n_routed_experts", "num_local_experts", "num_experts", "shared_expert_intermediate_size", "n_shared_experts", "first_k_dense_replace",
		"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", "intermediate_size_mlp", "sliding_window_pattern", "_sliding_window_pattern", "full_attention_interval",
		"linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads", "linear_value_head_dim", "linear_conv_kernel_dim",
	}
	layerKeys  = []string{"num_hidden_layers", "n_layer", "n_layers", "num_layers"}
	windowKeys = []string{"sliding_window", "sliding_window_size", "attention_chunk_size"} // of no window some say -1
	flagKeys   = []string{"tie_word_embeddings", "use_qk_norm", "attention_bias", "qkv_bias", "add_qkv_bias", "attention_out_bias", "mlp_bias", "new_decoder_architecture", "multi_query"}
	// layerTypes are those of transformers (configuration_utils.py), and older names of the same.
	layerTypes = []string{
		"full_attention", "sliding_attention", "chunked_attention", "linear_attention", "conv", "mamba", "attention", "sparse", "dense", "hybrid", "moe", "recurrent",
	}
)

// check refuses values that would be passed over, so that a plan would be one of another model.
func (c config) check(name string) error {
	for _, k := range countKeys {
		v := c[k]
		f, isNumber := v.(float64)
		switch {
		case isCount(v, 0) || isNumber && slices.Contains(layerKeys, k): // how many layers there may be, layers says
		case isNumber:
			return fmt.Errorf("shape: %s: %s is %s: want a whole number from 0; the nearest valid value is %.0f", name, k, brief(v), max(0, math.Round(f)))
		default:
			return fmt.Errorf("shape: %s: %s is %s: want a whole number from 0", name, k, brief(v))
		}
	}
	for _, k := range windowKeys {
		if v := c[k]; !isCount(v, -1) {
			return fmt.Errorf("shape: %s: %s is %s: want a whole number", name, k, brief(v))
		}
	}
	for _, k := range flagKeys {
		if v := c[k]; v != nil {
			if _, ok := v.(bool); !ok {
				return fmt.Errorf("shape: %s: %s is %s: want true or false", name, k, brief(v))
			}
		}
	}
	kinds, given := c["layer_types"]
	list, ok := kinds.([]any)
	if given && kinds != nil && !ok {
		return fmt.Errorf("shape: %s: layer_types is %s: want a list, one of each layer", name, brief(kinds))
	}
	if n := c.int(layerKeys...); ok && len(list) != n && n > 0 {
		return fmt.Errorf("shape: %s: layer_types names %d layers, and there are %s", name, len(list), number(n))
	}
	for i, v := range list {
		if s, _ := v.(string); !slices.Contains(layerTypes, s) {
			return fmt.Errorf("shape: %s: layer %d is of type %s: want one of %v", name, i, brief(v), layerTypes)
		}
	}
	return nil
}

// isCount tells whether a value is absent, a whole number from least, or a list of them.
func isCount(v any, least float64) bool {
	switch v := v.(type) {
	case nil, listLength:
		return true
	case float64:
		return v >= least && whole(v) != -1 || v == least
	case []any:
		return !slices.ContainsFunc(v, func(x any) bool { return x == nil || !isCount(x, least) })
	}
	return false
}

// brief is a value as JSON, cut short.
func brief(v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%.40v", v)
	}
	if len(body) > 40 {
		return fmt.Sprintf("%.37s...", body)
	}
	return string(body)
}

// nearestDivisor returns the divisor of n closest to d.
func nearestDivisor(n, d int) int {
	best := 1
	for k := 1; k <= min(n, 2*d); k++ {
		if n%k == 0 && max(k-d, d-k) < max(best-d, d-best) {
			best = k
		}
	}
	return best
}
