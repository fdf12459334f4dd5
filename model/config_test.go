package model

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loadline/internal/bounded"
)

func TestConfigOfPublishedFiles(t *testing.T) {
	for name, want := range map[string]Config{
		"llama-2, transformers 4": {
			ModelType: Llama, HiddenSize: 4096, NumLayers: 32, NumHeads: 32, NumKVHeads: 32, HeadDim: 128, IntermediateSize: 11008,
			VocabSize: 32000, MaxPositionEmbeddings: 4096, RMSNormEps: 1e-5, RopeTheta: 10000, HiddenAct: "silu", BOSTokenID: 1, EOSTokenIDs: []int{2},
		},
		"llama, transformers 5": {
			ModelType: Llama, HiddenSize: 2048, NumLayers: 16, NumHeads: 32, NumKVHeads: 8, HeadDim: 64, IntermediateSize: 8192,
			VocabSize: 128256, MaxPositionEmbeddings: 131072, RMSNormEps: 1e-5, RopeTheta: 500000, TieWordEmbeddings: true, HiddenAct: "silu",
			BOSTokenID: 128000, EOSTokenIDs: []int{128001, 128008, 128009},
		},
		"mixtral-8x7b": {
			ModelType: Mixtral, HiddenSize: 4096, NumLayers: 32, NumHeads: 32, NumKVHeads: 8, HeadDim: 128, IntermediateSize: 14336,
			VocabSize: 32000, MaxPositionEmbeddings: 32768, RMSNormEps: 1e-5, RopeTheta: 1e6, NumLocalExperts: 8, NumExpertsPerTok: 2, HiddenAct: "silu",
			BOSTokenID: 1, EOSTokenIDs: []int{2},
		},
		"llama-3.2-1b, transformers 4": {
			ModelType: Llama, HiddenSize: 2048, NumLayers: 16, NumHeads: 32, NumKVHeads: 8, HeadDim: 64, IntermediateSize: 8192, VocabSize: 128256,
			MaxPositionEmbeddings: 131072, RMSNormEps: 1e-5, RopeTheta: 500000, TieWordEmbeddings: true, HiddenAct: "silu", BOSTokenID: 128000, EOSTokenIDs: []int{128001},
			RopeScaling: RopeScaling{Type: Llama3Rope, Factor: 32, LowFreqFactor: 1, HighFreqFactor: 4, Original: 8192},
		},
		"qwen2.5-0.5b, transformers 4": {
			ModelType: Qwen2, HiddenSize: 896, NumLayers: 24, NumHeads: 14, NumKVHeads: 2, HeadDim: 64, IntermediateSize: 4864, VocabSize: 151936,
			MaxPositionEmbeddings: 32768, RMSNormEps: 1e-6, RopeTheta: 1e6, TieWordEmbeddings: true, HiddenAct: "silu", AttentionBias: true, BOSTokenID: 151643, EOSTokenIDs: []int{151645},
		},
		"gemma-3-1b, transformers 4": {
			ModelType: Gemma3, HiddenSize: 1152, NumLayers: 7, NumHeads: 4, NumKVHeads: 1, HeadDim: 256, IntermediateSize: 6912, VocabSize: 262144,
			MaxPositionEmbeddings: 32768, RMSNormEps: 1e-6, RopeTheta: 1e6, RopeLocalTheta: 1e4, TieWordEmbeddings: true, HiddenAct: geluTanh, QueryPreAttnScalar: 256,
			SlidingWindow: 512, LayerTypes: []string{SlidingAttention, SlidingAttention, SlidingAttention, SlidingAttention, SlidingAttention, FullAttention, SlidingAttention},
			BOSTokenID: 2, EOSTokenIDs: []int{1, 106},
		},
		"phi-4-mini, transformers 4": {
			ModelType: Phi3, HiddenSize: 64, NumLayers: 2, NumHeads: 4, NumKVHeads: 2, HeadDim: 16, IntermediateSize: 128, VocabSize: 256, MaxPositionEmbeddings: 131072,
			RMSNormEps: 1e-5, RopeTheta: 10000, RotaryDim: 12, TieWordEmbeddings: true, HiddenAct: "silu", SlidingWindow: 262144, BOSTokenID: 199, EOSTokenIDs: []int{199},
			RopeScaling: RopeScaling{Type: LongRope, Original: 4096, Short: []float64{1, 1, 1, 1, 1, 1}, Long: []float64{1, 1.1, 1.3, 1.8, 4, 47.8}},
		},
		"gpt2": {
			ModelType: GPT2, HiddenSize: 768, NumLayers: 12, NumHeads: 12, NumKVHeads: 12, HeadDim: 64, IntermediateSize: 3072, VocabSize: 50257,
			MaxPositionEmbeddings: 1024, LayerNormEps: 1e-5, TieWordEmbeddings: true, HiddenAct: "gelu_new", BOSTokenID: 50256, EOSTokenIDs: []int{50256},
		},
	} {
		text := map[string]string{
			"llama-2, transformers 4": `{"architectures":["LlamaForCausalLM"],"bos_token_id":1,"eos_token_id":2,"hidden_act":"silu","hidden_size":4096,
				"initializer_range":0.02,"intermediate_size":11008,"max_position_embeddings":4096,"model_type":"llama","num_attention_heads":32,
				"num_hidden_layers":32,"num_key_value_heads":32,"pretraining_tp":1,"rms_norm_eps":1e-05,"rope_scaling":null,
				"tie_word_embeddings":false,"torch_dtype":"float16","use_cache":true,"vocab_size":32000}`,
			"llama, transformers 5": `{"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":128000,"eos_token_id":[128001,128008,128009],
				"dtype":"bfloat16","head_dim":64,"hidden_size":2048,"intermediate_size":8192,"max_position_embeddings":131072,"mlp_bias":false,
				"num_attention_heads":32,"num_hidden_layers":16,"num_key_value_heads":8,"rms_norm_eps":1e-05,
				"rope_parameters":{"rope_theta":500000.0,"rope_type":"default"},"tie_word_embeddings":true,"vocab_size":128256}`,
			"mixtral-8x7b": `{"model_type":"mixtral","bos_token_id":1,"eos_token_id":2,"hidden_size":4096,"intermediate_size":14336,"head_dim":null,
				"max_position_embeddings":32768,"num_attention_heads":32,"num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,
				"num_local_experts":8,"rms_norm_eps":1e-05,"rope_theta":1000000.0,"sliding_window":null,"vocab_size":32000,"router_aux_loss_coef":0.02}`,
			"llama-3.2-1b, transformers 4": `{"architectures":["LlamaForCausalLM"],"attention_bias":false,"bos_token_id":128000,"eos_token_id":128001,"head_dim":64,
				"hidden_act":"silu","hidden_size":2048,"intermediate_size":8192,"max_position_embeddings":131072,"mlp_bias":false,"model_type":"llama",
				"num_attention_heads":32,"num_hidden_layers":16,"num_key_value_heads":8,"rms_norm_eps":1e-05,"rope_scaling":{"factor":32.0,
				"high_freq_factor":4.0,"low_freq_factor":1.0,"original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,
				"tie_word_embeddings":true,"torch_dtype":"bfloat16","vocab_size":128256}`,
			"qwen2.5-0.5b, transformers 4": `{"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,"eos_token_id":151645,"hidden_act":"silu",
				"hidden_size":896,"intermediate_size":4864,"max_position_embeddings":32768,"max_window_layers":21,"model_type":"qwen2","num_attention_heads":14,
				"num_hidden_layers":24,"num_key_value_heads":2,"rms_norm_eps":1e-06,"rope_theta":1000000.0,"sliding_window":32768,"tie_word_embeddings":true,
				"torch_dtype":"bfloat16","use_sliding_window":false,"vocab_size":151936}`,
			"gemma-3-1b, transformers 4": `{"architectures":["Gemma3ForCausalLM"],"attention_bias":false,"attn_logit_softcapping":null,"bos_token_id":2,"eos_token_id":[1,106],
				"final_logit_softcapping":null,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,"intermediate_size":6912,
				"max_position_embeddings":32768,"model_type":"gemma3_text","num_attention_heads":4,"num_hidden_layers":7,"num_key_value_heads":1,
				"query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"rope_local_base_freq":10000,"rope_scaling":null,"rope_theta":1000000,"sliding_window":512,
				"sliding_window_pattern":6,"torch_dtype":"bfloat16","vocab_size":262144}`,
			"phi-4-mini, transformers 4": `{"architectures":["Phi3ForCausalLM"],"bos_token_id":199,"eos_token_id":199,"hidden_act":"silu","hidden_size":64,
				"intermediate_size":128,"max_position_embeddings":131072,"model_type":"phi3","num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":2,
				"original_max_position_embeddings":4096,"partial_rotary_factor":0.75,"rms_norm_eps":1e-05,"rope_scaling":{"long_factor":[1,1.1,1.3,1.8,4,47.8],
				"short_factor":[1,1,1,1,1,1],"type":"longrope"},"rope_theta":10000.0,"sliding_window":262144,"tie_word_embeddings":true,"vocab_size":256}`,
			"gpt2": `{"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"bos_token_id":50256,"eos_token_id":50256,
				"layer_norm_epsilon":1e-05,"model_type":"gpt2","n_ctx":1024,"n_embd":768,"n_head":12,"n_layer":12,"n_positions":1024,
				"task_specific_params":{"text-generation":{"do_sample":true}},"vocab_size":50257}`,
		}[name]
		got, err := DecodeConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
	}
}

// Numbers of parameters as published, and those of the presets.
func TestParams(t *testing.T) {
	config := func(text string) Config {
		c, err := DecodeConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, x := range []struct {
		name string
		c    Config
		want int64
	}{
		{"llama-2-7b", config(`{"model_type":"llama","hidden_size":4096,"intermediate_size":11008,"num_attention_heads":32,"num_hidden_layers":32,"vocab_size":32000}`), 6738415616},
		{"llama-3-8b", config(`{"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,"vocab_size":128256}`), 8030261248},
		{"mixtral-8x7b", config(`{"model_type":"mixtral","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,"num_hidden_layers":32,"vocab_size":32000}`), 46702792704},
		{"gpt2", config(`{"model_type":"gpt2"}`), 124439808},
		{"gpt2-xl", config(`{"model_type":"gpt2","n_embd":1600,"n_layer":48,"n_head":25}`), 1557611200},
	} {
		if got := x.c.Params(); got != x.want {
			t.Errorf("%s: got %d parameters, want %d", x.name, got, x.want)
		}
		checkParams(t, x.name, x.c)
	}
	manifest := struct {
		Models map[string]struct{ Parameters int64 }
	}{}
	data, err := os.ReadFile(goldenDir + "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dense", "dense_untied", "moe", "gpt2"} {
		c, err := ReadConfig(goldenDir + name + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.Params(), manifest.Models[name].Parameters; got != want {
			t.Errorf("%s: got %d parameters, want %d", name, got, want)
		}
		checkParams(t, name, c)
	}
	for name, want := range map[string]int64{"llama-tiny": 918656, "moe-tiny": 2690176, "geglu-tiny": 918656, "gpt2-tiny": 1055488, "bench-20m": 17308032, "bench-90m": 91245312} {
		c, _ := mustPreset(t, name)
		if got := c.Params(); got != want {
			t.Errorf("%s: got %d parameters, want %d", name, got, want)
		}
		checkParams(t, name, c)
	}
}

// checkParams compares Params, a formula, with the list of tensors, and the list with what is published.
func checkParams(t *testing.T, name string, c Config) {
	t.Helper()
	var inStates, inPieces, inFiles int64
	names, files := map[string]bool{}, map[string]bool{}
	for _, p := range c.Parameters() {
		if names[p.Name] {
			t.Errorf("%s: two parameters %q", name, p.Name)
		}
		names[p.Name] = true
		inStates += int64(p.Elems())
		for _, x := range p.Pieces {
			inPieces += int64(x.Rows * x.Cols)
			if !files[x.Name] {
				files[x.Name] = true
				inFiles += int64(elems(x.Shape))
			}
		}
	}
	if n := c.Params(); inStates != n || inPieces != n || inFiles != n {
		t.Errorf("%s: got %d elements in states, %d in pieces, %d in published tensors, want %d", name, inStates, inPieces, inFiles, n)
	}
}

func TestConfigRoundTrip(t *testing.T) {
	for _, name := range Presets() {
		c, _ := mustPreset(t, name)
		c.EOSTokenIDs = []int{3, 5}
		path := filepath.Join(t.TempDir(), "config.json")
		if err := WriteConfig(path, c); err != nil {
			t.Fatal(err)
		}
		got, err := ReadConfig(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c, got); d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
	}
}

// sameConfig compares what was read with what was written and read again.
func sameConfig(t *testing.T, name string, want, got Config) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: (-want +got)\n%s", name, d)
	}
}

const llamaText = `{"model_type":"llama","hidden_size":64,"intermediate_size":128,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":256}`

func TestConfigRefuses(t *testing.T) {
	with := func(base, field string) string { return strings.TrimSuffix(base, "}") + "," + field + "}" }
	gpt2 := `{"model_type":"gpt2"}`
	of := func(modelType string) string { return strings.Replace(llamaText, "llama", modelType, 1) }
	mixtral, phi3, qwen2, smollm3, gemma2 := of(Mixtral), of(Phi3), of(Qwen2), of(SmolLM3), of(Gemma2)
	for _, x := range []struct{ text, want string }{
		{`{`, "config.json: unexpected end"},
		{`[]`, "cannot unmarshal array"},
		{`{"model_type":"mamba"}`, `model_type "mamba": want llama, mistral, mixtral, `},
		{`{"model_type":"llama"}`, "hidden_size 0: want 1 to"},
		{with(llamaText, `"num_attention_heads":3`), "hidden_size 64 is not divisible by num_attention_heads 3"},
		{with(llamaText, `"num_key_value_heads":3`), "num_attention_heads 4 is not divisible by num_key_value_heads 3"},
		{with(llamaText, `"num_hidden_layers":0`), "num_hidden_layers 0: want 1 to"},
		{with(llamaText, `"num_hidden_layers":-1`), "num_hidden_layers -1: want 1 to"},
		{with(llamaText, `"num_hidden_layers":4294967296`), "num_hidden_layers 4294967296: want 1 to"},
		{with(llamaText, `"num_hidden_layers":1e99`), "cannot unmarshal number"},
		{with(llamaText, `"num_hidden_layers":4096,"intermediate_size":16777216,"head_dim":64,"hidden_size":1048576`), "parameters: want at most"},
		{with(llamaText, `"head_dim":7`), "head_dim 7 is odd"},
		{with(llamaText, `"rms_norm_eps":0`), "rms_norm_eps 0: want between"},
		{with(llamaText, `"rope_theta":-1`), "rope_theta -1: want"},
		{with(llamaText, `"hidden_act":"relu"`), `hidden_act "relu": want silu`},
		{with(llamaText, `"eos_token_id":256`), "token id 256 in a vocabulary of 256"},
		{with(llamaText, `"rope_scaling":{"rope_type":"llama3","factor":8}`), "rope_scaling llama3: low_freq_factor 0, high_freq_factor 0: want"},
		{with(llamaText, `"rope_scaling":{"type":"linear"}`), "rope_scaling linear: factor 0: want 1 to"},
		{with(llamaText, `"rope_scaling":{"type":"mrope","factor":2}`), `rope_type "mrope": want default, linear`},
		{with(llamaText, `"rope_parameters":{"rope_type":"yarn","rope_theta":1,"factor":4}`), "rope_scaling yarn: beta_fast 32, beta_slow 1, rope_theta 1: want"},
		{with(llamaText, `"rope_parameters":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":1}`), "original_max_position_embeddings 1: want 2 to"},
		{with(llamaText, `"rope_scaling":{"rope_type":"longrope","short_factor":[1],"long_factor":[1]}`), "longrope: a list of 1 factors, want 8"},
		{with(llamaText, `"partial_rotary_factor":0.5`), "partial_rotary_factor of a llama model is not supported"},
		{with(llamaText, `"rope_parameters":{"full_attention":{"rope_type":"default"},"sliding_attention":{"rope_type":"linear","factor":2}}`), "rope_parameters of sliding layers"},
		{with(phi3, `"partial_rotary_factor":1.5`), "elements of a head turn: want an even number"},
		{with(qwen2, `"layer_types":["full_attention"]`), "layer_types has 1 layers, the model 2"},
		{with(qwen2, `"layer_types":["full_attention","linear_attention"]`), `layer_types "linear_attention" of layer 1`},
		{with(qwen2, `"layer_types":["full_attention","sliding_attention"]`), "layer 1 has a window, and there is no sliding_window"},
		{with(smollm3, `"no_rope_layers":[1]`), "no_rope_layers has 1 layers, the model 2"},
		{with(smollm3, `"no_rope_layers":[1,2]`), "no_rope_layers 2 of layer 1: want 0 or 1"},
		{with(gemma2, `"attn_logit_softcapping":-1`), "attn_logit_softcapping -1: want"},
		{with(gemma2, `"use_bidirectional_attention":true`), "use_bidirectional_attention of a gemma2"},
		{with(mixtral, `"sliding_window":-1`), "sliding_window -1: want 1 to"},
		{with(mixtral, `"num_experts_per_tok":9`), "num_experts_per_tok 9 of 8 experts"},
		{with(mixtral, `"num_local_experts":0`), "num_local_experts 0: want 1"},
		{with(gpt2, `"n_head":7`), "n_embd 768 is not n_head 7 times a head width"},
		{with(gpt2, `"activation_function":"relu"`), `activation_function "relu": want gelu_new or gelu`},
		{with(gpt2, `"layer_norm_epsilon":2`), "layer_norm_epsilon 2: want"},
		{with(gpt2, `"scale_attn_by_inverse_layer_idx":true`), "scale_attn_by_inverse_layer_idx of a gpt2"},
	} {
		if _, err := DecodeConfig([]byte(x.text)); err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got error %v, want one line with %q", x.text, err, x.want)
		}
	}
	long := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(long, []byte(llamaText+strings.Repeat(" ", maxConfigBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{long: "at most", long + ".none": "no such file"} {
		if _, err := ReadConfig(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestOptionsRefuse(t *testing.T) {
	c, _ := mustPreset(t, "gpt2-tiny")
	for _, x := range []struct {
		o    TrainOptions
		want string
	}{
		{TrainOptions{Seq: 8}, "batch 0 × seq 8"},
		{TrainOptions{Batch: 1}, "batch 1 × seq 0"},
		{TrainOptions{Batch: math.MaxInt, Seq: math.MaxInt}, "want at least 1 and at most"},
		{TrainOptions{Batch: 1, Seq: 1025}, "seq 1025: the model has 1024 positions"},
		{TrainOptions{Batch: 1, Seq: 8, Dropout: 1}, "dropout 1:"},
		{TrainOptions{Batch: 1, Seq: 8, Dropout: float32(math.NaN())}, "dropout NaN:"},
		{TrainOptions{Batch: 1, Seq: 8, Block: 3}, "block 3 does not divide seq 8"},
	} {
		if _, err := TrainGraph(c, x.o); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: got %v, want %q", x.o, err, x.want)
		}
	}
	good := PassOptions{MaxRows: 8, MaxOuts: 8, MaxSeqs: 8, Blocks: 8, BlockSize: 8, Context: 8}
	for want, change := range map[string]func(o *PassOptions){
		"rows 0: want 1":      func(o *PassOptions) { o.MaxRows = 0 },
		"outs 9: want 1 to 8": func(o *PassOptions) { o.MaxOuts = 9 },
		"sequences 0":         func(o *PassOptions) { o.MaxSeqs = 0 },
		"blocks 0":            func(o *PassOptions) { o.Blocks = 0 },
		"block size -1":       func(o *PassOptions) { o.BlockSize = -1 },
		"copies -1":           func(o *PassOptions) { o.MaxCopies = -1 },
		"context 1025":        func(o *PassOptions) { o.Context = 1025 },
		"want less than 2³¹":  func(o *PassOptions) { o.Blocks = 1 << 28 },
	} {
		o := good
		change(&o)
		if _, err := PassGraph(c, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
	if _, _, err := Preset("nano"); err == nil || !strings.Contains(err.Error(), "want one of llama-tiny") {
		t.Errorf("got %v, want an error that lists the presets", err)
	}
}

// A configuration that is read can be written, read again the same, and listed.
func FuzzDecodeConfig(f *testing.F) {
	f.Add([]byte(llamaText))
	for _, name := range []string{"dense", "moe", "gpt2"} {
		data, err := os.ReadFile(goldenDir + name + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, name := range arches(f) {
		data, err := os.ReadFile(archDir + name + "/config.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Config
		var err error
		bounded.Run(t, len(data), 256<<10, 256, func() { c, err = DecodeConfig(data) })
		if err != nil {
			return
		}
		text, err := EncodeConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeConfig(text)
		if err != nil {
			t.Fatal(err)
		}
		sameConfig(t, "written again", c, again)
		for i := range c.NumLayers {
			if r, ok := c.Rope(i, 1<<20); ok && c.ModelType != GPT2 {
				for _, x := range r.Frequencies() {
					if !(x >= 0 && x <= 1e6) {
						t.Fatalf("layer %d turns by %v a position", i, x)
					}
				}
			}
			if i > 64 {
				return
			}
		}
		if c.NumLayers > 64 || c.NumLocalExperts > 64 {
			return
		}
		var n int64
		for _, p := range c.Parameters() {
			n += int64(p.Elems())
		}
		if n != c.Params() {
			t.Fatalf("got %d elements in parameters, want %d", n, c.Params())
		}
	})
}

// Activations of gated feed-forwards have one name each here, and are written as transformers reads them.
func TestGatedActivations(t *testing.T) {
	const config = `{"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":128,"hidden_act":%q}`
	for name, want := range map[string]string{"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_pytorch_tanh", "gelu_pytorch_tanh": "gelu_pytorch_tanh", "relu": ""} {
		c, err := DecodeConfig(fmt.Appendf(nil, config, name))
		if (err != nil) != (want == "") || c.HiddenAct != want {
			t.Errorf("%s: got %q (%v), want %q", name, c.HiddenAct, err, want)
		}
		if err != nil {
			continue
		}
		text, err := EncodeConfig(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeConfig(text); err != nil || again.HiddenAct != want {
			t.Errorf("%s: got %q (%v) after it was written", name, again.HiddenAct, err)
		}
	}
}
