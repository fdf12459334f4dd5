package data

import (
	"bytes"
	"context"
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

	"loadline/model/tokenizer"
)

// tokenizeFile makes a token file of a file of documents.
func tokenizeFile(t testing.TB, out, path, field string, tok *tokenizer.Tokenizer) (int64, error) {
	t.Helper()
	d, err := OpenDocuments(t.Context(), path, field)
	if err != nil {
		return 0, err
	}
	n, err := TokenizeDocuments(out, d, tok)
	return n, errors.Join(err, d.Close())
}

// file writes a file of a test.
func file(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tokensOf reads a whole token file.
func tokensOf(t testing.TB, path string) []int32 {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ids := make([]int32, f.Len())
	if err := f.Read(ids, 0); err != nil {
		t.Fatal(err)
	}
	return ids
}

// Documents of lines and rows are separated; a text is what it is.
func TestTokenizeDocuments(t *testing.T) {
	tok, _ := train(t)
	long := strings.Repeat("A long document, in which words follow words. ", 2000) // more than is held at once
	lines := `{"text":"one two","body":"x"}` + "\n\n" + `{"text":""}` + "\n" + `{"text":null}` + "\n" + `{"text":"` + long + `"}` + "\n" + `{"text":"three<|endoftext|>"}`
	var want []int32
	for _, doc := range []string{"one two", long, "three<|endoftext|>"} {
		want = append(tok.AppendEncode(want, []byte(doc)), tok.EOS())
	}
	for _, c := range []struct {
		path, field string
		want        []int32
	}{
		{file(t, "a.jsonl", lines), "", want},
		{file(t, "a.NDJSON", lines), "text", want},
		{file(t, "a.json", lines), "", want},
		{file(t, "b.jsonl", `{"text":7,"body":"x"}`), "body", append(tok.Encode("x"), tok.EOS())},
		{file(t, "a.txt", lines), "", tok.Encode(lines)},
		{file(t, "a", lines), "", tok.Encode(lines)},
		{"parquet/testdata/required.parquet", "", func() (ids []int32) {
			for i := range 10 {
				ids = append(tok.AppendEncode(ids, []byte{byte('0' + i)}), tok.EOS())
			}
			return ids
		}()},
	} {
		out := filepath.Join(t.TempDir(), "tokens")
		n, err := tokenizeFile(t, out, c.path, c.field, tok)
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if got := tokensOf(t, out); int(n) != len(got) || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %d tokens, %d in the file, want %d others", c.path, n, len(got), len(c.want))
		}
	}
}

// A tokenizer without an end of text has an empty line between documents.
func TestTokenizeDocumentsWithoutEnd(t *testing.T) {
	tok, _ := train(t)
	var b bytes.Buffer
	if err := tok.Save(&b); err != nil {
		t.Fatal(err)
	}
	bare, err := tokenizer.Parse(strings.NewReader(strings.ReplaceAll(b.String(), tokenizer.EndOfText, "<|other|>")))
	if err != nil || bare.EOS() >= 0 {
		t.Fatalf("got an end of text %d (%v), want none", bare.EOS(), err)
	}
	out := filepath.Join(t.TempDir(), "tokens")
	if _, err := tokenizeFile(t, out, file(t, "a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}"), "", bare); err != nil {
		t.Fatal(err)
	}
	want := append(append(bare.Encode("a"), bare.Encode("\n\n")...), append(bare.Encode("b"), bare.Encode("\n\n")...)...)
	if got := tokensOf(t, out); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A tokenizer is trained on all documents, with an end of text behind each.
func TestJoined(t *testing.T) {
	for path, want := range map[string]string{
		file(t, "a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\"}\n{\"text\":\"bc\"}"): "a<|endoftext|><|endoftext|>bc<|endoftext|>",
		file(t, "a.txt", "a\nbc"): "a\nbc",
	} {
		d, err := OpenDocuments(t.Context(), path, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(iotest.OneByteReader(d.Joined())); err != nil || string(got) != want {
			t.Errorf("%s: got %q (%v), want %q", path, got, err, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What cannot be read is refused with the place and what to do, and leaves nothing.
func TestDocumentsRefused(t *testing.T) {
	tok, _ := train(t)
	parquet, err := os.ReadFile("parquet/testdata/snappy.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text, field string
		want, do          string
	}{
		{"a.txt", "", "", "it is empty", "name a file with text"},
		{"a.jsonl", "\n\n", "", "data: the text is empty", ""},
		{"a.jsonl", "{\"text\":\"x\"}\n{\"text\":\"\xff\"}\n", "", "line 2: it is not UTF-8", "write it in UTF-8"},
		{"a.jsonl", "{\"text\":\"ends in half a character \xe4\xb8\"}\n", "", "line 1: it is not UTF-8", "write it in UTF-8"},
		{"a.jsonl", "{\"text\":\"x\"}\n\n{\"text\":", "", "line 3: the line ends inside an object", "mend the file, or leave the line out"},
		{"a.jsonl", "{\"text\":\"cut", "", "line 1: the line ends inside an object", "mend the file"},
		{"a.jsonl", "{\"content\":\"x\"}", "", `line 1: there is no field "text": its fields are "content"`, "--data-field NAME"},
		{"a.json", " [{\"text\":\"x\"}]", "", "it is one array", "jq -c"},
		{"a.txt", "To be", "text", `it is plain text, which has no field "text"`, "leave --data-field out"},
		{"a.parquet", "To be", "", "it is not a Parquet file", "name a Parquet file"},
		{"a.txt", string(parquet), "content", `there is no column "content": its columns of strings are text`, "--data-field NAME"},
		{"a.parquet", string(parquet[:len(parquet)-4]), "", "its end is missing", "pyarrow"},
		{"a.jsonl", "\x1f\x8b\x08", "", "it is compressed with gzip", "gunzip"},
		{"a.bin", "GGUF\x03", "", "a model in GGUF", "--model takes models"},
		{"a.bin", string(tokenFile(2, 10, 0, 0)), "", "it is a token file", "the text that it was made from"},
	} {
		out := filepath.Join(t.TempDir(), "tokens")
		path := file(t, c.name, c.text)
		_, err := tokenizeFile(t, out, path, c.field, tok)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || c.do != "" && !strings.Contains(err.Error(), path) {
			t.Errorf("%q: got %v, want one line with %q and the file", c.text, err, c.want)
			continue
		}
		var told *FileError
		if errors.As(err, &told) != (c.do != "") || told != nil && !strings.Contains(told.Advice(), c.do) {
			t.Errorf("%q: got %v, want the advice %q", c.text, told, c.do)
		}
		if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) != 0 {
			t.Errorf("%q: left %v (%v), want nothing", c.text, left, err)
		}
	}
	if _, err := tokenizeFile(t, filepath.Join(t.TempDir(), "tokens"), "parquet/testdata/latin.parquet", "", tok); err == nil || !strings.Contains(err.Error(), "row 2: it is not UTF-8") {
		t.Errorf("latin: got %v, want an error about row 2", err)
	}
	if _, err := OpenDocuments(t.Context(), filepath.Join(t.TempDir(), "none"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	if _, err := OpenDocuments(t.Context(), t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: got %v", err)
	}
}

// Reading ends with the context.
func TestDocumentsStop(t *testing.T) {
	tok, _ := train(t)
	for _, path := range []string{file(t, "a.jsonl", "{\"text\":\"x\"}\n"), file(t, "a.txt", "x"), "parquet/testdata/plain.parquet"} {
		ctx, cancel := context.WithCancel(t.Context())
		d, err := OpenDocuments(ctx, path, "")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := TokenizeDocuments(filepath.Join(t.TempDir(), "tokens"), d, tok); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want context.Canceled", path, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDocumentsHoldLittle tokenises 10,000 documents: all it allocates, and so what it ever holds, stays below 2 MiB, for JSON lines and
// for Parquet.
func TestDocumentsHoldLittle(t *testing.T) {
	tok, _ := train(t)
	for _, path := range []string{file(t, "a.jsonl", strings.Repeat(`{"id":1,"text":"Now is the winter of our discontent\nmade glorious summer"}`+"\n", 10_000)), "parquet/testdata/snappy.parquet"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := tokenizeFile(t, filepath.Join(t.TempDir(), "tokens"), path, "", tok)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(2<<20); got > limit {
			t.Errorf("%s: allocated %d bytes, want at most %d", filepath.Base(path), got, limit)
		}
		t.Logf("%s: %d tokens, %d bytes allocated", filepath.Base(path), n, after.TotalAlloc-before.TotalAlloc)
	}
}

// Done tells how much of a file has been read, whatever holds the documents.
func TestDone(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(text, make([]byte, 1000), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{text, "parquet/testdata/plain.parquet"} {
		d, err := OpenDocuments(t.Context(), path, "")
		if err != nil {
			t.Fatal(err)
		}
		before, all := d.Done()
		if _, err := io.Copy(io.Discard, d.Joined()); err != nil {
			t.Fatal(err)
		}
		if done, n := d.Done(); done <= before || done > all || n != all || path == text && done != 1000 {
			t.Errorf("%s: got %d bytes and then %d, of %d", path, before, done, all)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
