package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/internal/bounded"
	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model"
	"loadline/model/gguf"
	"loadline/tensor/quant"
)

// header is a file with metadata and tensors of zeros.
func header(t testing.TB, m gguf.Metadata, tensors map[string][]int64) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	all := map[string]matrix{}
	var names []string
	for name, shape := range tensors {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		all[name] = matrix{shape, make([]float32, n)}
		names = append(names, name)
	}
	slices.Sort(names)
	return opened(t, path, m, names, all)
}

func opened(t testing.TB, path string, m gguf.Metadata, names []string, all map[string]matrix) *gguf.File {
	t.Helper()
	writeGGUF(t, path, m, quant.F32, names, all, 0)
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// keys is metadata of an architecture, whose keys are those that begin with a dot.
func keys(arch string, values map[string]any) gguf.Metadata {
	m := gguf.Metadata{{Key: "general.architecture", Value: arch}}
	base := map[string]any{
		".block_count": uint32(6), ".embedding_length": uint32(64), ".feed_forward_length": uint32(128), ".attention.head_count": uint32(4),
		".attention.head_count_kv": uint32(2), ".context_length": uint32(512), ".attention.layer_norm_rms_epsilon": float32(1e-6),
	}
	for k, v := range values {
		base[k] = v
	}
	for k, v := range base {
		if strings.HasPrefix(k, ".") {
			k = arch + k
		}
		m.Set(k, v)
	}
	return m
}

// What a file says of each architecture is put where config.json has it.
func TestGGUFConfig(t *testing.T) {
	embed := map[string][]int64{"token_embd.weight": {96, 64}}
	with := func(name string, shape ...int64) map[string][]int64 {
		return map[string][]int64{"token_embd.weight": {96, 64}, name: shape}
	}
	for _, x := range []struct {
		name    string
		meta    gguf.Metadata
		tensors map[string][]int64
		want    string // members of config.json
	}{
		{"llama", keys("llama", nil), embed, `{"model_type":"llama","vocab_size":96,"hidden_size":64,"num_hidden_layers":6,"num_attention_heads":4,"num_key_value_heads":2,
			"intermediate_size":128,"max_position_embeddings":512,"head_dim":16,"rms_norm_eps":1e-6,"rope_theta":10000,"tie_word_embeddings":true,"hidden_act":"silu","attention_bias":false}`},
		{"head", keys("llama", map[string]any{".rope.freq_base": float32(5e5), ".attention.key_length": uint32(32), "tokenizer.ggml.bos_token_id": uint32(7)}), with("output.weight", 96, 64),
			`{"tie_word_embeddings":false,"rope_theta":500000,"head_dim":32,"bos_token_id":7}`},
		{"a list a layer", keys("llama", map[string]any{".attention.head_count_kv": []int32{2, 2, 2, 2, 2, 2}}), embed, `{"num_key_value_heads":2}`},
		{"mixtral", keys("llama", map[string]any{".expert_count": uint32(8), ".expert_used_count": uint32(2)}), embed, `{"model_type":"mixtral","num_local_experts":8,"num_experts_per_tok":2}`},
		{"linear", keys("llama", map[string]any{".rope.scaling.type": "linear", ".rope.scaling.factor": float32(2.5)}), embed, `{"rope_scaling":{"rope_type":"linear","type":"linear","factor":2.5}}`},
		{"yarn", keys("qwen2", map[string]any{".rope.scaling.type": "yarn", ".rope.scaling.factor": float32(4), ".rope.scaling.original_context_length": uint32(128)}), with("blk.0.attn_q.bias", 64),
			`{"model_type":"qwen2","attention_bias":false,"rope_scaling":{"rope_type":"yarn","type":"yarn","factor":4,"original_max_position_embeddings":128}}`},
		{"qwen3", keys("qwen3", map[string]any{".attention.key_length": uint32(32), ".attention.value_length": uint32(32)}), embed, `{"model_type":"qwen3","head_dim":32}`},
		{"qwen3moe", keys("qwen3moe", map[string]any{".expert_count": uint32(16), ".expert_used_count": uint32(4), ".expert_feed_forward_length": uint32(48)}), embed,
			`{"model_type":"qwen3_moe","num_experts":16,"num_experts_per_tok":4,"moe_intermediate_size":48,"norm_topk_prob":true}`},
		{"gemma2", keys("gemma2", map[string]any{".attention.sliding_window": uint32(32), ".attn_logit_softcapping": float32(50), ".final_logit_softcapping": float32(30)}), embed,
			`{"model_type":"gemma2","sliding_window":32,"attn_logit_softcapping":50,"final_logit_softcapping":30,"query_pre_attn_scalar":16,"hidden_activation":"gelu_pytorch_tanh",
			"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention"]}`},
		{"gemma3", keys("gemma3", map[string]any{".attention.sliding_window": uint32(32), ".rope.freq_base": float32(1e6)}), embed,
			`{"model_type":"gemma3_text","rope_theta":1000000,"rope_local_base_freq":10000,"sliding_window":32,
			"layer_types":["sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention"]}`},
		{"phi3", keys("phi3", map[string]any{".attention.sliding_window": uint32(64), ".rope.dimension_count": uint32(12)}), embed, `{"model_type":"phi3","sliding_window":64,"partial_rotary_factor":0.75}`},
		{"smollm3", keys("smollm3", nil), embed, `{"model_type":"smollm3","no_rope_layers":[1,1,1,0,1,1]}`},
		{"gpt-oss", keys("gpt-oss", map[string]any{".expert_count": uint32(4), ".expert_used_count": uint32(2), ".attention.sliding_window": uint32(8)}), embed,
			`{"model_type":"gpt_oss","num_local_experts":4,"num_experts_per_tok":2,"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention","full_attention"]}`},
		{"gpt2", keys("gpt2", map[string]any{".attention.layer_norm_epsilon": float32(1e-5)}), embed, `{"model_type":"gpt2","n_embd":64,"n_layer":6,"n_head":4,"n_inner":128,"n_positions":512,"layer_norm_epsilon":1e-5}`},
	} {
		f := header(t, x.meta, x.tensors)
		body, err := (&metadata{meta: f.Meta(), f: f, json: map[string]any{}}).config()
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		var got, want map[string]any
		if err := errors.Join(json.Unmarshal(body, &got), json.Unmarshal([]byte(x.want), &want)); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if g, w := fmt.Sprint(got[k]), fmt.Sprint(v); g != w {
				t.Errorf("%s: %s is %s, want %s", x.name, k, g, w)
			}
		}
	}
}

// Of the scaling of Llama 3.1 a file has only the factors, which say what it was, or are kept.
func TestLlama3Factors(t *testing.T) {
	const head, theta = 64, 500000.0
	factors := func(factor float64, original float64) []float32 {
		var x []float32
		for i := range head / 2 {
			wave := 2 * math.Pi * math.Pow(theta, float64(2*i)/head)
			switch {
			case wave < original/4:
				x = append(x, 1)
			case wave > original:
				x = append(x, float32(factor))
			default:
				smooth := (original/wave - 1) / 3
				x = append(x, float32(1/((1-smooth)/factor+smooth)))
			}
		}
		return x
	}
	read := func(x []float32) (map[string]any, error) {
		m := keys("llama", map[string]any{".embedding_length": uint32(256), ".rope.freq_base": float32(theta)})
		f := opened(t, filepath.Join(t.TempDir(), "m.gguf"), m, []string{"rope_freqs.weight"}, map[string]matrix{"rope_freqs.weight": {[]int64{int64(len(x))}, x}})
		g := &metadata{meta: f.Meta(), f: f, json: map[string]any{}}
		_, err := g.config()
		s, _ := g.json["rope_scaling"].(map[string]any)
		return s, err
	}
	for _, factor := range []float64{8, 32} {
		s, err := read(factors(factor, 8192))
		if err != nil || s["rope_type"] != "llama3" || s["factor"] != factor || s["original_max_position_embeddings"] != 8192 {
			t.Errorf("factor %g: got %v, %v", factor, s, err)
		}
	}
	if s, err := read(factors(1, 8192)); err != nil || s != nil {
		t.Errorf("all ones: got %v, %v, want no scaling", s, err)
	}
	if s, err := read(factors(8, 4096)); err != nil || s["rope_type"] != "longrope" || len(s["long_factor"].([]float64)) != head/2 || s["attention_factor"] != 1 {
		t.Errorf("another length: got %v, %v, want the factors as they are", s, err)
	}
	for name, x := range map[string][]float32{"too many": make([]float32, head), "zeros": make([]float32, head/2)} {
		if s, err := read(x); err == nil {
			t.Errorf("%s: got %v, want it refused", name, s)
		}
	}
}

// What a GGUF file lacks, or says and cannot be, is refused in one line that names it.
func TestHostileGGUF(t *testing.T) {
	dir := directory(t, "moe")
	c := open(t, dir).Config
	names, tensors := converted(c, read(t, dir))
	for _, x := range []struct {
		name   string
		meta   func(m *gguf.Metadata)
		change func(all map[string]matrix)
		want   string
	}{
		{"no architecture", func(m *gguf.Metadata) { *m = m.Without("general.architecture") }, nil, "does not say its general.architecture"},
		{"unknown architecture", func(m *gguf.Metadata) { m.Set("general.architecture", "mamba") }, nil, `"mamba" is not known`},
		{"a number for an architecture", func(m *gguf.Metadata) { m.Set("general.architecture", uint32(3)) }, nil, "does not say"},
		{"no layers", func(m *gguf.Metadata) { *m = m.Without("llama.block_count") }, nil, "num_hidden_layers 0"},
		{"a text for a number", func(m *gguf.Metadata) { m.Set("llama.block_count", "two") }, nil, "llama.block_count is no whole number"},
		{"huge", func(m *gguf.Metadata) { m.Set("llama.block_count", uint64(1<<40)) }, nil, "llama.block_count is 1099511627776"},
		{"many layers", func(m *gguf.Metadata) { m.Set("llama.block_count", uint32(4000)) }, nil, "is missing"},
		{"layers that differ", func(m *gguf.Metadata) { m.Set("llama.attention.head_count_kv", []uint32{1, 2}) }, nil, "differs between layers"},
		{"an empty list", func(m *gguf.Metadata) { m.Set("llama.attention.head_count_kv", []uint32{}) }, nil, "no whole number"},
		{"not a number", func(m *gguf.Metadata) { m.Set("llama.rope.freq_base", float32(math.NaN())) }, nil, "llama.rope.freq_base is NaN"},
		{"values of other width", func(m *gguf.Metadata) { m.Set("llama.attention.value_length", uint32(8)) }, nil, "values of 8 elements"},
		{"scaling", func(m *gguf.Metadata) { m.Set("llama.rope.scaling.type", "spiral") }, nil, `"spiral" is not known`},
		{"no factor", func(m *gguf.Metadata) { m.Set("llama.rope.scaling.type", "yarn") }, nil, "without a factor"},
		{"end of text", func(m *gguf.Metadata) { m.Set("tokenizer.ggml.bos_token_id", uint32(256)) }, nil, "token id 256"},
		{"no embedding", nil, func(all map[string]matrix) { delete(all, "token_embd.weight") }, "vocab_size 0"},
		{"no norm", nil, func(all map[string]matrix) { delete(all, "output_norm.weight") }, `"output_norm.weight" is missing`},
		{"a wrong shape", nil, func(all map[string]matrix) {
			all["blk.1.attn_k.weight"] = matrix{[]int64{64, 64}, make([]float32, 4096)}
		}, `tensor "blk.1.attn_k.weight": want [32 64], file has [64 64]`},
		{"too few experts", nil, func(all map[string]matrix) {
			all["blk.0.ffn_up_exps.weight"] = matrix{[]int64{2, 128, 64}, make([]float32, 2*128*64)}
		}, "of expert 2, file has [2 128 64]"},
		{"experts of another shape", nil, func(all map[string]matrix) {
			all["blk.0.ffn_up_exps.weight"] = matrix{[]int64{4, 64, 128}, make([]float32, 4*128*64)}
		}, "want [128 64], file has [4 64 128]"},
	} {
		m, all := meta(c), map[string]matrix{}
		for k, v := range tensors {
			all[k] = v
		}
		if x.meta != nil {
			x.meta(&m)
		}
		if x.change != nil {
			x.change(all)
		}
		var some []string
		for _, n := range names {
			if _, ok := all[n]; ok {
				some = append(some, n)
			}
		}
		path := filepath.Join(t.TempDir(), "model.gguf")
		writeGGUF(t, path, m, quant.F32, some, all, 0)
		_, err := Open(path)
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "weights: ") {
			t.Errorf("%s: got %v, want one line with %q", x.name, err, x.want)
		}
	}
}

// A file of before 2024 has a tensor for each expert.
func TestExpertsApart(t *testing.T) {
	dir := directory(t, "moe")
	want := open(t, dir)
	names, tensors := converted(want.Config, read(t, dir))
	var apart []string
	for _, name := range names {
		m := tensors[name]
		if !strings.Contains(name, "_exps.") {
			apart = append(apart, name)
			continue
		}
		for e := range int(m.shape[0]) {
			n := len(m.x) / int(m.shape[0])
			one := strings.Replace(name, "_exps.", fmt.Sprintf(".%d.", e), 1)
			tensors[one] = matrix{m.shape[1:], m.x[e*n : (e+1)*n]}
			apart = append(apart, one)
		}
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	writeGGUF(t, path, meta(want.Config), quant.F32, apart, tensors, 0)
	got := open(t, path)
	for _, p := range want.Config.Parameters() {
		if string(f32(t, got, p)) != string(f32(t, want, p)) {
			t.Errorf("%q differs", p.Name)
		}
	}
}

// vocabulary is the metadata of a small tokenizer.
func vocabulary(m *gguf.Metadata) {
	m.Set("tokenizer.ggml.model", "gpt2")
	m.Set("tokenizer.ggml.pre", "gpt-2")
	var tokens []string
	var types []int32
	for b := range 256 { // the byte alphabet of GPT-2
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b != 0xad) {
			r = rune(256 + len(tokens)) // any other letter for the test's purpose, but where the alphabet has it
		}
		tokens, types = append(tokens, string(r)), append(types, 1)
	}
	n := 256
	for b := range 256 {
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b != 0xad) {
			tokens[b] = string(rune(n))
			n++
		}
	}
	tokens[3], types[3] = "<|im_end|>", 3
	tokens[5], types[5] = "<|endoftext|>", 3
	m.Set("tokenizer.ggml.tokens", tokens)
	m.Set("tokenizer.ggml.token_type", types)
	tokens[7] = "He"
	m.Set("tokenizer.ggml.merges", []string{"H e"})
	m.Set("tokenizer.ggml.eos_token_id", uint32(5))
	m.Set("tokenizer.ggml.bos_token_id", uint32(5))
	m.Set("tokenizer.chat_template", "{{ messages }}")
}

// The tokenizer, what ends a text and the chat template come from the metadata.
func TestGGUFTokens(t *testing.T) {
	dir := directory(t, "dense")
	c := open(t, dir).Config
	names, tensors := converted(c, read(t, dir))
	m := meta(c)
	vocabulary(&m)
	path := filepath.Join(t.TempDir(), "model.gguf")
	writeGGUF(t, path, m, quant.F32, names, tensors, 0)
	got := open(t, path)
	if want := []int{5, 3}; !slices.Equal(got.Config.EOSTokenIDs, want) || !got.GGUF() {
		t.Errorf("ends: got %v, want %v", got.Config.EOSTokenIDs, want)
	}
	tok, err := got.Tokenizer(0)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(tok.Decode(tok.Encode("Hello"))); s != "Hello" || tok.VocabSize() != 256 {
		t.Errorf("got %q of %v", s, tok)
	}
	var no *TokenizerError
	if _, err := got.Tokenizer(1); !errors.As(err, &no) || no.Need < mem.MiB {
		t.Errorf("in a byte: got %v", err)
	}
	if s, ok := got.Template(); s != "{{ messages }}" || !ok {
		t.Errorf("template: got %q, %v", s, ok)
	}
	if s := got.Special(); s["eos_token"] != "<|endoftext|>" || s["bos_token"] != "<|endoftext|>" || len(s) != 2 {
		t.Errorf("special: got %v", s)
	}
}

// Of a directory they come from the files beside it.
func TestDirectoryTokens(t *testing.T) {
	dir := directory(t, "dense")
	if _, err := open(t, dir).Tokenizer(0); !errors.Is(err, ErrNoTokenizer) {
		t.Errorf("no tokenizer: got %v", err)
	}
	p, err := os.ReadFile("../tokenizer/testdata/trained.json")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, tokenizerName), p)
	write(t, filepath.Join(dir, generationName), []byte(`{"eos_token_id": [0, 7, 9], "top_p": 0.9}`))
	write(t, filepath.Join(dir, tokenizerConfigName), []byte(`{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "y"}]}`))
	m := open(t, dir)
	if tok, err := m.Tokenizer(64 * mem.MiB); err != nil || tok.VocabSize() < 256 {
		t.Errorf("got %v, %v", tok, err)
	}
	if want := []int{0, 7, 9}; !slices.Equal(m.Config.EOSTokenIDs, want) {
		t.Errorf("ends: got %v, want %v", m.Config.EOSTokenIDs, want)
	}
	if s, ok := m.Template(); s != "y" || !ok {
		t.Errorf("template: got %q, %v", s, ok)
	}
	if s := m.Special(); s["bos_token"] != "<s>" || s["eos_token"] != "</s>" {
		t.Errorf("special: got %v", s)
	}
	write(t, filepath.Join(dir, templateName), []byte("z"))
	if s, ok := m.Template(); s != "z" || !ok {
		t.Errorf("template: got %q, %v", s, ok)
	}
	for name, x := range map[string]struct{ body, want string }{
		"not JSON": {`{`, "generation_config.json"}, "a text": {`{"eos_token_id": "x"}`, "eos_token_id"}, "outside": {`{"eos_token_id": 256}`, "token 256"},
	} {
		write(t, filepath.Join(dir, generationName), []byte(x.body))
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, x.want)
		}
	}
	if err := os.Remove(filepath.Join(dir, generationName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, generationName), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, regular.ErrNot) {
		t.Errorf("a directory: got %v", err)
	}
}

// Every published tensor of every configuration has a place.
func TestPlaceInGGUF(t *testing.T) {
	for name, x := range map[string]struct {
		kind string
		want InGGUF
	}{
		"model.layers.3.self_attn.q_proj.weight":               {"llama", InGGUF{"blk.3.attn_q.weight", -1, 16, 0, false, false}},
		"model.layers.3.self_attn.k_proj.bias":                 {"llama", InGGUF{"blk.3.attn_k.bias", -1, 16, 0, false, false}},
		"model.layers.0.self_attn.q_proj.weight":               {"qwen2", InGGUF{"blk.0.attn_q.weight", -1, 0, 0, false, false}},
		"model.layers.0.self_attn.q_norm.weight":               {"gemma3_text", InGGUF{"blk.0.attn_q_norm.weight", -1, 0, 1, false, false}},
		"model.layers.0.post_attention_layernorm.weight":       {"gemma2", InGGUF{"blk.0.post_attention_norm.weight", -1, 0, 1, false, false}},
		"model.layers.0.pre_feedforward_layernorm.weight":      {"gemma2", InGGUF{"blk.0.ffn_norm.weight", -1, 0, 1, false, false}},
		"model.layers.1.post_attention_layernorm.weight":       {"phi3", InGGUF{"blk.1.ffn_norm.weight", -1, 0, 0, false, false}},
		"model.layers.1.mlp.gate_up_proj.weight":               {"phi3", InGGUF{"blk.1.ffn_up.weight", -1, 0, 0, false, false}},
		"model.layers.1.self_attn.sinks":                       {"gpt_oss", InGGUF{"blk.1.attn_sinks.weight", -1, 0, 0, false, false}},
		"model.layers.1.mlp.experts.12.down_proj.weight":       {"qwen3_moe", InGGUF{"blk.1.ffn_down_exps.weight", 12, 0, 0, false, false}},
		"model.layers.1.block_sparse_moe.experts.2.w3.weight":  {"mixtral", InGGUF{"blk.1.ffn_up_exps.weight", 2, 0, 0, false, false}},
		"transformer.h.11.attn.c_attn.weight":                  {"gpt2", InGGUF{"blk.11.attn_qkv.weight", -1, 0, 0, true, false}},
		"model.norm.weight":                                    {"gemma2", InGGUF{"output_norm.weight", -1, 0, 1, false, false}},
		"lm_head.weight":                                       {"gemma2", InGGUF{"output.weight", -1, 0, 0, false, false}},
		"model.layers.x.self_attn.q_proj.weight":               {"llama", InGGUF{}},
		"model.layers.1.mamba.weight":                          {"llama", InGGUF{}},
		"model.layers.1.mlp.experts.-1.w3.weight":              {"llama", InGGUF{}},
		"model.layers.99999999999999999999.input_layernorm":    {"llama", InGGUF{}},
		"model.layers.1.block_sparse_moe.experts.2.w4.weight":  {"mixtral", InGGUF{}},
		"model.layers.1.block_sparse_moe.experts.2x.w1.weight": {"mixtral", InGGUF{}},
	} {
		got, err := PlaceInGGUF(model.Config{ModelType: x.kind, HeadDim: 16}, model.Piece{Name: name})
		if (err != nil) != (x.want.Name == "") || err == nil && got != x.want {
			t.Errorf("%s of %s: got %+v, %v, want %+v", name, x.kind, got, err, x.want)
		}
	}
}

// FuzzOpen opens files that are no whole model.
func FuzzOpen(f *testing.F) {
	c := model.Config{
		ModelType: model.Llama, HiddenSize: 32, NumLayers: 1, NumHeads: 2, NumKVHeads: 1, HeadDim: 16, IntermediateSize: 32, VocabSize: 256,
		MaxPositionEmbeddings: 64, RMSNormEps: 1e-5, RopeTheta: 1e4, TieWordEmbeddings: true, HiddenAct: "silu", BOSTokenID: -1,
	}
	zeros := map[string]matrix{}
	for _, p := range c.Parameters() {
		for _, x := range p.Pieces {
			m := matrix{x: make([]float32, p.Elems())}
			for _, d := range x.Shape {
				m.shape = append(m.shape, int64(d))
			}
			zeros[x.Name] = m
		}
	}
	names, tensors := converted(c, zeros)
	m := meta(c)
	vocabulary(&m)
	path := filepath.Join(f.TempDir(), "model.gguf")
	writeGGUF(f, path, m, quant.Q8_0, names, tensors, 0)
	p, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	for _, name := range []string{"llama_linear", "qwen3_moe"} {
		p, err := os.ReadFile("testdata/" + name + ".gguf")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
		f.Add(p[:len(p)/2])
	}
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		path := filepath.Join(t.TempDir(), "model.gguf")
		write(t, path, p)
		var m *Model
		var err error
		bounded.Run(t, len(p), 1<<20, 256, func() { m, err = Open(path) })
		if err != nil {
			return
		}
		defer m.Close()
		bounded.Run(t, len(p), 4<<20, 2048, func() { _, _ = m.Tokenizer(64 * mem.MiB) })
		m.Template()
		m.Special()
		buf := make([]byte, 4096)
		for _, x := range m.Config.Parameters() {
			if err := m.ReadAt(x.Name, 0, buf[:min(len(buf), 4*x.Elems())]); err != nil {
				t.Fatalf("%s: %v", x.Name, err)
			}
		}
	})
}

// The decoder of a model that sees is under text_config.
func TestTextConfig(t *testing.T) {
	dir := directory(t, "dense")
	p, err := os.ReadFile(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	want := open(t, dir).Config
	var inner map[string]any
	if err := json.Unmarshal(p, &inner); err != nil {
		t.Fatal(err)
	}
	delete(inner, "eos_token_id")
	outer, err := json.Marshal(map[string]any{"model_type": "sees", "architectures": []string{"Sees"}, "eos_token_id": []int{3, 4}, "text_config": inner, "vision_config": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, configName), outer)
	want.EOSTokenIDs = []int{3, 4}
	if got := open(t, dir).Config; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	c, ok, err := textConfig([]byte(`{"model_type":"gemma3","text_config":{"model_type":"gemma3_text","hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024}}`))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if g, err := model.DecodeConfig(c); err != nil || g.NumHeads != 8 || g.HiddenSize != 2560 || g.VocabSize != 262208 || g.HeadDim != 256 || !g.TieWordEmbeddings {
		t.Errorf("gemma3: got %+v, %v", g, err)
	}
	write(t, filepath.Join(dir, configName), []byte(`{"model_type":"sees","text_config":{"model_type":"other"}}`))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `"other"`) || strings.Contains(err.Error(), "\n") {
		t.Errorf("another: got %v", err)
	}
}
