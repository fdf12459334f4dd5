package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"pgregory.net/rapid"
)

// cut returns the spans that a splitter makes of a text.
func cut(s splitter, text string) (spans []string) {
	for rest := []byte(text); len(rest) > 0; {
		n, match := s.next(rest)
		mark := "-"
		if match {
			mark = "+"
		}
		spans = append(spans, mark+string(rest[:n]))
		rest = rest[n:]
	}
	return spans
}

// twin is the same by a regular expression.
func twin(t *rapid.T, re *regexp2.Regexp, text string) (spans []string) {
	runes, at := []rune(text), 0
	for m, err := re.FindStringMatch(text); m != nil; m, err = re.FindNextMatch(m) {
		if err != nil {
			t.Fatal(err)
		}
		if m.RuneLength == 0 {
			continue
		}
		if m.RuneIndex > at {
			spans = append(spans, "-"+string(runes[at:m.RuneIndex]))
		}
		spans = append(spans, "+"+m.String())
		at = m.RuneIndex + m.RuneLength
	}
	if at < len(runes) {
		spans = append(spans, "-"+string(runes[at:]))
	}
	return spans
}

// pieces draws texts rich in what patterns look at. The long s is left out: regexp2 does not fold it, and its tokens are in the goldens.
func pieces() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "'", "'s", "'LL", "'Re", "'ve", "a", "b", "Z", "Q", "é", "É", "ǅ", "日", "の", "ﬁ", "٣", "½", "7", "42",
			"123", "4567", "!", "--", "/", "_", "$", "€", "。", "、", "\u200d", "👩", "\u0301", "\u0323", "\x00", "ʰ", "ª", "ß", "한", "ไ", "नि",
		}),
		rapid.Custom(func(t *rapid.T) string { return strings.ReplaceAll(rapid.StringN(0, 4, -1).Draw(t, "text"), "ſ", "") }),
	)
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(t, "pieces"), "") })
}

// backtracking is a pattern without what regexp2 lacks: possessive repetition, which changes nothing in those patterns that have it.
func backtracking(pattern string) string {
	return strings.NewReplacer("?+", "?", "++", "+").Replace(pattern)
}

// TestAlternativesAreTheirPatterns holds each branch that is plain code against its regular expression.
func TestAlternativesAreTheirPatterns(t *testing.T) {
	known := knownAlternatives()
	if len(known) < 40 {
		t.Fatalf("got %d branches, want at least 40", len(known))
	}
	for pattern, a := range known {
		re := regexp2.MustCompile(backtracking(pattern), regexp2.None)
		rapid.Check(t, func(t *rapid.T) {
			text := pieces().Draw(t, "text")
			if got, want := cut(branches{a}, text), twin(t, re, text); !slices.Equal(got, want) {
				t.Fatalf("%s of %q: got %q, want %q", pattern, text, got, want)
			}
		})
	}
}

// TestSplittersAreTheirPatterns does so for whole patterns, those for Go's regexp among them.
func TestSplittersAreTheirPatterns(t *testing.T) {
	patterns := []string{
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
		`\p{Lu}+|\s+(?!\S)|\d{2}|[a-c]+`, `\p{Lu}+|\s+(?!\S)|\s+`, `[^\S]+x|\w+`, `\s?[!-/:-~！-／：-～‘-‟　-。]+`, `[a\]b]+|[]x]`, `(ab|cd)+?`,
	}
	for _, p := range ggufPres() {
		for _, pattern := range p.patterns {
			if pattern != rightDigits && pattern != aheadDigits && pattern != kimiPattern {
				patterns = append(patterns, pattern)
			}
		}
	}
	for _, pattern := range patterns {
		s, err := newSplitter(pattern, knownAlternatives())
		if strings.Contains(pattern, `[^\S]`) {
			if err == nil {
				t.Errorf("%s: got no error", pattern)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		twinPattern := backtracking(pattern)
		if _, total := s.(gpt2Words); total && !strings.HasSuffix(pattern, `|\s+`) {
			twinPattern += `|\s+`
		}
		for _, r := range []struct{ from, to string }{{`[]x]`, `[\]x]`}, {`\x{`, `\x{`}} {
			twinPattern = strings.ReplaceAll(twinPattern, r.from, r.to)
		}
		if strings.Contains(twinPattern, `\x{`) || strings.Contains(twinPattern, `\p{Han}`) {
			continue // spelled for Go
		}
		re, err := regexp2.Compile(twinPattern, regexp2.None)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			text := pieces().Draw(t, "text")
			if got, want := cut(s, text), twin(t, re, text); !slices.Equal(got, want) {
				t.Fatalf("%s of %q: got %q, want %q", pattern, text, got, want)
			}
		})
	}
}
