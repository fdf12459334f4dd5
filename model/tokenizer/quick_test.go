package tokenizer

import (
	"bytes"
	"regexp"
	"slices"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// TestEveryCharacter holds what is quick about single characters against Unicode's tables.
func TestEveryCharacter(t *testing.T) {
	bad := 0
	differ := func(what string, r rune, got, want any) {
		if bad++; bad < 10 {
			t.Errorf("%s of U+%04X: got %v, want %v", what, r, got, want)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got, want := runeTraits(r), unicodeTraits(r); got != want {
			differ("traits", r, got, want)
		}
		if !utf8.ValidRune(r) {
			continue
		}
		if want, _ := utf8.DecodeRuneInString(norm.NFD.String(string(r))); firstDecomposed(r) != want {
			differ("decomposition", r, firstDecomposed(r), want)
		}
		if got, want := string(lowerCase(nil, r)), string(unicode.ToLower(r)); got != want && r != 'İ' {
			differ("lower case", r, got, want)
		}
		if got, want := len(withoutAccents(nil, r)) == 0, unicode.Is(unicode.Mn, r); got != want {
			differ("accent", r, got, want)
		}
		want := string(r)
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			want = " "
		case r == 0 || r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co):
			want = ""
		case unicode.IsSpace(r):
			want = " "
		}
		if got := string(cleaned(nil, r)); got != want {
			differ("cleaned text", r, got, want)
		}
	}
}

// anyText draws texts of awkward pieces, of which some are not UTF-8.
func anyText(t *rapid.T, label string) []byte {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"the", " of", "日本", "語", "。", "한국", "ไท", "नमस्", "а", "Пр", "ا", "é", "e\u0301", "👩‍👩", "🏽", "▁", "\n", "  ", "1", "\x04", "ſ", "½"}),
		rapid.SampledFrom([]string{"\xff", "\x80", "\xc3", "\xe3\x81", "\xe6\x97", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\x80", "\xe6\x97\xa5\xa5"}),
		rapid.String(),
	)
	return bytes.Join(slices.Collect(func(yield func([]byte) bool) {
		for _, s := range rapid.SliceOfN(piece, 0, 30).Draw(t, label) {
			if !yield([]byte(s)) {
				return
			}
		}
	}), nil)
}

// TestJointsChangeNothing encodes with words cut where no token lies, and not.
func TestJointsChangeNothing(t *testing.T) {
	for _, name := range []string{"gpt2", "llama3", "qwen3", "deepseek_v3", "llama2", "gemma3", "gguf_phi-3", "gguf_deepseek-llm", "spm_bpe", "gguf_command-r"} {
		tok := readFamily(t, name).tokenizer(t)
		whole := *tok
		var has *joints
		switch m := tok.model.(type) {
		case *bpe:
			has = &m.joints
			c := *m
			c.joints = joints{}
			whole.model = &c
		case *spm:
			has = &m.joints
			c := *m
			c.joints = joints{}
			whole.model = &c
		}
		if has.bits == nil {
			t.Errorf("%s: words are never cut", name)
		}
		for _, text := range familyTexts(t) {
			if len(text) == 0 {
				continue
			}
			if got, want := tok.model.appendWord(nil, append(text, text...)), whole.model.appendWord(nil, append(text, text...)); !slices.Equal(got, want) {
				t.Fatalf("%s: tokens of %q: got %v, want %v", name, text, got, want)
			}
		}
		rapid.Check(t, func(t *rapid.T) {
			text := anyText(t, "text")
			if len(text) == 0 {
				return
			}
			if got, want := tok.model.appendWord(nil, text), whole.model.appendWord(nil, text); !slices.Equal(got, want) {
				t.Fatalf("%s: tokens of %q: got %v, want %v", name, text, got, want)
			}
		})
	}
}

// TestJointsOfParts: bytes of a vocabulary that lie across two characters keep them together.
func TestJointsOfParts(t *testing.T) {
	v := packVocab([][]byte{[]byte("日本"), []byte("a\xe8"), []byte("\xaa\x9ex"), []byte("\x9e\xe3"), []byte("é"), []byte("ab")})
	j := newJoints(&v, func(int32) bool { return true })
	for _, c := range []struct {
		word string
		want []string
	}{
		{"日本日", []string{"日本", "日"}},
		{"a語b", []string{"a語", "b"}},
		{"b語x", []string{"b", "語x"}},
		{"語の", []string{"語の"}},
		{"語é", []string{"語", "é"}},
		{"éab", []string{"é", "ab"}},
		{"é\xffé", []string{"é\xffé"}},
		{"本\x80日é", []string{"本\x80日", "é"}},
	} {
		var got []string
		for w := []byte(c.word); len(w) > 0; {
			n := j.next(w)
			got = append(got, string(w[:n]))
			w = w[n:]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.word, got, c.want)
		}
	}
}

// TestTrieHoldsItsTokens compares a trie with a map.
func TestTrieHoldsItsTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte("\x00ab\x80\xff")), 0, 5), func(b []byte) string { return string(b) })
		wide := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 3), func(b []byte) string { return string(b) })
		tokens := rapid.SliceOfN(rapid.OneOf(word, wide), 0, 300).Draw(t, "tokens")
		list, want := [][]byte{}, map[string]int32{}
		for i, s := range tokens {
			list = append(list, []byte(s))
			want[s] = int32(i)
		}
		v := packVocab(list)
		tr := newTrie(&v, func(int32) bool { return true })
		for _, s := range append(tokens, rapid.SliceOfN(word, 0, 50).Draw(t, "others")...) {
			id, ok := want[s]
			if !ok {
				id = -1
			}
			if got := tr.find([]byte(s)); got != id {
				t.Fatalf("%q: got %d, want %d", s, got, id)
			}
		}
	})
}

// TestReplacedRuns compares runs with the regular expressions that they stand for.
func TestReplacedRuns(t *testing.T) {
	for _, pattern := range []string{` {2,}`, ` +`, `[` + spaceClass + `]+`, `\p{L}{3,}`, `[a-c\x{FFFD}]{1,}`} {
		n := newReplacedRuns(pattern, []byte("▁"))
		if n == nil {
			t.Errorf("%s is not read", pattern)
			continue
		}
		slow := replacedPattern{regexp.MustCompile(pattern), []byte("▁")}
		rapid.Check(t, func(t *rapid.T) {
			text := anyText(t, "text")
			if got, want := n.normalize(nil, text, edges{}), slow.normalize(nil, text, edges{}); !bytes.Equal(got, want) {
				t.Fatalf("%s of %q: got %q, want %q", pattern, text, got, want)
			}
		})
	}
	for _, pattern := range []string{` +?`, ` {2,3}`, `(?i)a+`, `ab+`, `(ab)+`, ` *`, `a`} {
		if newReplacedRuns(pattern, nil) != nil {
			t.Errorf("%s is taken for a run", pattern)
		}
	}
}

// TestAlone: what is taken for a grapheme without asking is one.
func TestAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := appendValid(nil, anyText(t, "text"))
		for tokens := graphemes.FromBytes(text); tokens.Next(); {
			if n := alone(text); n > 0 && n != len(tokens.Value()) {
				t.Fatalf("%q: got %d bytes, want %d", text, n, len(tokens.Value()))
			}
			text = text[len(tokens.Value()):]
		}
	})
}
