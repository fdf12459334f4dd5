package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/mem/arena"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/tensor/quant"
)

const archDir = "../testdata/arch"

// copied is a directory of an architecture whose config.json is changed.
func copied(t *testing.T, name string, change map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{configName, safetensors.ModelName} {
		body, err := os.ReadFile(filepath.Join(archDir, name, file))
		if err == nil && file == configName {
			var c map[string]any
			err = json.Unmarshal(body, &c)
			maps.Copy(c, change)
			var e error
			body, e = json.Marshal(c)
			err = errors.Join(err, e)
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, file), body)
	}
	return dir
}

// TestArchitectures makes a GGUF file of every architecture, and a directory of that: the weights and what they compute are those of the
// first. What GGUF cannot say is refused by its name.
func TestArchitectures(t *testing.T) {
	none := map[string]any{}
	for _, x := range []struct {
		name   string
		change map[string]any
		says   string // empty where it is written
	}{
		{"llama_linear", none, ""}, {"llama_yarn", none, ""}, {"phi3", none, ""}, {"phi3_long", none, ""}, {"phi3_short", none, ""}, {"qwen3", none, ""},
		{"mistral", map[string]any{"sliding_window": nil}, ""},
		{"mistral", none, "sliding_window 7"},
		{"mixtral", map[string]any{"sliding_window": nil}, ""},
		{"mixtral", none, "sliding_window 9"},
		{"qwen2", map[string]any{"use_sliding_window": false, "sliding_window": nil, "layer_types": []string{"full_attention", "full_attention"}}, ""},
		{"qwen2", none, "layer_types"},
		{"gemma2", map[string]any{"query_pre_attn_scalar": 16}, ""},
		{"gemma2", none, "query_pre_attn_scalar 24"},
		{"gemma3", map[string]any{"query_pre_attn_scalar": 16, "layer_types": []string{"sliding_attention", "sliding_attention"}}, ""},
		{"gemma3", none, "query_pre_attn_scalar 24"},
		{"smollm3", map[string]any{"no_rope_layers": []int{1, 1}}, ""},
		{"smollm3", none, "no_rope_layers"},
		{"llama3", map[string]any{"max_position_embeddings": 1 << 17, "rope_parameters": map[string]any{
			"rope_type": "llama3", "rope_theta": 500000, "factor": 32, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192,
		}}, ""},
		{"llama_dynamic", none, "rope"},
		{"llama3", none, "rope_scaling"},
		{"qwen3_moe", none, "mlp_only_layers"},
		{"gpt_oss", map[string]any{"swiglu_limit": 7}, ""},
		{"gpt_oss", none, "swiglu_limit 0.5"},
	} {
		dir := copied(t, x.name, x.change)
		if x.says == "" && strings.HasPrefix(x.name, "gemma") { // a file has its norms plus one, which is exact for such elements
			convert(t, dir, dir+"16", Safetensors, "bf16")
			dir += "16"
		}
		tmp := t.TempDir()
		file, back := filepath.Join(tmp, "model.gguf"), filepath.Join(tmp, "back")
		_, err := Run(t.Context(), Options{In: dir, Out: file, To: GGUF, Buffer: make([]byte, MinBuffer)})
		if x.says != "" {
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%s: got %v, want it refused for %q", x.name, err, x.says)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("%s: left %v, %v", x.name, left, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		convert(t, file, back, Safetensors, "")
		for what, path := range map[string]string{"as GGUF": file, "and back": back} {
			got, want := open(t, path), open(t, dir)
			if err := sameConfig(want.Config, got.Config); err != nil {
				t.Errorf("%s %s: %v", x.name, what, err)
				continue
			}
			sameWeights(t, x.name+" "+what, got, want)
		}
	}
}

// TestTurnedBias has biases of queries and keys, whose elements llama.cpp has in another order too.
func TestTurnedBias(t *testing.T) {
	dir := directory(t, "dense", quant.F32)
	set, err := safetensors.OpenSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var c map[string]any
	body, err := os.ReadFile(filepath.Join(dir, configName))
	if err := errors.Join(err, json.Unmarshal(body, &c)); err != nil {
		t.Fatal(err)
	}
	c["attention_bias"] = true
	if body, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	write(t, filepath.Join(out, configName), body)
	infos := set.Tensors()
	for _, i := range set.Tensors() {
		if base, ok := strings.CutSuffix(i.Name, "_proj.weight"); ok && strings.Contains(i.Name, "self_attn") {
			infos = append(infos, safetensors.Info{Name: base + "_proj.bias", DType: safetensors.F32, Shape: i.Shape[:1]})
		}
	}
	w, err := safetensors.Create(filepath.Join(out, safetensors.ModelName), infos, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range w.Tensors() {
		p := make([]byte, i.Bytes)
		if _, ok := set.Tensor(i.Name); ok {
			err = set.ReadInto(i.Name, p)
		} else {
			for k := range arena.F32(p) {
				arena.F32(p)[k] = float32(k) / 8
			}
		}
		if err := errors.Join(err, w.Write(i.Name, p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, back := filepath.Join(out, "model.gguf"), filepath.Join(out, "back")
	convert(t, out, file, GGUF, "")
	same(t, "as GGUF", open(t, file), open(t, out))
	convert(t, file, back, Safetensors, "")
	same(t, "and back", open(t, back), open(t, out))
	f, err := gguf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 64*4)
	if err := f.ReadInto("blk.0.attn_q.bias", p); err != nil {
		t.Fatal(err)
	}
	if x := arena.F32(p); x[0] != 0 || x[1] != 1 || x[2] != 1./8 || x[16] != 2 { // halves of heads of 16 in turns
		t.Errorf("got %v …, want halves of heads in turns", x[:4])
	}
}

// TestPublished reads the tensors of every architecture's directory back out of its weights: the bytes are those of the files, though
// weights lie across, in turns or one after the other in them.
func TestPublished(t *testing.T) {
	entries, err := os.ReadDir(archDir)
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{directory(t, "gpt2", quant.F16), directory(t, "moe", quant.BF16)}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(archDir, e.Name()))
		}
	}
	for _, dir := range dirs {
		o := Options{In: dir}
		x, err := o.open()
		if err != nil {
			t.Fatal(err)
		}
		want := stored(t, dir)
		for _, y := range x.published() {
			if !y.matrix() {
				continue // vectors are widened
			}
			n, _ := y.bytes()
			p := make([]byte, n)
			for _, cut := range []int64{0, n / 3 / y.elemBytes() * y.elemBytes()} { // from the middle of a row on, too
				if err := errors.Join(y.raw(p[:cut], 0), y.raw(p[cut:], cut/y.elemBytes())); err != nil {
					t.Fatalf("%s: %s: %v", dir, y.name, err)
				}
				if got := fmt.Sprint(elemType(y.from), y.shape, string(p)); got != want[y.name] {
					t.Errorf("%s: %s: got %.60q, want %.60q", dir, y.name, got, want[y.name])
				}
			}
		}
		x.Close()
	}
}

func (t *tensor) elemBytes() int64 { return int64(t.from.BlockBytes()) }
