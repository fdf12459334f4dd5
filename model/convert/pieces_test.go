package convert

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/tensor/quant"
)

// pieceModel is a golden's tokenizer.model.
func pieceModel(t *testing.T, name string) []byte {
	t.Helper()
	var golden struct{ Model string }
	unzip(t, name, &golden)
	body, err := base64.StdEncoding.DecodeString(golden.Model)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// piecesMeta writes the keys of a directory's tokenizer.model.
func piecesMeta(dir string, size int) (gguf.Metadata, []string, error) {
	var said []string
	o := &Options{In: dir, Say: func(line string) { said = append(said, line) }}
	meta := gguf.Metadata{}
	err := o.tokens(&meta, &crossing{Model: &weights.Model{Path: dir, Config: model.Config{VocabSize: size}}})
	return meta, said, err
}

// keepSpaces is a NormalizerSpec that, behind a model, says not to take extra spaces out, as Llama's and Gemma's say.
func keepSpaces() []byte { return []byte{3<<3 | 2, 2, 4 << 3, 0} }

// A directory whose only tokenizer is a tokenizer.model has its tokens in a GGUF file, and what other files add to them.
func TestPieces(t *testing.T) {
	for _, x := range []struct {
		name   string
		more   []byte
		config string
		bos    bool
	}{
		{"spm_bpe", keepSpaces(), `"tokenizer_class": "LlamaTokenizer"`, true},
		{"spm_bpe", keepSpaces(), `"tokenizer_class": "LlamaTokenizer", "add_bos_token": false`, false},
		{"spm_unigram", nil, `"tokenizer_class": "AlbertTokenizer"`, false},
	} {
		dir := t.TempDir()
		body := append(plainPieces(t, pieceModel(t, x.name), 1<<20), x.more...)
		write(t, filepath.Join(dir, piecesName), body)
		write(t, filepath.Join(dir, addedName), []byte(`{"<|user|>": 2000, "<|end|>": 2001}`))
		write(t, filepath.Join(dir, tokenizerConfigName), []byte(`{`+x.config+`, "eos_token": "<|end|>", "chat_template": "{{ x }}",
			"added_tokens_decoder": {"0": {"content": "<unk>", "special": true}, "2001": {"content": "<|end|>", "special": true}}}`))
		meta, said, err := piecesMeta(dir, 2010)
		if err != nil || len(said) > 0 {
			t.Errorf("%s: got %v, %q", x.name, err, said)
			continue
		}
		want, err := tokenizer.Parse(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := fromMeta(meta)
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, text := range goldenTexts(t) {
			if !utf8.ValidString(text) || strings.Contains(text, "<|user|>") || strings.Contains(text, "<|end|>") { // as llama.cpp reads them
				continue
			}
			g, w := got.Encode(text), want.Encode(text)
			if x.name == "spm_unigram" { // of equally likely ways to cut, which differ in order, llama.cpp takes another
				slices.Sort(g)
				slices.Sort(w)
			}
			if count++; !slices.Equal(g, w) {
				t.Errorf("%s: %.60q is %v, want %v", x.name, text, g, w)
			}
		}
		if count < 1000 {
			t.Errorf("compared %d texts, want 1000 at least", count)
		}
		if ids := got.Encode("<|user|><|end|>"); !slices.Equal(ids[max(0, len(ids)-2):], []int32{2000, 2001}) {
			t.Errorf("%s: the added tokens are %v", x.name, ids)
		}
		if got.Token(2009) != "[PAD2009]" || got.IsSpecial(2000) || !got.IsSpecial(2001) || got.EOS() != 2001 {
			t.Errorf("%s: got %q, %t, %t and %d", x.name, got.Token(2009), got.IsSpecial(2000), got.IsSpecial(2001), got.EOS())
		}
		if before, _ := got.Frame(); len(before) > 0 != x.bos {
			t.Errorf("%s %s: got %v before a text", x.name, x.config, before)
		}
		if text, _ := meta.Text("tokenizer.chat_template"); text != "{{ x }}" {
			t.Errorf("%s: got the template %q", x.name, text)
		}
	}
}

// What GGUF's readers would cut otherwise is refused.
func TestPiecesRefused(t *testing.T) {
	for _, x := range []struct {
		name, added, want string
		size              int
	}{
		{"spm_bpe", "{}", "it gives other tokens", 2010}, {"spm_unigram_bytes", "{}", "it gives other tokens", 2010}, {"spm_bpe_suffix", "{}", "with spaces behind words", 2010},
		{"spm_unigram", "{}", "the model an embedding of 100", 100}, {"spm_unigram", `{"x": 5000}`, "token 5000 is added", 2010}, {"spm_unigram", "[", "added_tokens.json", 2010},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, piecesName), pieceModel(t, x.name))
		write(t, filepath.Join(dir, addedName), []byte(x.added))
		if _, _, err := piecesMeta(dir, x.size); err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, %s: got %v, want %q", x.name, x.added, err, x.want)
		}
	}
	if _, said, err := piecesMeta(t.TempDir(), 10); err != nil || len(said) != 1 || !strings.Contains(said[0], "no tokenizer") {
		t.Errorf("without any: got %v, %q", err, said)
	}
}

// The whole way: a directory with a tokenizer.model becomes a GGUF file with its tokens.
func TestPiecesConvert(t *testing.T) {
	dir := directory(t, "dense", quant.F32)
	body := pieceModel(t, "spm_bpe")
	small := plainPieces(t, body, 250)
	write(t, filepath.Join(dir, piecesName), append(small, keepSpaces()...))
	out := filepath.Join(t.TempDir(), "out.gguf")
	convert(t, dir, out, GGUF, "")
	tok, err := open(t, out).Tokenizer(0)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tokenizer.Parse(bytes.NewReader(append(small, keepSpaces()...)))
	if err != nil {
		t.Fatal(err)
	}
	const text = "The quick brown fox"
	if got := tok.Encode(text); !slices.Equal(got, want.Encode(text)) || len(got) < 4 {
		t.Errorf("got %v, want %v", got, want.Encode(text))
	}
}

// plainPieces is a tokenizer.model with no more than its first pieces, of which those that are never cut are like others: beside a space that
// is put before a text, GGUF's readers find them elsewhere.
func plainPieces(t *testing.T, body []byte, n int) (out []byte) {
	t.Helper()
	for len(body) > 0 {
		size, k := binary.Uvarint(body[1:])
		end := 1 + k + int(size)
		if body[0]&7 != 2 || k <= 0 || end > len(body) {
			t.Fatal("not a tokenizer.model")
		}
		if body[0] != 1<<3|2 {
			out = append(out, body[:end]...)
		} else if n > 0 {
			out = append(out, body[:end]...)
			if bytes.HasSuffix(out, []byte{3 << 3, 4}) {
				out[len(out)-1] = 1
			}
			n--
		}
		body = body[end:]
	}
	return out
}
