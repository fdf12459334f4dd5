package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"
)

// TestHostileVocabularies encodes long texts with vocabularies that are made to be slow: each within seconds, and within memory
// in proportion to file and text.
func TestHostileVocabularies(t *testing.T) {
	var runs []string // a, aa, aaa, …
	for n := 1; n <= 1000; n++ {
		runs = append(runs, strings.Repeat("a", n))
	}
	same := func(n int, v int32) (list []int32) {
		for range n {
			list = append(list, v)
		}
		return list
	}
	with := func(types []int32, at int, v int32) []int32 { types[at] = v; return types }
	vocab := func(list []string) string {
		var b strings.Builder
		for i, s := range list {
			fmt.Fprintf(&b, `,%q:%d`, s, i)
		}
		return b.String()[1:]
	}
	text := bytes.Repeat([]byte{'a'}, 256<<10)
	scores := make([]float32, 1000)
	for i := range scores {
		scores[i] = float32(i % 7)
	}
	gguf := map[string]*GGUF{
		"control tokens":   {Model: "gpt2", Tokens: runs, Types: same(1000, pieceControl), Merges: []string{"a a"}},
		"user tokens":      {Model: "llama", Tokens: runs, Types: same(1000, pieceUser), Scores: scores},
		"joined parts":     {Model: "llama", Tokens: runs, Scores: scores},
		"unigrams":         {Model: "t5", Tokens: runs, Types: with(same(1000, pieceNormal), 2, pieceUnknown), Scores: scores},
		"whole texts":      {Model: "t5", Tokens: runs, Types: with(same(1000, pieceUser), 2, pieceUnknown), Scores: scores},
		"pieces of a word": {Model: "bert", Tokens: append([]string{"▁"}, runs...)},
	}
	for name, g := range gguf {
		within(t, name, func() {
			tok, err := FromGGUF(g)
			if err != nil {
				if name != "control tokens" { // its merge is of tokens that no text is
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			tok.AppendEncode(nil, text)
		})
	}
	files := map[string]string{
		"WordPiece":     `{"model":{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":100000000,"continuing_subword_prefix":"","vocab":{` + vocab(runs) + `}}}`,
		"BPE":           `{"model":{"type":"BPE","unk_token":"a","vocab":{` + vocab(runs) + `},"merges":["a a","aa a","aa aa","aaa aa"]}}`,
		"a pattern":     `{"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"(a*)*b|\\s+(?!\\S)|(a|aa)+$c"}},"model":{"type":"BPE","unk_token":"a","vocab":{` + vocab(runs) + `},"merges":[]}}`,
		"a replacement": `{"normalizer":{"type":"Replace","pattern":{"Regex":"(a+)+b"},"content":""},"model":{"type":"BPE","unk_token":"a","vocab":{` + vocab(runs) + `},"merges":[]}}`,
	}
	for name, file := range files {
		within(t, name, func() {
			tok, err := Parse(strings.NewReader(file))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			tok.AppendEncode(nil, text)
		})
	}
}

// TestLongTexts encodes a megabyte of one character, and of digits by patterns that count them from the right.
func TestLongTexts(t *testing.T) {
	toks := map[string]*Tokenizer{}
	for _, name := range []string{"deepseek_v3", "llama2", "gguf_phi-3", "t5", "gguf_deepseek-llm"} {
		toks[name] = readFamily(t, name).tokenizer(t)
	}
	f := readFamily(t, "gguf_pre")
	for _, pre := range []string{"tiny_aya", "superbpe"} {
		g := f.gguf(t)
		g.Pre = pre
		var err error
		if toks[pre], err = FromGGUF(g); err != nil {
			t.Fatal(err)
		}
	}
	for name, tok := range toks {
		for _, c := range []string{"a", " ", "\u0301", "日", "1"} {
			if name == "tiny_aya" || name == "superbpe" {
				c = "1"
			}
			text := append(bytes.Repeat([]byte(c), 1<<20/len(c)), 'x')
			within(t, name+" of many "+c, func() { tok.AppendEncode(nil, text) })
			if c == "1" {
				break
			}
		}
	}
}

func within(t *testing.T, name string, f func()) {
	t.Helper()
	start, before := time.Now(), allocated()
	f()
	if took := time.Since(start); took > 20*time.Second*raceFactor {
		t.Errorf("%s: took %v", name, took)
	}
	if n := allocated() - before; n > 256<<20 {
		t.Errorf("%s: allocated %d MiB", name, n>>20)
	}
}

// TestSmallFilesStaySmall: what a short file says about sizes is not believed.
func TestSmallFilesStaySmall(t *testing.T) {
	for name, file := range map[string]string{
		"a large id":       `{"model":{"type":"WordLevel","vocab":{"a":1000000}}}`,
		"a large added id": `{"model":{"type":"WordLevel","vocab":{"a":0}},"added_tokens":[{"id":1000000,"content":"b"}]}`,
		"many spaces":      `{"model":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`,
		"deep sequences":   `{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 3000) + strings.Repeat(`]}`, 3000) + `,"model":{"type":"WordLevel","vocab":{"a":0}}}`,
		"a large piece":    "\x0a\xff\xff\xff\xff\x0f\x0a\x01a",
		"a cut field":      "\x0a\x05\x0a\xff\xff\xff\x7f",
	} {
		before := allocated()
		_, err := Parse(strings.NewReader(file))
		if err == nil && name != "deep sequences" {
			t.Errorf("%s: got no error", name)
		}
		if n := allocated() - before; n > 8<<20 {
			t.Errorf("%s: %d bytes made %d KiB", name, len(file), n>>10)
		}
	}
}

// TestCharsmapBounds: offsets that point outside a charsmap are no matches, and a size that does is refused.
func TestCharsmapBounds(t *testing.T) {
	blob := func(units []uint32, texts string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
		for _, u := range units {
			b = binary.LittleEndian.AppendUint32(b, u)
		}
		return append(b, texts...)
	}
	for _, bad := range [][]byte{{1}, {8, 0, 0, 0, 1}, {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, {3, 0, 0, 0, 1, 2, 3}, {0, 0, 0, 0}} {
		if _, err := newCharsmap(bad); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
	for _, units := range [][]uint32{{0xffffffff}, {0, 0x7fffffff}, {1 << 10, 'a' | 1<<8 | 0x3ff<<20}, {'a' << 10, 0, 0}, {0x3ff << 10}} {
		m, err := newCharsmap(blob(units, "no end"))
		if err != nil {
			t.Fatal(err)
		}
		for c := range 256 {
			m.find([]byte{byte(c), 'a', 0xff}, true)
			m.find([]byte{byte(c), 0, 'a'}, false)
		}
	}
	// The root's children begin at 'a'^1; a leads to unit 1, whose value is at unit 1^2 = 3.
	m, err := newCharsmap(blob([]uint32{('a' ^ 1) << 10, 'a' | 1<<8 | 2<<10, 0, 1<<31 | 2}, "x\x00yz\x00"))
	if err != nil {
		t.Fatal(err)
	}
	if n, text := m.find([]byte("ab"), true); n != 1 || string(text) != "yz" {
		t.Errorf("got %d and %q, want 1 and yz", n, text)
	}
	file := `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString([]byte{9, 0, 0, 0}) + `"},"model":{"type":"WordLevel","vocab":{"a":0}}}`
	if _, err := Parse(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), "precompiled_charsmap") {
		t.Errorf("got %v, want an error about the charsmap", err)
	}
}

// TestNewGGUF reads metadata of every type that files have.
func TestNewGGUF(t *testing.T) {
	meta := map[string]any{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": []string{"<unk>", "<s>", "</s>", "▁", "a", "▁a"}, "tokenizer.ggml.scores": []int32{0, 0, 0, -3, -2, -1},
		"tokenizer.ggml.token_type": []uint32{2, 3, 3, 1, 1, 1}, "tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": int64(2),
		"tokenizer.ggml.unknown_token_id": uint8(0), "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.precompiled_charsmap": []int8{-1}, "general.name": "x",
	}
	get := func(key string) (any, bool) { v, ok := meta[key]; return v, ok }
	g, err := NewGGUF(get)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := FromGGUF(g)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tok.Encode("a</s>a"), tok.EOS()); got != "[5 2 5] 2" {
		t.Errorf("got %s, want [5 2 5] 2", got)
	}
	if before, _ := tok.Frame(); len(before) != 1 || before[0] != 1 {
		t.Errorf("frame: got %v, want the token 1", before)
	}
	for key, v := range map[string]any{
		"tokenizer.ggml.model": 1, "tokenizer.ggml.tokens": "a", "tokenizer.ggml.scores": []string{"a"}, "tokenizer.ggml.token_type": 1.5,
		"tokenizer.ggml.bos_token_id": "1", "tokenizer.ggml.add_bos_token": int32(1), "tokenizer.ggml.precompiled_charsmap": []uint16{1},
	} {
		old := meta[key]
		meta[key] = v
		if _, err := NewGGUF(get); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s of type %T: got %v, want an error with the key", key, v, err)
		}
		meta[key] = old
	}
	for _, bad := range []*GGUF{
		{Model: "llama"}, {Model: "rwkv", Tokens: []string{"a"}}, {Model: "llama", Tokens: []string{"a", "b"}, Scores: []float32{1}},
		{Model: "llama", Tokens: []string{"a", "b"}, Types: []int32{1}}, {Model: "gpt2", Tokens: []string{"a"}},
		{Model: "gpt2", Tokens: []string{"a"}, Merges: []string{""}}, {Model: "gpt2", Tokens: []string{"a"}, Merges: []string{"a b"}},
		{Model: "t5", Tokens: []string{"a"}, Charsmap: []byte{1, 2}},
	} {
		if _, err := FromGGUF(bad); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}

// TestVocabularyIsLetGo: a tokenizer does not keep the metadata that it was made of in memory.
func TestVocabularyIsLetGo(t *testing.T) {
	for _, name := range []string{"gguf_phi-3", "gguf_t5", "gguf_bert-bge", "gguf_command-r"} {
		g := readFamily(t, name).gguf(t)
		kept := weak.Make(g)
		tok, err := FromGGUF(g)
		if err != nil {
			t.Fatal(err)
		}
		g = nil
		runtime.GC()
		if kept.Value() != nil {
			t.Errorf("%s: the metadata is still there", name)
		}
		runtime.KeepAlive(tok)
	}
}

// Normalizers whose steps each make a text longer are refused, and those of real files are not.
func TestNormalizersAreBounded(t *testing.T) {
	grow := strings.Repeat("a", 10)
	for _, c := range []struct {
		name string
		n    normalizers
		want bool
	}{
		{"Llama 2's", normalizers{prefix("▁"), replaced{[]byte(" "), []byte("▁")}}, true},
		{"quotes", normalizers{replaced{[]byte("``"), []byte(`"`)}, replaced{[]byte("''"), []byte(`"`)}}, true},
		{"three of ten", normalizers{replaced{[]byte("a"), []byte(grow)}, replaced{[]byte("a"), []byte(grow)}, replaced{[]byte("a"), []byte(grow)}}, true},
		{"four of ten", normalizers{replaced{[]byte("a"), []byte(grow)}, replaced{[]byte("a"), []byte(grow)}, replaced{[]byte("a"), []byte(grow)}, replaced{[]byte("a"), []byte(grow)}}, false},
		{"a pattern", normalizers{replacedPattern{regexp.MustCompile("a*"), []byte(strings.Repeat("b", 2000))}}, false},
		{"a long prefix", normalizers{prefix(strings.Repeat("a", 2000))}, false},
		{"a prefix that grows", normalizers{prefix(strings.Repeat("a", 200)), replaced{[]byte("a"), []byte(grow)}}, false},
	} {
		if err := c.n.bounded(); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	steps := strings.Repeat(`{"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"},`, 12)
	file := `{"normalizer":{"type":"Sequence","normalizers":[` + strings.TrimSuffix(steps, ",") + `]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`
	if _, err := Parse(strings.NewReader(file)); err == nil || !strings.Contains(err.Error(), "normalizers") {
		t.Errorf("twelve steps of ten: %v", err)
	}
}
