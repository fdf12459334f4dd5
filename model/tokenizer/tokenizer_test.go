package tokenizer

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestRoundTrip(t *testing.T) {
	tok := trainSample(t, 600)
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(awkward().Draw(t, "text") + string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		ids := tok.AppendEncode(nil, text)
		if got := tok.Decode(ids); !bytes.Equal(got, text) {
			t.Fatalf("Encode: got %q, want %q", got, text)
		}
		plain := tok.AppendEncodePlain(nil, text)
		if got := tok.Decode(plain); !bytes.Equal(got, text) {
			t.Fatalf("AppendEncodePlain: got %q, want %q", got, text)
		}
		if slices.Contains(plain, tok.EOS()) {
			t.Fatalf("AppendEncodePlain made a special token of %q", text)
		}
		var streamed []byte
		d := tok.NewDecoder()
		for _, id := range ids {
			n := len(streamed)
			streamed = d.Append(streamed, id)
			if utf8.Valid(text) && !utf8.Valid(streamed[n:]) {
				t.Fatalf("Decoder split a character: %q after %q", streamed[n:], streamed[:n])
			}
		}
		if utf8.Valid(text) && !bytes.Equal(streamed, text) {
			t.Fatalf("Decoder holds back the end of %q: got %q", text, streamed)
		}
		if streamed = d.Flush(streamed); !bytes.Equal(streamed, text) {
			t.Fatalf("Decoder: got %q, want %q", streamed, text)
		}
	})
}

func TestEOS(t *testing.T) {
	tok := trainSample(t, 300)
	want := append(append(tok.Encode("one "), tok.EOS()), tok.Encode("two")...)
	if got := tok.Encode("one <|endoftext|>two"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLongWord compares the two ways to merge a word.
func TestLongWord(t *testing.T) {
	tok := trainSample(t, 600)
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= shortWord; n++ {
		for range 50 {
			word := make([]byte, n)
			for i := range word {
				word[i] = "aabehtnd -\n"[rng.IntN(11)]
			}
			got, want := tok.bpe.appendLongWord(nil, word), tok.bpe.appendWord(nil, word)
			if !slices.Equal(got, want) {
				t.Fatalf("%q: got %v, want %v", word, got, want)
			}
		}
	}
}

func TestEncodeReaderIsAppendEncode(t *testing.T) {
	tok := trainSample(t, 600)
	sample := readFile(t, "testdata/sample.txt")
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var text []byte
		for len(text) < 3*streamBytes {
			from := rng.IntN(len(sample))
			text = append(text, sample[from:min(len(sample), from+rng.IntN(400))]...)
			text = append(text, []string{EndOfText, "'re", "  ", "\n\n\n", "é", ""}[rng.IntN(6)]...)
			text = append(text, bytes.Repeat([]byte{"x \xe3"[rng.IntN(3)]}, rng.IntN(100))...)
		}
		var got []int32
		emit := func(ids []int32) error { got = append(got, ids...); return nil }
		if err := tok.EncodeReader(iotest.HalfReader(bytes.NewReader(text)), emit); err != nil {
			t.Fatal(err)
		}
		if want := tok.AppendEncode(nil, text); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %d tokens, want %d equal ones", seed, len(got), len(want))
		}
	}
}

func TestEncodeReaderCutsEndlessWords(t *testing.T) {
	tok := trainSample(t, 600)
	text := bytes.Repeat([]byte("a"), 5*streamBytes+7)
	var got []byte
	err := tok.EncodeReader(bytes.NewReader(text), func(ids []int32) error {
		got = append(got, tok.Decode(ids)...)
		return nil
	})
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("got %d bytes and %v, want the %d of the text", len(got), err, len(text))
	}
}

// TestEncodeStreamOptions: long words stay whole where there is room for them, and a plain stream knows no added token.
func TestEncodeStreamOptions(t *testing.T) {
	tok := trainSample(t, 600)
	text := append(bytes.Repeat([]byte("ab"), 5*streamBytes), (EndOfText + "x")...)
	for _, plain := range []bool{false, true} {
		var got []int32
		err := tok.EncodeStream(bytes.NewReader(text), StreamOptions{Plain: plain, LongWord: 1 << 20}, func(ids []int32) error {
			if len(ids) == 0 {
				t.Error("got no ids in a piece")
			}
			got = append(got, ids...)
			return nil
		})
		want := tok.AppendEncode(nil, text)
		if plain {
			want = tok.AppendEncodePlain(nil, text)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("plain %v: got %d tokens and %v, want %d equal ones", plain, len(got), err, len(want))
		}
	}
	var got []int32
	text = []byte(strings.Repeat(EndOfText+"ab", 100))
	err := tok.EncodeStream(bytes.NewReader(text), StreamOptions{LongWord: 1}, func(ids []int32) error { got = append(got, ids...); return nil })
	if want := tok.AppendEncode(nil, text); err != nil || !slices.Equal(got, want) {
		t.Errorf("the least buffer: got %d tokens and %v, want %d equal ones", len(got), err, len(want))
	}
}

func TestEncodeReaderErrors(t *testing.T) {
	tok := trainSample(t, 300)
	bad := errors.New("bad disk")
	err := tok.EncodeReader(io.MultiReader(strings.NewReader("text"), iotest.ErrReader(bad)), func([]int32) error { return nil })
	if !errors.Is(err, bad) {
		t.Errorf("reader: got %v, want %v", err, bad)
	}
	full := errors.New("full disk")
	err = tok.EncodeReader(strings.NewReader("text"), func([]int32) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("emit: got %v, want %v", err, full)
	}
}

func TestSaveAndLoad(t *testing.T) {
	trained := trainSample(t, 600)
	loaded, err := Load("testdata/trained.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range []*Tokenizer{trained, loaded} {
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := tok.SaveFile(path); err != nil {
			t.Fatal(err)
		}
		again, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, again, tok)
	}
}

// wantSame fails unless two tokenizers have the same tokens, merges and added tokens.
func wantSame(t *testing.T, got, want *Tokenizer) {
	t.Helper()
	if !bytes.Equal(got.vocab.text, want.vocab.text) || !slices.Equal(got.vocab.ends, want.vocab.ends) {
		t.Errorf("the vocabulary of %v differs from that of %v", got, want)
	}
	if !slices.Equal(got.bpe.merges, want.bpe.merges) || got.bpe.byteID != want.bpe.byteID {
		t.Errorf("the merges of %v differ from those of %v", got, want)
	}
	if g, w := got.addedTokens(), want.addedTokens(); !slices.Equal(g, w) {
		t.Errorf("added tokens: got %v, want %v", g, w)
	}
	if got.EOS() != want.EOS() {
		t.Errorf("EOS: got %d, want %d", got.EOS(), want.EOS())
	}
}

func TestSaveFileToNowhere(t *testing.T) {
	tok := trainSample(t, 300)
	if err := tok.SaveFile(filepath.Join(t.TempDir(), "none", "tokenizer.json")); err == nil {
		t.Error("got no error for a directory that does not exist")
	}
}

func TestDecodeUnknown(t *testing.T) {
	tok := trainSample(t, 300)
	if got := tok.Decode([]int32{-1, 300, 1 << 30}); len(got) != 0 {
		t.Errorf("ids outside the vocabulary: got %q, want nothing", got)
	}
}
