package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	goldens "loadline/internal/golden"
)

// TestInspectTokens looks at the published SmolLM2 and at the directory that convert makes of it: both say by name what begins and ends a
// text, and that there is a chat template.
func TestInspectTokens(t *testing.T) {
	file := goldens.SmolLM2(t)
	dir := filepath.Join(t.TempDir(), "smollm2")
	document(t, &convertDocument{}, codeDone, "convert", file, dir, "--to", "safetensors", "--type", "f16")
	ends := []inspectToken{{2, "<|im_end|>"}, {0, "<|endoftext|>"}}
	for _, path := range []string{file, dir} {
		var d inspectDocument
		document(t, &d, codeDone, "inspect", path)
		x := d.Tokenizer
		if x == nil || x.EOS != 2 || !slices.Equal(x.Ends, ends) || x.BOS == nil || *x.BOS != (inspectToken{1, "<|im_start|>"}) || x.AddsBOS || x.Template < 100 {
			t.Errorf("%s: got %+v, want the ends %v, <|im_start|> and a template", path, x, ends)
		}
		r := loadline(t, "inspect", path)
		for _, want := range []string{"ends of text: <|im_end|> (2), <|endoftext|> (0)\n", "; <|im_start|> (1) begins a text, and is not put before a prompt; ", "\nchat template: "} {
			if !strings.Contains(r.out, want) {
				t.Errorf("%s: got\n%s\nwant %q in it", path, r.out, want)
			}
		}
	}
	var d inspectDocument
	document(t, &d, codeDone, "inspect", dir)
	var g struct {
		EOS []int `json:"eos_token_id"`
		BOS int   `json:"bos_token_id"`
	}
	var c struct {
		EOS any `json:"eos_token_id"`
		BOS int `json:"bos_token_id"`
	}
	if err := json.Unmarshal(d.Generation, &g); err != nil || !slices.Equal(g.EOS, []int{2, 0}) || g.BOS != 1 {
		t.Errorf("got generation_config.json %s: %v", d.Generation, err)
	}
	if err := json.Unmarshal(d.Config, &c); err != nil || c.BOS != 1 || c.EOS == nil {
		t.Errorf("got config.json %s: %v", d.Config, err)
	}
	// A tokenizer alone has its own word for the end.
	var alone inspectDocument
	document(t, &alone, codeDone, "inspect", filepath.Join(dir, "tokenizer.json"))
	if alone.Tokenizer == nil || alone.Tokenizer.EOS != 0 || len(alone.Tokenizer.Ends) != 1 || alone.Tokenizer.BOS != nil {
		t.Errorf("tokenizer.json: got %+v", alone.Tokenizer)
	}
	// An architecture that is not known has a tokenizer all the same.
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type":"rwkv"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	var strange inspectDocument
	document(t, &strange, codeDone, "inspect", dir)
	if x := strange.Tokenizer; x == nil || x.EOS != 2 || x.BOS == nil || x.BOS.ID != 1 || x.Template < 100 {
		t.Errorf("an architecture that is not known: got %+v", x)
	}
}
