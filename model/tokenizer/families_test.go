package tokenizer

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// family is a tokenizer and what its own library does with the texts; see testdata/families/generate.py.
type family struct {
	File   string // a tokenizer.json
	Model  []byte // a tokenizer.model
	GGUF   map[string]json.RawMessage
	IDs    [][]int32
	Framed [][]int32
	Plain  [][]int32 // every seventh text, special tokens not looked for
	Text   []string  // of every tenth text's tokens
	Pres   map[string]family
}

func readFamily(t testing.TB, name string) (f family) {
	t.Helper()
	unzip(t, "testdata/families/"+name+".json.gz", &f)
	return f
}

func unzip(t testing.TB, path string, v any) {
	t.Helper()
	p, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(r).Decode(v); err != nil {
		t.Fatal(err)
	}
}

// familyTexts are strings.py's texts.
func familyTexts(t testing.TB) (texts [][]byte) {
	t.Helper()
	unzip(t, "testdata/families/texts.json.gz", &texts)
	if len(texts) < 1000 {
		t.Fatalf("got %d texts, want at least 1000", len(texts))
	}
	return texts
}

// readable are those that llama.cpp reads: it aborts on characters past U+10FFFF.
func readable(texts [][]byte) (kept [][]byte) {
	for _, b := range texts {
		if !bytes.Contains(b, []byte("\xf4\x90")) && !bytes.Contains(b, []byte("\xf5\x80")) {
			kept = append(kept, b)
		}
	}
	return kept
}

// wantFamily compares a tokenizer with its golden.
func wantFamily(t *testing.T, tok *Tokenizer, f family, texts [][]byte) {
	t.Helper()
	if len(f.IDs) != len(texts) {
		t.Fatalf("got goldens of %d texts, want %d", len(f.IDs), len(texts))
	}
	bad := 0
	differ := func(what string, text []byte, got, want any) {
		if bad++; bad <= 3 {
			t.Errorf("%s of %q:\n got %v\nwant %v", what, text, got, want)
		}
	}
	before, after := tok.Frame()
	for i, text := range texts {
		if tok.bare { // what Python's users give it
			text = appendValid(nil, text)
		}
		got := tok.AppendEncode(nil, text)
		if !slices.Equal(got, f.IDs[i]) {
			differ("tokens", text, got, f.IDs[i])
		}
		if i < len(f.Framed) {
			if got := slices.Concat(before, got, after); !slices.Equal(got, f.Framed[i]) {
				differ("framed tokens", text, got, f.Framed[i])
			}
		}
		if i%7 == 0 && i/7 < len(f.Plain) {
			if got := tok.AppendEncodePlain(nil, text); !slices.Equal(got, f.Plain[i/7]) {
				differ("plain tokens", text, got, f.Plain[i/7])
			}
		}
		if i%10 == 0 && i/10 < len(f.Text) {
			if got := string(appendValid(nil, tok.Decode(f.IDs[i]))); got != f.Text[i/10] {
				differ("text", text, got, f.Text[i/10])
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d differ", bad, len(texts))
	}
}

func TestFamilies(t *testing.T) {
	texts := familyTexts(t)
	paths, err := filepath.Glob("testdata/families/*.json.gz")
	if err != nil || len(paths) < 25 {
		t.Fatalf("got %d files and %v, want at least 25", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		if name == "texts" || name == "gguf_pre" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := readFamily(t, name)
			tok, texts := f.tokenizer(t), texts
			switch {
			case f.GGUF != nil:
				texts = readable(texts)
			case f.Model != nil:
				wantPlain(t, tok, f, texts)
				return
			}
			wantFamily(t, tok, f, texts)
		})
	}
}

// wantPlain is wantFamily for sentencepiece, which does not look for control tokens, and prints the unknown one in its own way.
func wantPlain(t *testing.T, tok *Tokenizer, f family, texts [][]byte) {
	t.Helper()
	bad := 0
	for i, text := range texts {
		text = appendValid(nil, text)
		if got := tok.AppendEncodePlain(nil, text); !slices.Equal(got, f.IDs[i]) {
			if bad++; bad <= 3 {
				t.Errorf("tokens of %q:\n got %v\nwant %v", text, got, f.IDs[i])
			}
		}
		if i%10 == 0 && i/10 < len(f.Text) {
			if got, want := string(appendValid(nil, tok.Decode(f.IDs[i]))), strings.ReplaceAll(f.Text[i/10], " ⁇ ", "<unk>"); got != want {
				if bad++; bad <= 3 {
					t.Errorf("text of %v:\n got %q\nwant %q", f.IDs[i], got, want)
				}
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d differ", bad, len(texts))
	}
}

func (f family) tokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	var tok *Tokenizer
	var err error
	switch {
	case f.GGUF != nil:
		tok, err = FromGGUF(f.gguf(t))
	case f.Model != nil:
		tok, err = Parse(bytes.NewReader(f.Model))
	default:
		tok, err = Parse(strings.NewReader(f.File))
	}
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// gguf is the metadata as a reader of GGUF files hands it over.
func (f family) gguf(t testing.TB) *GGUF {
	t.Helper()
	g := &GGUF{}
	var charsmap string
	for key, p := range map[string]any{
		"model": &g.Model, "pre": &g.Pre, "tokens": &g.Tokens, "scores": &g.Scores, "token_type": &g.Types, "merges": &g.Merges,
		"bos_token_id": &g.BOS, "eos_token_id": &g.EOS, "unknown_token_id": &g.Unknown, "seperator_token_id": &g.Separator,
		"add_bos_token": &g.AddBOS, "add_eos_token": &g.AddEOS, "add_space_prefix": &g.AddSpacePrefix,
		"remove_extra_whitespaces": &g.RemoveExtraWhitespaces, "precompiled_charsmap": &charsmap,
	} {
		if v, ok := f.GGUF["tokenizer.ggml."+key]; ok {
			if err := json.Unmarshal(v, p); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
	}
	if v, ok := f.GGUF["general.name"]; ok {
		if err := json.Unmarshal(v, &g.Name); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if g.Charsmap, err = base64.StdEncoding.DecodeString(charsmap); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGGUFPre compares every pattern that llama.cpp has a name for.
func TestGGUFPre(t *testing.T) {
	all := familyTexts(t)
	var texts [][]byte
	for i := 0; i < len(all); i += 4 {
		texts = append(texts, all[i])
	}
	texts = readable(texts)
	f := readFamily(t, "gguf_pre")
	seen := map[string]bool{}
	for pre, want := range f.Pres {
		t.Run(pre, func(t *testing.T) {
			g := f.gguf(t)
			g.Pre = pre
			tok, err := FromGGUF(g)
			if err != nil {
				t.Fatal(err)
			}
			wantFamily(t, tok, want, texts)
		})
		p, err := ggufPattern(pre)
		if err != nil {
			t.Fatal(err)
		}
		seen[p.key] = true
	}
	for _, p := range ggufPres() {
		if !p.characters && !seen[p.key] {
			t.Errorf("no golden has the pattern of %s", p.names)
		}
	}
}

// TestGGUFNames: every name is known once, each pattern compiles, and an unknown one is refused by name.
func TestGGUFNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range ggufPres() {
		for name := range strings.FieldsSeq(p.names) {
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
		}
		for _, pattern := range p.patterns {
			if _, err := ggufStage(pattern, knownAlternatives()); err != nil {
				t.Errorf("%s: %v", p.key, err)
			}
		}
	}
	if len(seen) < 75 {
		t.Errorf("got %d names, want at least 75", len(seen))
	}
	_, err := FromGGUF(&GGUF{Model: "gpt2", Pre: "gpt-99", Tokens: []string{"a"}, Merges: []string{"a a"}})
	if err == nil || !strings.Contains(err.Error(), `"gpt-99"`) {
		t.Errorf("got %v, want an error with the name", err)
	}
}
