package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/internal/bounded"
)

func TestLoadRefuses(t *testing.T) {
	good := readFile(t, "testdata/trained.json")
	model := func(f map[string]any) map[string]any { return f["model"].(map[string]any) }
	vocab := func(f map[string]any) map[string]any { return model(f)["vocab"].(map[string]any) }
	for _, c := range []struct {
		name string
		edit func(f map[string]any)
		want string
	}{
		{"no model", func(f map[string]any) { delete(f, "model") }, `file has no "model"`},
		{"model", func(f map[string]any) { model(f)["type"] = "Markov" }, `a model of type "Markov" is not supported`},
		{"byte-level words", func(f map[string]any) { model(f)["type"] = "WordPiece" }, `before a model of type "WordPiece" is not supported`},
		{"normalizer", func(f map[string]any) { f["normalizer"] = map[string]any{"type": "Rot13"} }, `a normalizer of type "Rot13" is not supported`},
		{"pattern in a normalizer", func(f map[string]any) {
			f["normalizer"] = map[string]any{"type": "Replace", "pattern": map[string]any{"Regex": "(a)\\1"}}
		}, `normalizer pattern "(a)\\1" is not supported`},
		{"pre-tokenizer", func(f map[string]any) { f["pre_tokenizer"] = map[string]any{"type": "UnicodeScripts"} }, `pre_tokenizer of type "UnicodeScripts"`},
		{"pattern", func(f map[string]any) {
			f["pre_tokenizer"] = map[string]any{"type": "Split", "behavior": "Isolated", "pattern": map[string]any{"Regex": "a(?=b)"}}
		}, `split pattern "a(?=b)" is not supported`},
		{"possessive pattern", func(f map[string]any) {
			f["pre_tokenizer"] = map[string]any{"type": "Split", "behavior": "Isolated", "pattern": map[string]any{"Regex": "a++b"}}
		}, `possessive repetition`},
		{"post-processor", func(f map[string]any) { f["post_processor"] = map[string]any{"type": "Other"} }, `post_processor of type "Other"`},
		{"template", func(f map[string]any) { f["post_processor"] = map[string]any{"type": "TemplateProcessing"} }, "a template without the text"},
		{"decoder", func(f map[string]any) { f["decoder"] = map[string]any{"type": "CTC"} }, `decoder of type "CTC"`},
		{"dropout", func(f map[string]any) { model(f)["dropout"] = 0.1 }, "BPE dropout"},
		{"suffix", func(f map[string]any) { model(f)["end_of_word_suffix"] = "</w>" }, "a prefix or suffix of byte-level words"},
		{"prefix", func(f map[string]any) { model(f)["continuing_subword_prefix"] = "##" }, "a prefix or suffix of byte-level words"},
		{"negative id", func(f map[string]any) { vocab(f)["a"] = -1 }, `"a" has id -1, want 0 to 1048575`},
		{"huge id", func(f map[string]any) { vocab(f)["a"] = 1 << 40 }, `"a" has id 1099511627776`},
		{"fractional id", func(f map[string]any) { vocab(f)["a"] = 1.5 }, "not a tokenizer.json"},
		{"huge added id", func(f map[string]any) { f["added_tokens"].([]any)[0].(map[string]any)["id"] = 1 << 20 }, "has id 1048576"},
		{"empty added token", func(f map[string]any) {
			f["added_tokens"] = append(f["added_tokens"].([]any), map[string]any{"id": 640, "content": ""})
		}, "added token 640 is empty"},
		{"long added token", func(f map[string]any) {
			f["added_tokens"] = append(f["added_tokens"].([]any), map[string]any{"id": 640, "content": strings.Repeat("x", 1025)})
		}, "has 1025 bytes, want at most 1024"},
		{"same id", func(f map[string]any) { vocab(f)["a"] = vocab(f)["b"] }, "two tokens of the vocabulary have id"},
		{"added in the way", func(f map[string]any) { f["added_tokens"].([]any)[0].(map[string]any)["id"] = 5 }, "has the id 5 of another token"},
		{"not the alphabet", func(f map[string]any) { vocab(f)["日"] = 640 }, `"日" of the vocabulary is not spelled in the byte alphabet`},
		{"merge of three", func(f map[string]any) { model(f)["merges"] = []any{[]string{"a", "b", "c"}} }, "merge 0 has 3 tokens, want 2"},
		{"merge of one", func(f map[string]any) { model(f)["merges"] = []any{"ab"} }, `merge 0, "ab", is not two tokens`},
		{"unknown merge", func(f map[string]any) { model(f)["merges"] = []any{"q Q"} }, `merge 0, "q" + "Q", uses a token that is not in the vocabulary`},
		{"merge twice", func(f map[string]any) { m := model(f)["merges"].([]any); model(f)["merges"] = append(m, m[0]) }, "appears twice"},
	} {
		var f map[string]any
		if err := json.Unmarshal(good, &f); err != nil {
			t.Fatal(err)
		}
		c.edit(f)
		p, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(bytes.NewReader(p))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", c.name, err, c.want)
		}
	}
}

func TestLoadRefusesNonsense(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, want string }{
		"empty":  {"", "not a tokenizer.json"},
		"text":   {"To be or not to be", "not a tokenizer.json"},
		"latin1": {"{\"model\":{\"type\":\"\xe9\"}}", "not valid UTF-8"},
		"large":  {strings.Repeat(" ", maxFileBytes+1), "larger than 64 MiB"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q and the path", name, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want one that says so", err)
	}
}

// small cuts a real tokenizer.json down to its smallest ids, so that its stages are what an engine changes.
func small(t testing.TB, file string) []byte {
	var f map[string]any
	if err := json.Unmarshal([]byte(file), &f); err != nil {
		t.Fatal(err)
	}
	const most = 300
	m := f["model"].(map[string]any)
	switch vocab := m["vocab"].(type) {
	case map[string]any:
		maps.DeleteFunc(vocab, func(_ string, id any) bool { return id.(float64) >= most })
	case []any:
		m["vocab"] = vocab[:min(most, len(vocab))]
	}
	if merges, ok := m["merges"].([]any); ok {
		m["merges"] = merges[:min(10, len(merges))]
	}
	if added, ok := f["added_tokens"].([]any); ok {
		f["added_tokens"] = added[:min(10, len(added))]
	}
	p, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// FuzzTokenizerJSON checks that any file either is refused or gives a tokenizer that keeps its promises.
func FuzzTokenizerJSON(f *testing.F) {
	for _, file := range []string{
		`{"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"added_tokens":[{"id":0,"content":"<s>","special":true,"rstrip":true}],
"model":{"type":"BPE","byte_fallback":true,"fuse_unk":true,"unk_token":"<unk>","vocab":{"<s>":0,"<unk>":1,"▁":2,"a":3,"▁a":4,"<0x41>":5},"merges":["▁ a"]},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}}`,
		`{"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"##b":2,"ab":3}},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"post_processor":{"type":"BertProcessing","sep":["a",1],"cls":["b",2]}}`,
		`{"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAABAAAgAA=="},"pre_tokenizer":{"type":"Metaspace","prepend_scheme":"first"},"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["▁",-1.5],["a",-2],["▁a",-1e3]]},"decoder":{"type":"Metaspace"}}`,
		`{"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\d+|\\s+(?!\\S)"},"behavior":"MergedWithNext","invert":true},{"type":"Punctuation"},{"type":"Digits"},{"type":"Whitespace"}]},"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0,"1":1}},"decoder":{"type":"BPEDecoder","suffix":"</w>"}}`,
	} {
		f.Add([]byte(file), []byte("a  ab 1\xff <s>  b▁"))
	}
	for _, name := range []string{"llama2", "llama3", "bert", "clip", "falcon", "roberta"} {
		f.Add(small(f, readFamily(f, name).File), []byte("To be, or  not to be: 1234 <s>\xff"))
	}
	f.Fuzz(func(t *testing.T, file, text []byte) {
		var tok *Tokenizer
		var err error
		bounded.Run(t, len(file), 4<<20, 2048, func() { tok, err = Parse(bytes.NewReader(file)) })
		if err != nil {
			return
		}
		var ids []int32
		bounded.Run(t, len(file)+len(text), 4<<20, 4096, func() { ids = tok.AppendEncode(nil, text) })
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d is outside the vocabulary of %d", id, tok.VocabSize())
			}
		}
		if !tok.bare {
			return
		}
		if got := tok.Decode(ids); !bytes.Equal(got, text) {
			t.Fatalf("got %q, want %q", got, text)
		}
		var saved bytes.Buffer
		if err := tok.Save(&saved); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(&saved)
		if err != nil {
			t.Fatalf("what it saved is refused: %v", err)
		}
		wantSame(t, again, tok)
	})
}

// TestBytesWithoutTokens leaves a byte out of the vocabulary, as trainers do that were not given the whole alphabet. The ids are those
// that tokenizers 0.23 gives for the same file.
func TestBytesWithoutTokens(t *testing.T) {
	for _, x := range []struct {
		unknown any
		want    []int32
	}{
		{nil, []int32{65, 66, 221, 40, 421, 79}},
		{"a", []int32{65, 65, 66, 221, 40, 421, 79, 487}},
	} {
		var f map[string]any
		body, err := os.ReadFile("testdata/trained.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &f); err != nil {
			t.Fatal(err)
		}
		model := f["model"].(map[string]any)
		delete(model["vocab"].(map[string]any), "!")
		model["unk_token"] = x.unknown
		if body, err = json.Marshal(f); err != nil {
			t.Fatal(err)
		}
		tok, err := Parse(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := tok.Encode("a!b Hello!!"); !slices.Equal(got, x.want) {
			t.Errorf("unknown token %v: got %d, want %d", x.unknown, got, x.want)
		}
	}
}
