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

// mapped rewrites character by character: f appends what stands for one.
type mapped func(dst []byte, r rune) []byte

func (f mapped) normalize(dst, src []byte, _ edges) []byte {
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		dst = f(dst, r)
		src = src[n:]
	}
	return dst
}

// lowerCase is Rust's char::to_lowercase, which knows one character that becomes two.
func lowerCase(dst []byte, r rune) []byte {
	if r == 'İ' {
		return append(dst, "i\u0307"...)
	}
	return utf8.AppendRune(dst, unicode.ToLower(r))
}

// withoutAccents leaves out marks that take no space.
func withoutAccents(dst []byte, r rune) []byte {
	if unicode.Is(unicode.Mn, r) {
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
	case r == 0 || r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co): // before the question whether it is a space
		return dst
	case unicode.IsSpace(r):
		return append(dst, ' ')
	}
	return utf8.AppendRune(dst, r)
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
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
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
	return unicode.IsPunct(r)
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
