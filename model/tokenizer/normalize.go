package tokenizer

import (
	"bytes"
	"fmt"
	"regexp"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// prefix puts a text before what is not empty.
type prefix string

func (p prefix) normalize(dst, src []byte, at edges) []byte {
	if len(src) > 0 && !at.inside {
		dst = append(dst, p...)
	}
	return append(dst, src...)
}

// replaced writes one text as another.
type replaced struct{ from, to []byte }

func (r replaced) normalize(dst, src []byte, _ edges) []byte {
	return appendReplaced(dst, src, r.from, r.to)
}

// replacedPattern writes each match of a pattern as a text.
type replacedPattern struct {
	re *regexp.Regexp
	to []byte
}

func (r replacedPattern) normalize(dst, src []byte, _ edges) []byte {
	return append(dst, r.re.ReplaceAllLiteral(src, r.to)...)
}

// form is a Unicode normalization form.
type form norm.Form

func (f form) normalize(dst, src []byte, _ edges) []byte {
	for i, c := range src {
		if c >= utf8.RuneSelf {
			return norm.Form(f).Append(append(dst, src[:max(i-1, 0)]...), src[max(i-1, 0):]...)
		}
	}
	return append(dst, src...)
}

// mapped rewrites character by character.
type mapped struct {
	f     func(dst []byte, r rune) []byte // appends what stands for one
	ascii [utf8.RuneSelf]int16            // the byte that stands for an ASCII character, -1 where it is not one byte
}

func newMapped(f func(dst []byte, r rune) []byte) *mapped {
	m := &mapped{f: f}
	for c := range m.ascii {
		m.ascii[c] = -1
		if b := f(nil, rune(c)); len(b) == 1 {
			m.ascii[c] = int16(b[0])
		}
	}
	return m
}

func (m *mapped) normalize(dst, src []byte, _ edges) []byte {
	for at := 0; at < len(src); {
		if c := src[at]; c < utf8.RuneSelf {
			if b := m.ascii[c]; b >= 0 {
				dst = append(dst, byte(b))
			} else {
				dst = m.f(dst, rune(c))
			}
			at++
			continue
		}
		r, n := utf8.DecodeRune(src[at:])
		dst = m.f(dst, r)
		at += n
	}
	return dst
}

// lowerCase is Rust's char::to_lowercase, which knows one character that becomes two.
func lowerCase(dst []byte, r rune) []byte {
	switch {
	case r == 'İ':
		return append(dst, "i\u0307"...)
	case r >= utf8.RuneSelf && noCase(r):
		return utf8.AppendRune(dst, r)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// noCase tells letters, past ASCII, that have no other in lower case; not all that are so.
func noCase(r rune) bool {
	t := runeTraits(r)
	return t&isLetter != 0 && t&isUpper == 0
}

// withoutAccents leaves out marks that take no space.
func withoutAccents(dst []byte, r rune) []byte {
	if r >= utf8.RuneSelf && runeTraits(r)&isMark != 0 && unicode.Is(unicode.Mn, r) {
		return dst
	}
	return utf8.AppendRune(dst, r)
}

// stripped leaves out white space at the ends.
type stripped struct{ left, right bool }

func (s stripped) normalize(dst, src []byte, at edges) []byte {
	if s.left && !at.inside {
		src = bytes.TrimLeftFunc(src, unicode.IsSpace)
	}
	if s.right && !at.more {
		src = bytes.TrimRightFunc(src, unicode.IsSpace)
	}
	return append(dst, src...)
}

// cleaned is the first step of BERT: no control characters, all white space a space.
func cleaned(dst []byte, r rune) []byte {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return append(dst, ' ')
	case isOther(r, unicode.Cc, unicode.Cf, unicode.Co): // before the question whether it is a space
		return dst
	case unicode.IsSpace(r):
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
}

// isOther tells whether a character is of some categories that are neither letters, marks, numbers, punctuation nor symbols, or stands for none.
func isOther(r rune, in ...*unicode.RangeTable) bool {
	const known = isLetter | isMark | isNumber | isPunct | isSymbol
	return r == 0 || r == utf8.RuneError || runeTraits(r)&known == 0 && unicode.In(r, in...)
}

// spacedIdeographs puts spaces around each CJK ideograph.
func spacedIdeographs(dst []byte, r rune) []byte {
	if !isIdeograph(r) {
		return utf8.AppendRune(dst, r)
	}
	return append(utf8.AppendRune(append(dst, ' '), r), ' ')
}

// isIdeograph is BERT's list, with Hugging Face's 2B920 where Unicode has 2B820.
func isIdeograph(r rune) bool {
	return r >= 0x3400 && (r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F)
}

// nmt is SentencePiece's cleaning for machine translation.
func nmt(dst []byte, r rune) []byte {
	switch {
	case r >= 1 && r <= 8, r == 0xb, r >= 0xe && r <= 0x1f, r == 0x7f, r == 0x8f, r == 0x9f:
		return dst
	case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200b && r <= 0x200f, r == 0x2028, r == 0x2029, r == 0x2581,
		r == 0xfeff, r == 0xfffd:
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
}

// isPunctuation is what BERT and Hugging Face's Punctuation cut at.
func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
	}
	return runeTraits(r)&isPunct != 0
}

// normalizers are steps in a row.
type normalizers []normalizer

// apply runs the steps over src and returns the result: src itself, or the last of the two buffers, which it uses in turn.
func (n normalizers) apply(bufs *[2][]byte, src []byte, at edges) []byte {
	for i, step := range n {
		b := &bufs[i&1]
		*b = step.normalize((*b)[:0], src, at)
		src = *b
	}
	return src
}

// What a file's steps may make of a text: each character at most so many times as long, and before it at most so many bytes.
const (
	maxGrowth = 1024
	maxPrefix = 1024
)

// bounded refuses steps that make texts much longer: the memory that a text takes has to be of its own length.
func (n normalizers) bounded() error {
	growth, before := 1.0, 0.0
	for _, step := range n {
		by := 1.0
		switch x := step.(type) {
		case prefix:
			before += float64(len(x))
		case replaced:
			by = max(1, float64(len(x.to))/float64(len(x.from)))
		case replacedPattern:
			by = 1 + float64(len(x.to)) // it may match nothing, before each byte
		}
		growth, before = growth*by, before*by
		if growth > maxGrowth || before > maxPrefix {
			return fmt.Errorf("tokenizer: its normalizers may make a text more than %d times as long, or put more than %d bytes before it", maxGrowth, maxPrefix)
		}
	}
	return nil
}
