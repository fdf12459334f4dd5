package tokenizer

import (
	"unicode/utf8"
)

// An alternative is one of the branches of a split pattern, as plain code: it returns how much of the beginning of s,
// which is not empty, the branch matches, and 0 if it does not. Like the engines that the patterns are written for, a
// pattern takes the first branch that matches. The test holds each against its regular expression.
type alternative func(s []byte) int

// knownAlternatives are the branches of the patterns in use, by their regular expressions (carriage returns and line feeds
// spelled as \r and \n).
func knownAlternatives() map[string]alternative {
	const (
		anyOf   = isLetter | isNumber | isSpace
		anyMark = anyOf | isMark
		newline = "\r\n"
		slashes = "\r\n/"
	)
	suffix := map[string]func([]byte) int{
		``:                              nil,
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)?`: foldedContraction,
		`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?`: anyCaseContraction,
	}
	all := map[string]alternative{
		`'s|'t|'re|'ve|'m|'ll|'d`:                                   apostrophe(contraction),
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)`:                              foldedContraction,
		`'(?i:[sdmt]|ll|ve|re)`:                                     foldedContraction,
		`(?i:[sdmt]|ll|ve|re)`:                                      nil, // never alone
		`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`: anyCaseContraction,
		`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])`:                anyCaseContraction,

		` ?\p{L}+`:                       spaced(isLetter),
		` ?\p{N}+`:                       spaced(isNumber),
		` ?[^\s\p{L}\p{N}]+`:             rest(anyOf, ""),
		` ?[^\s\p{L}\p{N}]+[\r\n]*`:      rest(anyOf, newline),
		` ?[^\s\p{L}\p{N}]++[\r\n]*`:     rest(anyOf, newline),
		` ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*`: rest(anyMark, newline),
		` ?[^\s\p{L}\p{N}]+[\r\n/]*`:     rest(anyOf, slashes),
		` ?[^\s\p{L}\p{N}]+[\r\n/]?`:     restOnce(anyOf, slashes),
		` ?[^\s\p{L}\p{N}\r\n]+`:         rest(anyOf, ""), // \s holds \r and \n
		` ?[\p{P}\p{S}]+[\r\n]*`:         marksAndSigns,

		`[^\r\n\p{L}\p{N}]?\p{L}+`:                              prefixed(isLetter|isNumber, isLetter),
		`[^\r\n\p{L}\p{N}]?+\p{L}+`:                             prefixed(isLetter|isNumber, isLetter),
		`[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+`:                       prefixed(isLetter|isNumber, isLetter|isMark),
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+`:                  prefixed(isLetter|isPunct|isSymbol, isLetter|isMark),
		"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+": signedWord,

		`\p{N}{1,3}`: numbers(3),
		`\p{N}{1}`:   numbers(1),
		`\p{N}`:      numbers(1),
		`\p{N}+`:     numbers(0),

		`\s*[\r\n]+`: linesEnd,
		`\s*[\r\n]`:  lastLineEnd,
		`\s+(?!\S)`:  spacesBefore,
		`\s+`:        spaces,
		`\S+`:        func(s []byte) int { return runWithout(s, isSpace) },

		`[0-9][0-9][0-9]`:  threeDigits,
		`([\t\n]|    |  )`: indent,

		`[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`: spacedLetters,

		`[\r\n]`: func(s []byte) int { return min(1, runOf(s, newline)) },
		`[^\n]+`: func(s []byte) int { return untilLine(s) },
		`[\n]+`:  func(s []byte) int { return runOf(s, "\n") },
	}
	for end, contract := range suffix {
		head := `[^\r\n\p{L}\p{N}]?`
		if contract != nil {
			all[head+`[\p{L}\p{M}]+`+end] = followed(prefixed(isLetter|isNumber, isLetter|isMark), contract)
		}
		for _, c := range []struct {
			upper, lower string
			p            cased
		}{
			{`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`, cased{upper: properUpper, lower: properLower}},
			{`((?=[\p{L}])([^a-z]))`, `((?=[\p{L}])([^A-Z]))`, cased{upper: asciiUpper(isLetter), lower: asciiLower(isLetter)}},
			{`((?=[\p{L}\p{M}])([^a-z]))`, `((?=[\p{L}\p{M}])([^A-Z]))`,
				cased{upper: asciiUpper(isLetter | isMark), lower: asciiLower(isLetter | isMark)}},
		} {
			c.p.suffix = contract
			all[head+c.upper+`*`+c.lower+`+`+end] = c.p.first
			all[head+c.upper+`+`+c.lower+`*`+end] = c.p.second
		}
	}
	delete(all, `(?i:[sdmt]|ll|ve|re)`)
	return all
}

// followed is an alternative and what may come after it.
func followed(a alternative, suffix func([]byte) int) alternative {
	return func(s []byte) int {
		n := a(s)
		if n > 0 && n < len(s) {
			n += suffix(s[n:])
		}
		return n
	}
}

// apostrophe makes an alternative of a function that wants s to begin with an apostrophe.
func apostrophe(f func([]byte) int) alternative {
	return func(s []byte) int {
		if s[0] != '\'' {
			return 0
		}
		return f(s)
	}
}

// anyCaseContraction is contraction in lower and upper case.
func anyCaseContraction(s []byte) int {
	if s[0] != '\'' || len(s) < 2 {
		return 0
	}
	lower := [3]byte{'\'', s[1] | 0x20, 0}
	n := 2
	if len(s) > 2 {
		lower[2], n = s[2]|0x20, 3
	}
	if s[1] >= utf8.RuneSelf || s[1] < 'A' {
		return 0
	}
	if n = contraction(lower[:n]); n == 3 && s[2] < 'A' {
		return 0
	}
	return n
}

// foldedContraction is anyCaseContraction, and 'ſ: U+017F is an s to engines that fold case.
func foldedContraction(s []byte) int {
	if len(s) > 2 && s[0] == '\'' && s[1] == 0xc5 && s[2] == 0xbf {
		return 3
	}
	return anyCaseContraction(s)
}

// spaced is " ?X+" for a set X.
func spaced(set traits) alternative {
	return func(s []byte) int {
		at := 0
		if s[0] == ' ' {
			at = 1
		}
		if n := run(s[at:], set); n > 0 {
			return at + n
		}
		return 0
	}
}

// rest is " ?X+Y*" where X is what has no trait of the set, and Y some ASCII characters.
func rest(set traits, end string) alternative {
	return func(s []byte) int {
		at := 0
		if s[0] == ' ' {
			at = 1
		}
		n := runWithout(s[at:], set)
		if n == 0 {
			return 0
		}
		n += at
		return n + runOf(s[n:], end)
	}
}

// restOnce is rest with Y? in place of Y*.
func restOnce(set traits, end string) alternative {
	base := rest(set, "")
	return func(s []byte) int {
		n := base(s)
		if n == 0 {
			return 0
		}
		return n + min(1, runOf(s[n:], end))
	}
}

// marksAndSigns is ` ?[\p{P}\p{S}]+[\r\n]*`.
func marksAndSigns(s []byte) int {
	n := spaced(isPunct | isSymbol)(s)
	if n == 0 {
		return 0
	}
	return n + runOf(s[n:], "\r\n")
}

// prefixed is "[^\r\nX]?Y+" for sets X and Y.
func prefixed(not, set traits) alternative {
	return func(s []byte) int {
		t, m := traitsOf(s)
		if t&not == 0 && s[0] != '\r' && s[0] != '\n' {
			if n := run(s[m:], set); n > 0 {
				return m + n
			}
		}
		if t&set == 0 {
			return 0
		}
		return m + run(s[m:], set)
	}
}

// signedWord is an ASCII sign and the ASCII letters after it.
func signedWord(s []byte) int {
	if s[0] >= utf8.RuneSelf || asciiTraits[s[0]]&(isPunct|isSymbol) == 0 {
		return 0
	}
	n := 1
	for n < len(s) && s[n] < utf8.RuneSelf && asciiTraits[s[n]]&isLetter != 0 {
		n++
	}
	if n == 1 {
		return 0
	}
	return n
}

// numbers is `\p{N}{1,most}`, or `\p{N}+` for 0.
func numbers(most int) alternative {
	return func(s []byte) int {
		n := 0
		for i := 0; n < len(s) && (most == 0 || i < most); i++ {
			t, m := traitsOf(s[n:])
			if t&isNumber == 0 {
				break
			}
			n += m
		}
		return n
	}
}

func threeDigits(s []byte) int {
	for i := range 3 {
		if i >= len(s) || s[i] < '0' || s[i] > '9' {
			return 0
		}
	}
	return 3
}

// indent is `([\t\n]|    |  )`.
func indent(s []byte) int {
	if s[0] == '\t' || s[0] == '\n' {
		return 1
	}
	for _, n := range [2]int{4, 2} {
		if len(s) >= n && string(s[:n]) == "    "[:n] {
			return n
		}
	}
	return 0
}

// spacedLetters is `[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`: letters with marks after them, and single spaces between.
func spacedLetters(s []byte) int {
	t, n := traitsOf(s)
	if t&(isLetter|isNumber) == 0 && s[0] != '\r' && s[0] != '\n' && n < len(s) {
		var m int
		t, m = traitsOf(s[n:])
		n += m
	}
	if t&isLetter == 0 {
		return 0
	}
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if s[n] == ' ' && n+1 < len(s) {
			t, m = traitsOf(s[n+1:])
			t, m = t&isLetter, m+1
		}
		if t&(isLetter|isMark) == 0 {
			break
		}
		n += m
	}
	return n
}

func spaces(s []byte) int { return run(s, isSpace) }

// linesEnd is `\s*[\r\n]+`: white space up to the last end of line in it.
func linesEnd(s []byte) int {
	last, n := 0, 0
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if t&isSpace == 0 {
			break
		}
		if s[n] == '\r' || s[n] == '\n' {
			last = n + 1
		}
		n += m
	}
	return last
}

// lastLineEnd is `\s*[\r\n]`, which is the same: the run before it takes all that it can.
func lastLineEnd(s []byte) int { return linesEnd(s) }

// spacesBefore is `\s+(?!\S)`: white space, all of it at the end of the text, else without its last character.
func spacesBefore(s []byte) int {
	last, n := 0, 0
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if t&isSpace == 0 {
			return last
		}
		last = n
		n += m
	}
	return n
}

func untilLine(s []byte) int {
	for i, c := range s {
		if c == '\n' {
			return i
		}
	}
	return len(s)
}

// cased is the two branches of patterns that end a word where lower case turns to upper: "[^\r\n\p{L}\p{N}]?U*L+" and
// "[^\r\n\p{L}\p{N}]?U+L*", each with an optional suffix. A character may be in both U and L.
type cased struct {
	upper, lower func(t traits, c byte) bool // of a character's traits and first byte
	suffix       func(s []byte) int          // nil without one
}

func properUpper(t traits, _ byte) bool {
	return t&isMark != 0 || t&isLetter != 0 && t&isLower == 0
}

func properLower(t traits, _ byte) bool {
	return t&isMark != 0 || t&isLetter != 0 && t&isUpper == 0
}

func asciiUpper(set traits) func(traits, byte) bool {
	return func(t traits, c byte) bool { return t&set != 0 && (c < 'a' || c > 'z') }
}

func asciiLower(set traits) func(traits, byte) bool {
	return func(t traits, c byte) bool { return t&set != 0 && (c < 'A' || c > 'Z') }
}

func (c cased) first(s []byte) int  { return c.match(s, c.lowerEnd) }
func (c cased) second(s []byte) int { return c.match(s, c.upperStart) }

// match tries the word after one character that may precede it, then without.
func (c cased) match(s []byte, word func([]byte) int) int {
	t, m := traitsOf(s)
	n := 0
	if t&(isLetter|isNumber) == 0 && s[0] != '\r' && s[0] != '\n' && m < len(s) {
		if n = word(s[m:]); n > 0 {
			n += m
		}
	}
	if n == 0 {
		n = word(s)
	}
	if n > 0 && c.suffix != nil && n < len(s) {
		n += c.suffix(s[n:])
	}
	return n
}

// lowerEnd is "U*L+". U* takes all it can; if no L follows, it gives back up to the last character that is in L too.
func (c cased) lowerEnd(s []byte) int {
	n, both := 0, 0 // both: the end of the last character so far that is in U and in L
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if !c.upper(t, s[n]) {
			break
		}
		if c.lower(t, s[n]) {
			both = n + m
		}
		n += m
	}
	end := c.lowerRun(s, n)
	if end > n {
		return end
	}
	return both
}

// upperStart is "U+L*".
func (c cased) upperStart(s []byte) int {
	n := 0
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if !c.upper(t, s[n]) {
			break
		}
		n += m
	}
	if n == 0 {
		return 0
	}
	return c.lowerRun(s, n)
}

// lowerRun returns where the run of L that begins at n ends.
func (c cased) lowerRun(s []byte, n int) int {
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if !c.lower(t, s[n]) {
			break
		}
		n += m
	}
	return n
}
