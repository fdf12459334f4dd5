package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/model/safetensors"
)

// tinyConfig is a Llama of 2 layers; its parameters are 2·(64·64·4 + 3·64·128 + 2·64) + 2·100·64 + 64.
const (
	tinyConfig = `{"model_type":"llama","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"intermediate_size":128,"vocab_size":100%s}`
	tinyParams = 2*(64*64*4+3*64*128+2*64) + 2*100*64 + 64
)

// tinyShards writes the model's weights in two files, matrices in a type, with more values than config.json knows of.
func tinyShards(t *testing.T, dir string, matrices safetensors.DType, more int64) {
	t.Helper()
	shards := [][]safetensors.Info{{
		{Name: "model.embed_tokens.weight", DType: safetensors.BF16, Shape: []int64{100, 64}}, {Name: "lm_head.weight", DType: safetensors.BF16, Shape: []int64{100, 64}},
		{Name: "model.norm.weight", DType: safetensors.BF16, Shape: []int64{64}},
	}, {}}
	if more > 0 {
		shards[0] = append(shards[0], safetensors.Info{Name: "visual.patch.weight", DType: safetensors.BF16, Shape: []int64{more}})
	}
	for i := range 2 {
		put := func(name string, kind safetensors.DType, dims ...int64) {
			shards[1] = append(shards[1], safetensors.Info{Name: fmt.Sprintf("model.layers.%d.%s.weight", i, name), DType: kind, Shape: dims})
		}
		for _, name := range []string{"q_proj", "k_proj", "v_proj", "o_proj"} {
			put("self_attn."+name, matrices, 64, 64)
		}
		for _, name := range []string{"gate_proj", "up_proj", "down_proj"} {
			put("mlp."+name, matrices, 64, 128)
		}
		put("input_layernorm", safetensors.BF16, 64)
		put("post_attention_layernorm", safetensors.BF16, 64)
	}
	total, where := int64(0), map[string]string{}
	for k, infos := range shards {
		safetensors.Sort(infos)
		name := fmt.Sprintf("model-%05d-of-00002.safetensors", k+1)
		w, err := safetensors.Create(filepath.Join(dir, name), infos, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range w.Tensors() {
			if err := w.Write(x.Name, make([]byte, x.Bytes)); err != nil {
				t.Fatal(err)
			}
			total += x.Bytes
			where[x.Name] = name
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"total_size": total}, "weight_map": where})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, indexName), body, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPlanWeights checks what is read beside a config.json: counts and widths from the headers where every shard is there, from the
// index's total where not.
func TestPlanWeights(t *testing.T) {
	for _, x := range []struct {
		name     string
		config   string
		matrices safetensors.DType
		more     int64
		remove   bool // a shard
		params   int64
		bits     float64 // stored; 0 for whole weights
		stored   string
		says     string
	}{
		{"whole", "", safetensors.BF16, 0, false, tinyParams, 0, "", "in 2 files, 95,040 values"},
		{"vision", "", safetensors.BF16, 50_000, false, tinyParams + 50_000, 0, "", "145,040 values"},
		{"fp8", "", safetensors.F8E4M3, 0, false, tinyParams, 8, "fp8", "95,040 values"},
		{"fp8 by the index", "", safetensors.F8E4M3, 0, true, tinyParams, 8, "fp8", "1 of its 2 files are not there"},
		{"whole by the index", "", safetensors.BF16, 0, true, tinyParams, 0, "", "1 of its 2 files are not there"},
		{"fp8 that config.json names", `,"quantization_config":{"quant_method":"fp8"}`, safetensors.F8E4M3, 0, false, tinyParams, 8, "fp8", "95,040 values"},
		{"fp32", "", safetensors.F32, 0, false, tinyParams, 0, "", "95,040 values"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), fmt.Appendf(nil, tinyConfig, x.config), 0o644); err != nil {
			t.Fatal(err)
		}
		tinyShards(t, dir, x.matrices, x.more)
		if x.remove {
			if err := os.Remove(filepath.Join(dir, "model-00002-of-00002.safetensors")); err != nil {
				t.Fatal(err)
			}
		}
		m, err := fileModel(dir)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		if m.Shape.Params() != x.params || !strings.Contains(m.Weights, x.says) || (m.Stored != nil) != (x.bits > 0) {
			t.Errorf("%s: got %d parameters, %+v, %q", x.name, m.Shape.Params(), m.Stored, m.Weights)
		}
		if m.Stored != nil && (math.Abs(m.Stored.Bits-x.bits) > 0.1 || m.Stored.Name != x.stored) {
			t.Errorf("%s: got %+v, want %g bits of %s", x.name, m.Stored, x.bits, x.stored)
		}
		if r := loadline(t, "plan", dir, "--hardware", "H100"); r.code != codeDone || !strings.Contains(r.out, "weights: ") {
			t.Errorf("%s: got %d, %s%s", x.name, r.code, r.out, r.err)
		}
	}
	// A config.json alone says how its weights are stored.
	for text, want := range map[string]string{
		`,"quantization_config":{"quant_method":"awq","bits":4}`: "awq-int4", `,"quantization_config":{"quant_method":"gptq","bits":8}`: "gptq-int8", `,"quantization_config":{"quant_method":"mxfp4"}`: "mxfp4", ``: "",
		`,"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true}`: "nf4", `,"quantization_config":{"quant_method":"new"}`: "", `,"quantization_config":[1]`: "",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "config.json")
		if err := os.WriteFile(path, fmt.Appendf(nil, tinyConfig, text), 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := fileModel(path)
		if err != nil || (m.Stored == nil) != (want == "") || m.Stored != nil && m.Stored.Name != want {
			t.Errorf("%s: got %+v, %v, want %s", text, m, err, want)
		}
	}
	// What is wrong with the files is one line.
	for name, files := range map[string]map[string]string{
		"names a file elsewhere": {indexName: `{"metadata":{"total_size":10},"weight_map":{"a":"../x.safetensors"}}`}, "cut off": {indexName: `{"metadata":{"total_size":10},"weight_map":{"a":`},
		"negative": {indexName: `{"metadata":{"total_size":-1},"weight_map":{"a":"x"}}`}, "empty": {indexName: `{}`}, "a list": {indexName: `[]`},
	} {
		dir := t.TempDir()
		files["config.json"] = fmt.Sprintf(tinyConfig, "")
		for file, body := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if r := loadline(t, "plan", dir, "--hardware", "H100"); r.code != codeFailed || len(strings.Split(strings.TrimSpace(r.err), "\n")) != 2 || !strings.Contains(r.err, indexName) {
			t.Errorf("%s: got %d, %s", name, r.code, r.err)
		}
	}
	// Files of another model are not planned for.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(strings.Replace(fmt.Sprintf(tinyConfig, ""), `"num_hidden_layers":2`, `"num_hidden_layers":5`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	tinyShards(t, dir, safetensors.BF16, 0)
	if r := loadline(t, "plan", dir, "--hardware", "H100"); r.code != codeFailed || !strings.Contains(r.err, "not of one model") {
		t.Errorf("another model: got %d, %s", r.code, r.err)
	}
}
