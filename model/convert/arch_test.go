package convert

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/model/safetensors"
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
		{"llama_dynamic", none, "rope"},
		{"llama3", none, "not Llama 3's scaling"},
		{"qwen3_moe", none, "mlp_only_layers"},
		{"gpt_oss", none, "no place in a GGUF file"},
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
