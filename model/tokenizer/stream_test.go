package tokenizer

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"loadline/internal/bounded"
)

// TestFamilyStreams: a stream in small chunks gives the tokens of the whole text, and decoding them one by one its text.
func TestFamilyStreams(t *testing.T) {
	paths, err := filepath.Glob("testdata/families/*.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	var valid [][]byte
	for _, b := range familyTexts(t) {
		if utf8.Valid(b) && len(b) < 400 && bytes.IndexByte(b, 0) < 0 {
			valid = append(valid, b)
		}
	}
	text := bytes.Join(valid, []byte(" and so on "))
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
		switch name {
		case "texts", "gguf_pre", "spm_unigram", "spm_unigram_bytes", "spm_bpe_suffix": // what EncodeReader's comment leaves out
			continue
		}
		tok := readFamily(t, name).tokenizer(t)
		want := tok.AppendEncode(nil, text)
		var got []int32
		emit := func(ids []int32) error { got = append(got, ids...); return nil }
		if err := tok.EncodeStream(iotest.HalfReader(bytes.NewReader(text)), StreamOptions{LongWord: 3000}, emit); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%s: got %d tokens, want %d; they part at %d, after %q", name, len(got), len(want), at, tok.Decode(want[max(0, at-10):min(at+5, len(want))]))
		}
		d := tok.NewDecoder()
		var out []byte
		for _, id := range want {
			from := len(out)
			if out = d.Append(out, id); !utf8.Valid(out[from:]) {
				t.Errorf("%s: the decoder hands out %q", name, out[from:])
				break
			}
		}
		if out = d.Flush(out); !bytes.Equal(out, tok.Decode(want)) {
			t.Errorf("%s: decoded one by one, the text differs", name)
		}
	}
}

func TestContinuation(t *testing.T) {
	tok := readFamily(t, "llama2").tokenizer(t)
	ids := tok.Encode("Hello world")
	if got := string(tok.Decode(ids)); got != "Hello world" {
		t.Errorf("got %q, want the text", got)
	}
	d := tok.NewContinuation()
	var out []byte
	for _, id := range ids[1:] {
		out = d.Append(out, id)
	}
	if string(out) != " world" {
		t.Errorf("got %q, want %q", out, " world")
	}
	before, after := tok.Frame()
	if !slices.Equal(before, []int32{1}) || len(after) > 0 {
		t.Errorf("frame: got %v and %v, want the token 1 before", before, after)
	}
	d = tok.NewDecoder().SkipSpecial()
	if got := string(d.Append(d.Append(nil, 1), ids[0])); got != "Hello" {
		t.Errorf("without special tokens: got %q, want %q", got, "Hello")
	}
	if id := tok.ID("</s>"); id != 2 || tok.Token(2) != "</s>" || !tok.IsSpecial(2) || tok.IsSpecial(ids[0]) {
		t.Errorf("</s> is token %d", id)
	}
}

// FuzzSentencePiece: any tokenizer.model is refused or keeps its ids in the vocabulary.
func FuzzSentencePiece(f *testing.F) {
	pieces := "\x0a\x0e\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02" + "\x0a\x07\x0a\x03<s>\x18\x03" + "\x0a\x0a\x0a\x03\xe2\x96\x81\x15\x00\x00\x80\xbf" +
		"\x0a\x08\x0a\x01a\x15\x00\x00\x80\xbf" + "\x0a\x0b\x0a\x04\xe2\x96\x81a\x15\x00\x00\x00\xbf" + "\x0a\x06\x0a\x02aa\x18\x04" + "\x0a\x0a\x0a\x06<0x62>\x18\x06" + "\x0a\x07\x0a\x03aaa\x18\x05"
	for _, trainer := range []string{"\x12\x02\x18\x01", "\x12\x05\x18\x02\x98\x02\x01", "\x12\x08\x18\x02\x98\x02\x01\xc0\x01\x01"} {
		f.Add([]byte(pieces+trainer), []byte("aa b  aaa\xff<s>▁a"))
		f.Add([]byte(pieces+trainer+"\x1a\x0c\x12\x08\x04\x00\x00\x00\x00\x01\x00\x00 \x00\x20\x00"), []byte("aa b"))
	}
	f.Add(readFamily(f, "spm_bpe").Model, []byte("To be, or  not to be"))
	f.Fuzz(func(t *testing.T, file, text []byte) {
		var tok *Tokenizer
		var err error
		bounded.Run(t, len(file), 4<<20, 2048, func() { tok, err = parseSentencePiece(file) })
		if err != nil {
			return
		}
		wantIDs(t, tok, text)
	})
}

// FuzzGGUFVocabulary does so for the metadata of a GGUF file.
func FuzzGGUFVocabulary(f *testing.F) {
	for _, model := range []string{"llama", "gpt2", "bert", "t5", "gemma4"} {
		f.Add(model, "llama-bpe", "a b Ġa ▁ab <0x41> ab <s> </s>", "a b", "\x01\x04\x01\x06\x02\x03\x03", []byte{1, 0, 0, 0}, []byte("ab a <s>b\xff"))
	}
	f.Fuzz(func(t *testing.T, model, pre, tokens, merges, types string, charsmap, text []byte) {
		g := &GGUF{Model: model, Pre: pre, Tokens: strings.Split(tokens, " "), Charsmap: charsmap}
		for m := range strings.SplitSeq(merges, "\n") {
			g.Merges = append(g.Merges, m)
		}
		for i := range g.Tokens {
			g.Types = append(g.Types, int32(typeAt(types, i)))
			g.Scores = append(g.Scores, -float32(i))
		}
		var tok *Tokenizer
		var err error
		bounded.Run(t, len(tokens)+len(merges)+len(charsmap), 4<<20, 2048, func() { tok, err = FromGGUF(g) })
		if err != nil {
			return
		}
		wantIDs(t, tok, text)
	})
}

func typeAt(types string, i int) byte {
	if types == "" {
		return 1
	}
	return types[i%len(types)]
}

func wantIDs(t *testing.T, tok *Tokenizer, text []byte) {
	t.Helper()
	var framed, plain []int32
	bounded.Run(t, len(text), 4<<20, 4096, func() { framed, plain = tok.AppendEncode(nil, text), tok.AppendEncodePlain(nil, text) })
	for _, ids := range [][]int32{framed, plain} {
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d is outside the vocabulary of %d", id, tok.VocabSize())
			}
		}
		tok.Decode(ids)
	}
}
