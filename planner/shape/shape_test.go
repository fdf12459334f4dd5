package shape

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
)

// TestCards checks every card against the count that its makers publish.
func TestCards(t *testing.T) {
	cards, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(cards.Names()) < 60 {
		t.Errorf("got %d cards, want at least 60", len(cards.Names()))
	}
	for _, name := range cards.Names() {
		s, ok := cards.ByName(name)
		if !ok {
			t.Fatalf("card %s is not found by its name", name)
		}
		if e := float64(s.Params())/float64(s.PublishedParams) - 1; math.Abs(e) > 0.005 {
			t.Errorf("%s: got %d parameters, want %d (%+.2f%%)", name, s.Params(), s.PublishedParams, 100*e)
		}
	}
}

// TestCounts checks every card against the parameters that the classes of transformers have for its config.json, as counts.py counts them,
// and that it says where that config.json is. Four cards' classes come with their checkpoints alone.
func TestCounts(t *testing.T) {
	body, err := os.ReadFile("testdata/counts.json")
	if err != nil {
		t.Fatal(err)
	}
	var counts map[string]int64
	var list []card
	if err := errors.Join(json.Unmarshal(body, &counts), json.Unmarshal(cardsJSON, &list)); err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for _, c := range list {
		if c.Source == "" {
			t.Errorf("%s: no source", c.Names[0])
		}
		n, ok := counts[c.Names[0]]
		if !ok {
			if !strings.HasPrefix(c.Names[0], "Qwen-") {
				t.Errorf("%s: no count of transformers", c.Names[0])
			}
			continue
		}
		s, err := Parse(c.Names[0], c.Config)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []int64{s.Params(), c.Params} {
			e := math.Abs(float64(got)/float64(n) - 1)
			worst = max(worst, e)
			if e > 0.002 {
				t.Errorf("%s: got %d parameters, transformers has %d", c.Names[0], got, n)
			}
		}
	}
	t.Logf("%d cards, the worst is %.3f%% off", len(counts), 100*worst)
}

// TestKV checks the cached elements of a token against each model's published layout: two times key-value heads times
// head size over the layers, or the latent width with MLA.
func TestKV(t *testing.T) {
	cards, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"Llama-2-7B": 32 * 2 * 4096, "Llama-2-70B": 80 * 2 * 1024, "Llama-3.1-8B": 32 * 2 * 1024, "Llama-3.1-405B": 126 * 2 * 1024, "Llama-3.2-1B": 16 * 2 * 512,
		"TinyLlama-1.1B": 22 * 2 * 256, "Mistral-7B-v0.1": 32 * 2 * 1024, "Mistral-Nemo-12B": 40 * 2 * 1024, "Mixtral-8x7B": 32 * 2 * 1024, "Qwen-7B": 32 * 2 * 4096,
		"Qwen2.5-7B": 28 * 2 * 512, "Qwen2.5-72B": 80 * 2 * 1024, "Qwen3-0.6B": 28 * 2 * 1024, "Qwen3-32B": 64 * 2 * 1024, "Qwen3-30B-A3B": 48 * 2 * 512, "Qwen3-235B-A22B": 94 * 2 * 512,
		"Qwen3-Next-80B-A3B": 12 * 2 * 512, "gemma-2b": 18 * 2 * 256, "gemma-7b": 28 * 2 * 4096, "gemma-2-9b": 42 * 2 * 2048, "gemma-3-27b": 62 * 2 * 2048, "gemma-3-1b": 26 * 2 * 256,
		"phi-2": 32 * 2 * 2560, "Phi-4": 40 * 2 * 1280, "falcon-7b": 32 * 2 * 64, "falcon-40b": 60 * 2 * 512, "DeepSeek-V3": 61 * 576, "DeepSeek-V2-Lite": 27 * 576, "Kimi-K2": 61 * 576,
		"gpt-oss-20b": 24 * 2 * 512, "GLM-4-32B": 61 * 2 * 256, "Command-R-35B": 40 * 2 * 8192, "GPT-2": 12 * 2 * 768, "BLOOM-176B": 70 * 2 * 14336, "OLMo-2-7B": 32 * 2 * 4096,
	} {
		s, ok := cards.ByName(name)
		if !ok {
			t.Errorf("no card %q", name)
		} else if got := s.KVElemsPerToken(); got != want {
			t.Errorf("%s: got %d elements a token, want %d", name, got, want)
		}
	}
	for _, c := range []struct {
		name string
		ctx  int
		want float64
	}{
		{"gpt-oss-20b", 131072, 12*131072*1024 + 12*128*1024},   // every second layer sees 128 tokens
		{"gemma-3-27b", 32768, 10*32768*4096 + 52*1024*4096},    // five of six layers see 1024
		{"Mistral-7B-v0.1", 32768, 32 * 4096 * 2048},            // all see 4096
		{"Mistral-7B-v0.2", 32768, 32 * 32768 * 2048},           // none has a window
		{"Llama-4-Scout", 32768, 12*32768*2048 + 36*8192*2048.}, // three of four layers in chunks
	} {
		s, ok := cards.ByName(c.name)
		if !ok {
			t.Fatalf("no card %q", c.name)
		}
		if got := s.KVElemsAt(c.ctx); got != c.want {
			t.Errorf("%s at %d: got %g elements, want %g", c.name, c.ctx, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	const base = `"model_type":"llama","hidden_size":64,"num_attention_heads":4,"vocab_size":100`
	for text, bad := range map[string]bool{
		`{` + base + `,"num_hidden_layers":2,"intermediate_size":128}`:                                  false,
		`{` + base + `,"num_hidden_layers":2,"num_key_value_heads":[1,2],"intermediate_size":[64,128]}`: false,
		`{"text_config":{` + base + `,"num_hidden_layers":2},"tie_word_embeddings":true}`:               false,
		`{` + base + `}`: true, // no layers
		`{` + base + `,"num_hidden_layers":99999}`:                                                                                  true,
		`{` + base + `,"num_hidden_layers":-1}`:                                                                                     true,
		`{` + base + `,"num_hidden_layers":2.5}`:                                                                                    true,
		`{"num_hidden_layers":2,"hidden_size":1e15,"num_attention_heads":1,"vocab_size":10}`:                                        true,
		`{"num_hidden_layers":2,"num_attention_heads":1,"vocab_size":10}`:                                                           true,
		`{` + base + `,"num_hidden_layers":2,"num_local_experts":-4}`:                                                               true,
		`{` + base + `,"num_hidden_layers":4000,"num_local_experts":65536,"moe_intermediate_size":1048576,"num_experts_per_tok":1}`: true,
		`[]`: true, ``: true, `{`: true,
	} {
		s, err := Parse("x", []byte(text))
		if (err != nil) != bad {
			t.Errorf("%s: got %v", text, err)
		}
		if err == nil && s.Params() <= 0 {
			t.Errorf("%s: got %d parameters", text, s.Params())
		}
	}
	s, err := Parse("x", []byte(`{`+base+`,"num_hidden_layers":3,"num_key_value_heads":[1,2]}`))
	if err != nil || s.Layers[0].KVHeads != 1 || s.Layers[1].KVHeads != 2 || s.Layers[2].KVHeads != 2 {
		t.Errorf("heads a layer: got %+v, %v", s, err)
	}
}

func TestNames(t *testing.T) {
	cards, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"meta-llama/Llama-3.2-3B": "Llama-3.2-3B", "Llama-3.1-8B-Instruct": "Llama-3.1-8B", "llama 3.1 70b": "Llama-3.1-70B", "Qwen3-30B-A3B-FP8": "Qwen3-30B-A3B",
		"Gemma-3-27B-It": "gemma-3-27b", "Qwen2.5-72B-Instruct-AWQ": "Qwen2.5-72B", "DeepSeek-Coder-V2-Lite-Instruct-AWQ": "DeepSeek-V2-Lite", "phi-1.5 1.3 B": "phi-1.5", "Qwen3-235B-A22B-128K": "Qwen3-235B-A22B",
	} {
		if s, ok := cards.ByName(name); !ok || s.Name != want {
			t.Errorf("%q: got %v, want %s", name, s, want)
		}
	}
	if _, ok := cards.ByName("Llama-9-1B"); ok {
		t.Error("Llama-9-1B: got a card")
	}
	if got := cards.Nearest("lama-3.1-8b"); got != "Llama-3.1-8B" {
		t.Errorf("nearest to lama-3.1-8b: got %s", got)
	}
	for text, want := range map[string]float64{"Llama-2-7B": 7e9, "350m": 350e6, "OPT-6.7B": 6.7e9, "Qwen3-30B-A3B": 30e9} {
		got, ok := SizeIn(text)
		if !ok || got != want && text != "Qwen3-30B-A3B" {
			t.Errorf("size in %q: got %g, want %g", text, got, want)
		}
	}
}

// FuzzParse reads any text as a config.json: no panic, and what is accepted has sane counts.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model_type":"qwen3_next","hidden_size":64,"num_attention_heads":4,"vocab_size":100,"num_hidden_layers":4,"full_attention_interval":2,"linear_num_key_heads":2,"linear_key_head_dim":8,"linear_num_value_heads":2,"linear_value_head_dim":8,"linear_conv_kernel_dim":4}`))
	f.Add([]byte(`{"model_type":"deepseek_v3","hidden_size":64,"num_attention_heads":4,"vocab_size":100,"num_hidden_layers":4,"kv_lora_rank":8,"qk_rope_head_dim":4,"n_routed_experts":4,"moe_intermediate_size":8}`))
	f.Add([]byte(`{"hidden_size":64,"num_attention_heads":4,"vocab_size":100,"num_hidden_layers":4,"num_key_value_heads":[1,-2],"layer_types":["mamba",1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := Parse("x", body)
		if err != nil {
			return
		}
		if s.Params() < 0 || s.KVElemsAt(1<<20) < 0 || s.StateBytes() < 0 || s.ActiveParams() > s.Params() {
			t.Errorf("%s: got %d parameters, %d active, %g cached elements, %g bytes of state", body, s.Params(), s.ActiveParams(), s.KVElemsAt(1<<20), s.StateBytes())
		}
	})
}
