package tokenizer

import (
	"regexp/syntax"
	"strings"
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
	set := newRuneSet(re.Rune)
	matched := func(s []byte) int {
		n := 0
		for n < len(s) {
			m := set.begins(s[n:])
			if n += m; m == 0 || !many {
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
