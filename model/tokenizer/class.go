package tokenizer

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// classRun reads the branches `C`, `C+`, `\s?C+` and ` ?C+`, where C is a class of characters; nil for others. Patterns list hundreds of
// ranges so, and looking a character up in them is several times as fast as Go's regexp.
func classRun(part string) alternative {
	rest, spaced := strings.CutPrefix(part, `\s?`)
	blank := false
	if !spaced {
		rest, blank = strings.CutPrefix(part, ` ?`)
	}
	class, many := strings.CutSuffix(rest, "+")
	if (spaced || blank) && !many || !strings.HasPrefix(class, "[") && !strings.HasPrefix(class, `\p{`) {
		return nil
	}
	translated, err := translate(class)
	if err != nil {
		return nil
	}
	re, err := syntax.Parse(translated, syntax.Perl)
	if err != nil || re.Op != syntax.OpCharClass {
		return nil
	}
	ranges := slices.Clone(re.Rune) // pairs: first and last
	var ascii [utf8.RuneSelf]bool
	in := func(r rune) bool {
		lo, hi := 0, len(ranges)/2
		for lo < hi {
			if mid := (lo + hi) / 2; ranges[2*mid+1] < r {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		return lo < len(ranges)/2 && ranges[2*lo] <= r
	}
	for c := range ascii {
		ascii[c] = in(rune(c))
	}
	matched := func(s []byte) int {
		n := 0
		for n < len(s) {
			if c := s[n]; c < utf8.RuneSelf {
				if !ascii[c] {
					break
				}
				n++
			} else {
				r, m := utf8.DecodeRune(s[n:])
				if !in(r) {
					break
				}
				n += m
			}
			if !many {
				break
			}
		}
		return n
	}
	return func(s []byte) int {
		if spaced || blank && s[0] == ' ' {
			if t, m := traitsOf(s); t&isSpace != 0 && m < len(s) {
				if n := matched(s[m:]); n > 0 {
					return m + n
				}
			}
		}
		return matched(s)
	}
}
