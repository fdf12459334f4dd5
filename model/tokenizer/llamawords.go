package tokenizer

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// isHan is llama.cpp's list of Han characters.
func isHan(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B820 && r <= 0x2CEAF || r >= 0x2CEB0 && r <= 0x2EBEF || r >= 0xF900 && r <= 0xFAFF ||
		r >= 0x2F800 && r <= 0x2FA1F
}

func hanWord(s []byte) int {
	n := 0
	for n < len(s) {
		r, m := utf8.DecodeRune(s[n:])
		if !isHan(r) {
			break
		}
		n += m
	}
	return n
}

// kimiWord is letters that are not Han, after a character that is neither a letter, a number nor an end of line, with a contraction.
func kimiWord(s []byte) int {
	letters := func(s []byte) int {
		n := 0
		for n < len(s) {
			r, m := utf8.DecodeRune(s[n:])
			if t, _ := traitsOf(s[n:]); t&isLetter == 0 || isHan(r) {
				break
			}
			n += m
		}
		return n
	}
	at := 0
	if t, m := traitsOf(s); t&(isLetter|isNumber) == 0 && s[0] != '\r' && s[0] != '\n' {
		at = m
	}
	n := letters(s[at:])
	if n == 0 {
		return 0
	}
	n += at
	if n < len(s) {
		n += anyCaseContraction(s[n:])
	}
	return n
}

// firstDecomposed is the first character of a character's canonical decomposition, which is all that llama.cpp keeps: of Hangul, all but
// the first letter is lost.
func firstDecomposed(r rune) rune {
	const syllables, perFirst, first = 0xac00, 588, 0x1100
	if r >= syllables && r < syllables+19*perFirst {
		return first + (r-syllables)/perFirst
	}
	var room [utf8.UTFMax]byte
	if d := norm.NFD.Properties(utf8.AppendRune(room[:0], r)).Decomposition(); len(d) > 0 {
		r, _ = utf8.DecodeRune(d)
	}
	return r
}

// bertWords is llama.cpp's reading of a text for WordPiece: words without white space, punctuation and ideographs apart.
type bertWords struct{ lower, accents bool }

func (b bertWords) apply(e *encoder, i int, p []byte) {
	if !utf8.Valid(p) {
		p = appendLenient(nil, p)
	}
	word := e.buffer(i)
	flush := func() {
		e.piece(i+1, word)
		word = word[:0]
	}
	for at := 0; at < len(p); {
		r, n := utf8.DecodeRune(p[at:])
		at += n
		if !b.accents && r >= utf8.RuneSelf {
			r = firstDecomposed(r)
		}
		t := runeTraits(r)
		switch {
		case t&isSpace != 0:
			flush()
			continue
		case isOther(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs), !b.accents && t&isMark != 0:
			continue
		}
		alone := t&isPunct != 0 || r < 0x7f && t&isSymbol != 0 || isIdeograph(r)
		if b.lower && !(r >= utf8.RuneSelf && noCase(r)) {
			r = unicode.ToLower(r)
		}
		if alone {
			flush()
		}
		word = utf8.AppendRune(word, r)
		if alone {
			flush()
		}
	}
	flush()
	e.keep(i, word)
}
