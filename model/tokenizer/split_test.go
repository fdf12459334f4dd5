package tokenizer

import (
	"slices"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"pgregory.net/rapid"
)

// awkward draws texts rich in what the pattern distinguishes.
func awkward() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\u0085", "'", "'s", "'ll", "'re", "'ve", "'LL", "a", "Z", "é", "日", "٣", "½",
			"7", "42", "!", "--", "\u200d", "👩", "e\u0301", "\x00", EndOfText, "<|",
		}),
		rapid.String(),
	)
	return rapid.Custom(func(t *rapid.T) string {
		var s string
		for _, p := range rapid.SliceOfN(piece, 0, 24).Draw(t, "pieces") {
			s += p
		}
		return s
	})
}

func TestNextWordIsThePattern(t *testing.T) {
	re := regexp2.MustCompile(Pattern, regexp2.None)
	rapid.Check(t, func(t *rapid.T) {
		text := awkward().Draw(t, "text")
		var want []string
		for m, err := re.FindStringMatch(text); m != nil; m, err = re.FindNextMatch(m) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, m.String())
		}
		var got []string
		for rest := []byte(text); len(rest) > 0; {
			n := nextWord(rest)
			got = append(got, string(rest[:n]))
			rest = rest[n:]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("words of %q: got %q, want %q", text, got, want)
		}
	})
}
