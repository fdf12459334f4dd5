package tokenizer

import "unicode/utf8"

// Pattern is the regular expression by which text is cut into words, GPT-2's. nextWord is the same in plain code, since
// Go's regexp has no look-ahead and engines that have it backtrack; the test compares the two.
const Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// lookAhead is how many bytes past the end of a word can decide where it ends: the next character, or the two letters
// of a contraction.
const lookAhead = utf8.UTFMax

// class is what the pattern distinguishes about a character.
type class uint8

const (
	other class = iota // also each byte that is not UTF-8
	letter
	number
	space
)

// asciiClass is the class of the characters below 128.
var asciiClass = func() (c [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		c[r] = classOf(unicodeTraits(r))
	}
	return c
}()

func classOf(t traits) class {
	switch {
	case t&isLetter != 0:
		return letter
	case t&isNumber != 0:
		return number
	case t&isSpace != 0:
		return space
	}
	return other
}

// classify returns the class and length of the character that begins s, which is not empty.
func classify(s []byte) (class, int) {
	if s[0] < utf8.RuneSelf {
		return asciiClass[s[0]], 1
	}
	t, n := traitsOf(s)
	return classOf(t), n
}

// nextWord returns the length of the word that begins s, which is not empty.
func nextWord(s []byte) int {
	if s[0] == '\'' {
		if n := contraction(s); n > 0 {
			return n
		}
	}
	c, n := classify(s)
	if s[0] == ' ' && len(s) > 1 {
		if d, m := classify(s[1:]); d != space { // " ?" and a run
			c, n = d, 1+m
		}
	}
	last := 0 // where the last character of the run begins
	for n < len(s) {
		d, m := classify(s[n:])
		if d != c {
			if c == space && last > 0 { // \s+(?!\S): the last space belongs to what follows
				return last
			}
			return n
		}
		last = n
		n += m
	}
	return n
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of s, which begins with an
// apostrophe; 0 if there is none.
func contraction(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(s) > 2 && s[2] == 'e' {
			return 3
		}
	case 'l':
		if len(s) > 2 && s[2] == 'l' {
			return 3
		}
	}
	return 0
}
