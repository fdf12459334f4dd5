package tokenizer

import (
	"bytes"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// runs is the splitter of a pattern that is one class of characters: `C`, `C+` or `C{1,n}`, and `\s?C+` or ` ?C+`. It looks at each
// character once.
type runs struct {
	set    *runeSet
	most   int // characters of a match, 0 for any number
	before lead
}

// lead is what a run may begin with that is not of its class.
type lead uint8

const (
	leadNone  lead = iota
	leadBlank      // a space
	leadSpace      // white space
)

// readRuns reads such a pattern; false for others.
func readRuns(part string) (r runs, ok bool) {
	rest := part
	if s, ok := strings.CutPrefix(part, `\s?`); ok {
		rest, r.before = s, leadSpace
	} else if s, ok := strings.CutPrefix(part, ` ?`); ok {
		rest, r.before = s, leadBlank
	}
	class, many := strings.CutSuffix(rest, "+")
	if !many {
		r.most = 1
		if at := strings.LastIndexByte(rest, '{'); at > 0 && !strings.HasSuffix(rest[:at], `\p`) {
			if n, err := fmt.Sscanf(rest[at:], "{1,%d}", &r.most); n < 1 || err != nil || rest[at:] != fmt.Sprintf("{1,%d}", r.most) || r.most < 1 {
				return r, false
			}
			class = rest[:at]
		}
	}
	if r.before != leadNone && !many || !strings.HasPrefix(class, "[") && !strings.HasPrefix(class, `\p{`) {
		return r, false
	}
	translated, err := translate(class)
	if err != nil {
		return r, false
	}
	re, err := syntax.Parse(translated, syntax.Perl)
	if err != nil || re.Op != syntax.OpCharClass {
		return r, false
	}
	r.set = newRuneSet(re.Rune)
	return r, true
}

// leads returns the length of what may come before a run at the beginning of s, which is not empty.
func (r *runs) leads(s []byte) int {
	switch r.before {
	case leadBlank:
		if s[0] == ' ' {
			return 1
		}
	case leadSpace:
		if t, m := traitsOf(s); t&isSpace != 0 {
			return m
		}
	}
	return 0
}

// length returns how long the run is that begins s.
func (r *runs) length(s []byte) int {
	n := 0
	for count := 0; n < len(s) && (r.most == 0 || count < r.most); count++ {
		m := r.set.begins(s[n:])
		if m == 0 {
			break
		}
		n += m
	}
	return n
}

// match is the alternative of the pattern.
func (r *runs) match(s []byte) int {
	if m := r.leads(s); m > 0 && m < len(s) {
		if n := r.length(s[m:]); n > 0 {
			return m + n
		}
	}
	return r.length(s)
}

func (r *runs) next(s []byte) (int, bool) {
	if n := r.match(s); n > 0 {
		return n, true
	}
	at, last := 0, 0 // last is where the character before at begins
	for at < len(s) && r.set.begins(s[at:]) == 0 {
		_, n := utf8.DecodeRune(s[at:])
		last, at = at, at+n
	}
	if at < len(s) && r.leads(s[last:]) > 0 {
		at = last
	}
	return at, false
}

// endSpaces is the splitter of `\s+$`: white space at the end of the text.
type endSpaces struct{}

func (endSpaces) next(s []byte) (int, bool) {
	n := len(bytes.TrimRightFunc(s, unicode.IsSpace))
	if n == 0 {
		return len(s), true
	}
	return n, false
}
