package tokenizer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A splitter finds the matches of a pattern: next returns the length of the first span of s, which is not empty, and whether
// that span is a match or the text before one.
type splitter interface {
	next(s []byte) (n int, match bool)
}

// branches is a splitter of alternatives in plain code.
type branches []alternative

func (b branches) next(s []byte) (int, bool) {
	for at := 0; at < len(s); {
		for _, a := range b {
			if n := a(s[at:]); n > 0 {
				if at > 0 {
					return at, false
				}
				return n, true
			}
		}
		_, n := utf8.DecodeRune(s[at:])
		at += n
	}
	return len(s), false
}

// gpt2Words is the splitter of Pattern.
type gpt2Words struct{}

func (gpt2Words) next(s []byte) (int, bool) { return nextWord(s), true }

// maxPattern bounds the text of a pattern; the longest in use, deepseek-llm's list of letters, has 700 bytes.
const maxPattern = 8 << 10

// newSplitter compiles a pattern. One that is made of branches that are known takes those; any other takes Go's regexp, which
// is linear in the text, and is refused if it asks for what that lacks (look-around other than `\s+(?!\S)`, back references).
func newSplitter(pattern string, known map[string]alternative) (splitter, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("tokenizer: a split pattern has %d bytes, want at most %d", len(pattern), maxPattern)
	}
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("tokenizer: split pattern %.40q is not UTF-8", pattern)
	}
	if pattern == Pattern || pattern+`|\s+` == Pattern {
		return gpt2Words{}, nil
	}
	if pattern == `\s+$` {
		return endSpaces{}, nil
	}
	pattern = strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(pattern)
	parts := topLevel(pattern)
	if r, ok := readRuns(pattern); ok && len(parts) == 1 {
		return &r, nil
	}
	var b branches
	for i := 0; i < len(parts); i++ {
		part := parts[i]
		if const7 := strings.Join(parts[i:min(len(parts), i+7)], "|"); known[const7] != nil {
			part = const7
			i += 6
		}
		a := known[part]
		if a == nil {
			a = countedSpaces(part)
		}
		if r, ok := readRuns(part); a == nil && ok {
			a = r.match
		}
		if a == nil {
			return newRegex(pattern, parts)
		}
		b = append(b, a)
	}
	return b, nil
}

// countedSpaces reads the branches `\s{n}(?!\S)`, `\s{m,n}(?!\S)` and `\s{1}`; nil for others.
func countedSpaces(part string) alternative {
	least, most := 0, 0
	if n, err := fmt.Sscanf(part, `\s{%d,%d}`, &least, &most); n < 2 || err != nil {
		if n, err := fmt.Sscanf(part, `\s{%d}`, &least); n < 1 || err != nil {
			return nil
		}
		most = least
	}
	want := fmt.Sprintf(`\s{%d}`, least)
	if most != least {
		want = fmt.Sprintf(`\s{%d,%d}`, least, most)
	}
	before := part == want+`(?!\S)`
	if least < 1 || most < least || part != want && !before {
		return nil
	}
	return func(s []byte) int {
		at, best := 0, 0
		for i := 1; i <= most && at < len(s); i++ {
			t, m := traitsOf(s[at:])
			if t&isSpace == 0 {
				break
			}
			at += m
			if i < least {
				continue
			}
			if before && at < len(s) {
				if t, _ := traitsOf(s[at:]); t&isSpace == 0 {
					continue
				}
			}
			best = at
		}
		return best
	}
}

// topLevel cuts a pattern at the bars that are outside groups and classes.
func topLevel(pattern string) (parts []string) {
	depth, from := 0, 0
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
			if strings.HasPrefix(pattern[i+1:], "]") || strings.HasPrefix(pattern[i+1:], "^]") {
				i += 1 + strings.IndexByte(pattern[i+1:], ']')
			}
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == '|' && depth == 0:
			parts = append(parts, pattern[from:i])
			from = i + 1
		}
	}
	return append(parts, pattern[from:])
}

// regexWords is a splitter by Go's regexp. The branch `\s+(?!\S)` is matched as a group of white space, and shortened after.
type regexWords struct {
	re     *regexp.Regexp
	before int  // the number of that group, 0 without one
	single bool // whether a later branch matches one white space
}

func newRegex(pattern string, parts []string) (splitter, error) {
	w := regexWords{}
	for i, part := range parts {
		if part == `\s+(?!\S)` && w.before == 0 {
			w.before = 1
			for _, later := range parts[i+1:] {
				w.single = w.single || later == `\s+` || later == `\s`
			}
			parts[i] = `(?P<spaces>\s+)`
		}
	}
	translated, err := translate(strings.Join(parts, "|"))
	if err == nil {
		w.re, err = regexp.Compile(translated)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: split pattern %.60q is not supported: %w", pattern, err)
	}
	if w.before > 0 {
		w.before = w.re.SubexpIndex("spaces")
	}
	return w, nil
}

func (w regexWords) next(s []byte) (int, bool) {
	for at := 0; at < len(s); {
		m := w.re.FindSubmatchIndex(s[at:])
		if m == nil {
			break
		}
		from, to := at+m[0], at+m[1]
		if from == to { // an empty match divides nothing
			at = to + 1
			for at < len(s) && !utf8.RuneStart(s[at]) {
				at++
			}
			continue
		}
		if w.before > 0 && m[2*w.before] >= 0 && to < len(s) {
			_, last := utf8.DecodeLastRune(s[from:to])
			if to-last > from {
				to -= last
			} else if !w.single {
				at = to
				continue
			}
		}
		if from > 0 {
			return from, false
		}
		return to, true
	}
	return len(s), false
}

// White space and word characters of the engines that patterns are written for, as the inside of a class of Go's.
const (
	spaceClass = `\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}`
	wordClass  = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}`
	digitClass = `\p{Nd}`

	// wordOrJoiner is \w in Rust's regex, by UTS 18: alphabetic characters, those that are symbols included, and the joiners.
	wordOrJoiner = wordClass + `\x{200c}\x{200d}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}`
)

// translate writes a pattern for Go's regexp, in which \s, \d and \w know ASCII alone.
func translate(pattern string) (string, error) {
	var b strings.Builder
	class := false
	counted := false // a repetition ends before i
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		again := counted
		counted = !class && (c == '+' || c == '*' || c == '?' || c == '}') && !again
		if c == '\\' && i+1 < len(pattern) {
			i++
			set, negated := "", false
			switch pattern[i] {
			case 's', 'S':
				set, negated = spaceClass, pattern[i] == 'S'
			case 'd', 'D':
				set, negated = digitClass, pattern[i] == 'D'
			case 'w', 'W':
				set, negated = wordClass, pattern[i] == 'W'
			case 'b', 'B', 'A', 'z', 'Z', 'Q', 'E', 'C', 'G', 'h', 'H', 'R', 'X', 'K', 'k', 'g':
				return "", fmt.Errorf(`\%c is not known here`, pattern[i])
			default:
				b.WriteByte('\\')
				b.WriteByte(pattern[i])
				if end := strings.IndexByte(pattern[i:], '}'); (pattern[i] == 'p' || pattern[i] == 'P' || pattern[i] == 'x') && end > 0 &&
					i+1 < len(pattern) && pattern[i+1] == '{' {
					b.WriteString(pattern[i+1 : i+end+1])
					i += end
				}
				continue
			}
			switch {
			case class && negated:
				return "", fmt.Errorf(`\%c in a class is not known here`, pattern[i])
			case class:
				b.WriteString(set)
			case negated:
				b.WriteString("[^" + set + "]")
			default:
				b.WriteString("[" + set + "]")
			}
			continue
		}
		switch {
		case class && c == '[':
			b.WriteString(`\[`)
			continue
		case class && c == '&' && strings.HasPrefix(pattern[i:], "&&"):
			return "", fmt.Errorf("the intersection of classes is not known here")
		case class:
			class = c != ']'
		case c == '[':
			class = true
			for _, start := range []string{"[^]", "[]"} {
				if strings.HasPrefix(pattern[i:], start) {
					b.WriteString(start[:len(start)-1] + `\]`)
					i += len(start) - 1
					c = 0
					break
				}
			}
			if c == 0 {
				continue
			}
		case c == '+' && again:
			return "", fmt.Errorf("possessive repetition is not known here")
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}
