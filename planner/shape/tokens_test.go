package shape

import (
	"fmt"
	"testing"
)

// TestMaxTokens checks the longest context of configurations, with scaled rotation as vLLM counts it.
func TestMaxTokens(t *testing.T) {
	const head = `"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":100,"intermediate_size":128`
	for _, x := range []struct {
		name, config string
		want         int
	}{
		{"unknown", `"model_type":"llama"`, 0},
		{"plain", `"model_type":"llama","max_position_embeddings":4096`, 4096},
		{"linear", `"model_type":"llama","max_position_embeddings":4096,"rope_scaling":{"type":"linear","factor":4.0}`, 16384},
		{"dynamic", `"model_type":"llama","max_position_embeddings":2048,"rope_scaling":{"rope_type":"dynamic","factor":2.0}`, 4096},
		{"llama3", `"model_type":"llama","max_position_embeddings":131072,"rope_scaling":{"rope_type":"llama3","factor":8.0,"original_max_position_embeddings":8192}`, 131072},
		{"longrope", `"model_type":"phi3","max_position_embeddings":131072,"original_max_position_embeddings":4096,"rope_scaling":{"type":"longrope"}`, 131072},
		{"yarn", `"model_type":"qwen2","max_position_embeddings":32768,"rope_scaling":{"type":"yarn","factor":4.0,"original_max_position_embeddings":32768}`, 131072},
		{"yarn, counted", `"model_type":"gpt_oss","max_position_embeddings":131072,"rope_scaling":{"rope_type":"yarn","factor":32.0,"original_max_position_embeddings":4096}`, 131072},
		{"yarn without the length before", `"model_type":"qwen3","max_position_embeddings":40960,"rope_parameters":{"rope_type":"yarn","factor":2.0}`, 81920},
		{"gemma 3", `"model_type":"gemma3_text","max_position_embeddings":131072,"rope_scaling":{"rope_type":"linear","factor":8.0}`, 131072},
		{"learned", `"model_type":"gpt2","n_positions":1024`, 1024},
		{"ALiBi", `"model_type":"bloom","seq_length":2048`, 0},
		{"nonsense", `"model_type":"llama","max_position_embeddings":4096,"rope_scaling":{"type":"linear","factor":1e300}`, 0},
	} {
		s, err := Parse(x.name, fmt.Appendf(nil, "{%s,%s}", x.config, head))
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if s.MaxTokens != x.want {
			t.Errorf("%s: got %d tokens, want %d", x.name, s.MaxTokens, x.want)
		}
	}
	cards, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"llama-2-7b": 4096, "Llama-3.1-8B": 131072, "DeepSeek-V3": 163840, "gpt-oss-120b": 131072, "gemma-2-9b": 8192, "BLOOM": 0, "GPT-2": 1024, "OPT-6.7B": 2048} {
		if s, ok := cards.ByName(name); !ok || s.MaxTokens != want {
			t.Errorf("%s: got %+v, want %d tokens", name, s, want)
		}
	}
}
