package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"loadline/data/corpus"
	"loadline/model/tokenizer"
)

// train returns a small tokenizer trained on the beginning of the corpus, and that text.
func train(t testing.TB) (*tokenizer.Tokenizer, []byte) {
	t.Helper()
	text, err := io.ReadAll(io.LimitReader(corpus.Text(), 100_000))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Train(bytes.NewReader(text), 512, tokenizer.TrainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return tok, text
}

// wide returns the tokenizer with a token whose id does not fit in two bytes.
func wide(t testing.TB, tok *tokenizer.Tokenizer) *tokenizer.Tokenizer {
	t.Helper()
	var b bytes.Buffer
	if err := tok.Save(&b); err != nil {
		t.Fatal(err)
	}
	file := strings.Replace(b.String(), `"added_tokens":[`, `"added_tokens":[{"id":70000,"content":"<|wide|>","special":true},`, 1)
	w, err := tokenizer.Parse(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestTokenize(t *testing.T) {
	narrow, text := train(t)
	text = append(text, "one<|wide|><|endoftext|>two"...)
	for _, tok := range []*tokenizer.Tokenizer{narrow, wide(t, narrow)} {
		dir := t.TempDir()
		in, out := filepath.Join(dir, "text"), filepath.Join(dir, "tokens")
		if err := os.WriteFile(in, text, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := tokenizeFile(t, out, in, "", tok)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := tok.AppendEncode(nil, text)
		if int(n) != len(want) || f.Len() != len(want) || f.VocabSize() != tok.VocabSize() {
			t.Errorf("got %d and %d tokens of %d, want %d of %d", n, f.Len(), f.VocabSize(), len(want), tok.VocabSize())
		}
		got := make([]int32, len(want))
		if err := f.Read(got, 0); err != nil || !slices.Equal(got, want) {
			t.Errorf("the tokens differ (%v)", err)
		}
		for at := 0; at < len(want); at += 997 {
			part := make([]int32, min(13, len(want)-at))
			if err := f.Read(part, at); err != nil || !slices.Equal(part, want[at:at+len(part)]) {
				t.Errorf("from %d: got %v (%v), want %v", at, part, err, want[at:at+len(part)])
			}
		}
		if st, err := os.Stat(out); err != nil || st.Size() != headerBytes+n*int64(TokenBytes(tok.VocabSize())) {
			t.Errorf("file: got %v (%v), want %d tokens of %d bytes", st, err, n, TokenBytes(tok.VocabSize()))
		}
		if d, err := os.ReadDir(dir); err != nil || len(d) != 2 {
			t.Errorf("left %v (%v), want the text and the tokens", d, err)
		}
	}
}

// TestTokenizeHoldsLittle tokenises 16 MB: all it allocates, and so what it ever holds, stays below 1 MiB.
func TestTokenizeHoldsLittle(t *testing.T) {
	tok, _ := train(t)
	var parts []io.Reader
	for range 12 {
		parts = append(parts, corpus.Text())
	}
	out := filepath.Join(t.TempDir(), "tokens")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := Tokenize(out, io.MultiReader(parts...), tok)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(1<<20); got > limit {
		t.Errorf("allocated %d bytes, want at most %d", got, limit)
	}
	f, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := newStream(t, f, Options{Batch: 8, Seq: 256, Seed: 1})
	tokens, targets := make([]int32, 8*256), make([]int32, 8*256)
	if got := testing.AllocsPerRun(200, func() {
		if err := s.Next(tokens, targets); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("Next allocates %v times, want 0", got)
	}
	t.Logf("%d tokens from %d bytes, %d allocated", n, 12*corpus.Bytes, after.TotalAlloc-before.TotalAlloc)
}

func TestTokenizeRefuses(t *testing.T) {
	tok, _ := train(t)
	bad := errors.New("bad disk")
	for _, c := range []struct {
		name string
		text io.Reader
		want string
	}{
		{"empty", strings.NewReader(""), "data: the text is empty"},
		{"unreadable", io.MultiReader(strings.NewReader("text"), iotest.ErrReader(bad)), "bad disk"},
	} {
		dir := t.TempDir()
		if _, err := Tokenize(filepath.Join(dir, "tokens"), c.text, tok); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
		if d, err := os.ReadDir(dir); err != nil || len(d) != 0 {
			t.Errorf("%s: left %v (%v), want nothing", c.name, d, err)
		}
	}
	dir := t.TempDir()
	if _, err := Tokenize(filepath.Join(dir, "none", "tokens"), strings.NewReader("x"), tok); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nowhere to write: got %v", err)
	}
}

// tokenFile returns the bytes of a token file with a header of these numbers and n bytes of tokens.
func tokenFile(width, vocab uint32, tokens uint64, n int) []byte {
	p := binary.LittleEndian.AppendUint32([]byte(fileMagic), width)
	p = binary.LittleEndian.AppendUint32(p, vocab)
	p = binary.LittleEndian.AppendUint64(p, tokens)
	return append(p, bytes.Repeat([]byte{9, 0}, n/2)...)
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too short for a token file"},
		{"short", tokenFile(2, 10, 0, 0)[:23], "too short for a token file"},
		{"text", []byte("To be, or not to be, that is the question"), "not a token file"},
		{"width", tokenFile(3, 10, 0, 0), "a token has 3 bytes and the vocabulary 10 tokens"},
		{"width of the vocabulary", tokenFile(2, 1<<17, 0, 0), "a token has 2 bytes and the vocabulary 131072 tokens"},
		{"cut", tokenFile(2, 10, 4, 6), "the header says 4 tokens of 2 bytes, the file has 6 bytes for them"},
		{"goes on", tokenFile(2, 10, 4, 10), "the file has 10 bytes for them"},
		{"overflow", tokenFile(2, 10, 1<<63, 0), "the header says 9223372036854775808 tokens"},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error with %q and the path", c.name, err, c.want)
		}
	}
	path := filepath.Join(dir, "large token")
	if err := os.WriteFile(path, tokenFile(2, 9, 4, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Read(make([]int32, 2), 1); err == nil || !strings.Contains(err.Error(), "is 9, the vocabulary has 9") {
		t.Errorf("token outside the vocabulary: got %v", err)
	}
	for _, src := range []Source{f, counting(4)} {
		if err := src.Read(make([]int32, 2), 3); err == nil || !strings.Contains(err.Error(), "want 2 tokens from 3 on, there are 4") {
			t.Errorf("%T past the end: got %v", src, err)
		}
	}
	if err := os.Truncate(path, headerBytes+2); err != nil {
		t.Fatal(err)
	}
	if err := f.Read(make([]int32, 2), 1); err == nil || !strings.Contains(err.Error(), "reading tokens 1 to 3") {
		t.Errorf("file cut after it was opened: got %v", err)
	}
}
