package convert

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"loadline/model/gguf"
	"loadline/model/tokenizer"
)

const familiesDir = "../tokenizer/testdata/families"

// unzip reads a golden of the tokenizers.
func unzip(t *testing.T, name string, into any) {
	t.Helper()
	f, err := os.Open(filepath.Join(familiesDir, name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatal(err)
	}
}

// goldenTexts are the texts that the goldens encode.
func goldenTexts(t *testing.T) (texts []string) {
	t.Helper()
	var coded []string
	unzip(t, "texts", &coded)
	for _, c := range coded {
		p, err := base64.StdEncoding.DecodeString(c)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(p))
	}
	return texts
}

// metaOf writes a tokenizer.json as keys.
func metaOf(t *testing.T, body []byte) (gguf.Metadata, *tokenizer.Tokenizer, error) {
	t.Helper()
	want, err := tokenizer.Parse(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	v := &vocabulary{f: &file{}}
	if err := json.Unmarshal(body, v.f); err != nil {
		t.Fatal(err)
	}
	if err := v.read(); err != nil {
		return nil, nil, err
	}
	var meta gguf.Metadata
	v.specials(&meta, want, nil)
	return meta, want, v.write(&meta, want)
}

// TestFamilies writes the tokenizers of known models as keys of a GGUF file, and those as a tokenizer.json again. Both give the
// tokens of the first on all texts, but for those that its normalizer changes, which GGUF has no word for. (gpt-oss's with all its
// merges is gpt-4o to llama.cpp; cut as it is here, that gives other tokens.)
func TestFamilies(t *testing.T) {
	texts := goldenTexts(t)
	known := map[string]int{
		"gemma":  8, // texts with </s> and <end_of_turn>, which llama.cpp takes for control tokens whatever a file says
		"gptoss": 1,
	}
	for name, pre := range map[string]string{
		"gpt2": "gpt-2", "llama3": "llama-bpe", "qwen3": "qwen2", "gptoss": "granite-embed-multi-97m", "llama2": "default", "gemma": "default",
	} {
		var g struct {
			File string    `json:"file"`
			IDs  [][]int32 `json:"ids"`
		}
		unzip(t, name, &g)
		meta, want, err := metaOf(t, []byte(g.File))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, _ := meta.Text("tokenizer.ggml.pre"); got != pre {
			t.Errorf("%s: got tokenizer.ggml.pre %q, want %q", name, got, pre)
		}
		inGGUF, err := fromMeta(meta)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, err := tokenizerFile(meta)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := tokenizer.Parse(bytes.NewReader(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		differ := 0
		for i, text := range texts {
			if !utf8.ValidString(text) || strings.Contains(g.File, `"NFC"`) && !norm.NFC.IsNormalString(text) {
				continue // how those are read, GGUF cannot say
			}
			if !slices.Equal(inGGUF.Encode(text), g.IDs[i]) {
				differ++
			}
			if !slices.Equal(back.Encode(text), inGGUF.Encode(text)) {
				t.Errorf("%s: %.60q: the file made of the GGUF file's keys gives %s, want %s", name, text, some(back.Encode(text)), some(inGGUF.Encode(text)))
			}
		}
		if differ != known[name] {
			t.Errorf("%s: %d texts differ in GGUF, want %d", name, differ, known[name])
		}
		if b, _ := back.Frame(); !slices.Equal(b, first32(want)) {
			t.Errorf("%s: got %d before a text, want %d", name, b, first32(want))
		}
	}
}

func first32(t *tokenizer.Tokenizer) []int32 {
	before, _ := t.Frame()
	return before
}
