package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// traits are what the split patterns ask about a character, as a set.
type traits uint8

const (
	isLetter traits = 1 << iota // \p{L}
	isMark                      // \p{M}
	isNumber                    // \p{N}
	isSpace                     // \s: Unicode's White_Space
	isPunct                     // \p{P}
	isSymbol                    // \p{S}
	isUpper                     // \p{Lu} or \p{Lt}: a letter that is not lower case
	isLower                     // \p{Ll}: a letter that is not upper case
)

// asciiTraits are the traits of the characters below 128.
var asciiTraits = func() (t [utf8.RuneSelf]traits) {
	for r := range rune(utf8.RuneSelf) {
		t[r] = unicodeTraits(r)
	}
	return t
}()

// unicodeTraits looks a character up in Unicode's tables of ranges, which traitPages are quicker than.
func unicodeTraits(r rune) traits {
	switch {
	case unicode.IsLetter(r):
		switch {
		case unicode.In(r, unicode.Ll):
			return isLetter | isLower
		case unicode.In(r, unicode.Lu, unicode.Lt):
			return isLetter | isUpper
		}
		return isLetter
	case unicode.IsSpace(r):
		return isSpace
	case unicode.IsNumber(r):
		return isNumber
	case unicode.IsMark(r):
		return isMark
	case unicode.IsPunct(r):
		return isPunct
	case unicode.IsSymbol(r):
		return isSymbol
	}
	return 0
}

// traitPages are the traits of the characters below pagedEnd, a page for each pageRunes of them; equal pages are one. They take
// about 50 KiB.
type traitPages struct {
	page  [pagedEnd / pageRunes]uint16
	pages [][pageRunes]traits
}

const (
	pageRunes = 128
	pagedEnd  = 0x34000 // past it are variation selectors, tags and what has no traits
)

var pagedTraits = newTraitPages()

func newTraitPages() (p traitPages) {
	flat := make([]traits, pagedEnd) //mem:ok 208 KiB, freed on return
	for _, set := range []struct {
		table *unicode.RangeTable
		t     traits
	}{
		{unicode.L, isLetter}, {unicode.Ll, isLower}, {unicode.Lu, isUpper}, {unicode.Lt, isUpper}, {unicode.M, isMark}, {unicode.N, isNumber},
		{unicode.White_Space, isSpace}, {unicode.P, isPunct}, {unicode.S, isSymbol},
	} {
		for _, r := range set.table.R16 {
			for c := uint32(r.Lo); c <= uint32(r.Hi); c += uint32(r.Stride) {
				flat[c] |= set.t
			}
		}
		for _, r := range set.table.R32 {
			for c := r.Lo; c <= min(r.Hi, pagedEnd-1); c += r.Stride {
				flat[c] |= set.t
			}
		}
	}
	known := make(map[[pageRunes]traits]uint16)
	for i := range p.page {
		page := [pageRunes]traits(flat[i*pageRunes:])
		at, ok := known[page]
		if !ok {
			at = uint16(len(p.pages))
			known[page] = at
			p.pages = append(p.pages, page)
		}
		p.page[i] = at
	}
	return p
}

// runeTraits is unicodeTraits, quickly.
func runeTraits(r rune) traits {
	if r >= pagedEnd {
		return unicodeTraits(r)
	}
	p := &pagedTraits
	return p.pages[p.page[uint32(r)/pageRunes]][uint32(r)%pageRunes]
}

// traitsOf returns the traits and the length of the character that begins s, which is not empty. A byte that is not UTF-8
// has no traits.
func traitsOf(s []byte) (traits, int) {
	if s[0] < utf8.RuneSelf {
		return asciiTraits[s[0]], 1
	}
	r, n := utf8.DecodeRune(s)
	if r == utf8.RuneError && n == 1 {
		return 0, 1
	}
	return runeTraits(r), n
}

// run returns the length of the longest beginning of s whose characters all have a trait of the set.
func run(s []byte, set traits) int {
	n := 0
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if t&set == 0 {
			break
		}
		n += m
	}
	return n
}

// runWithout returns the length of the longest beginning of s whose characters all have no trait of the set.
func runWithout(s []byte, set traits) int {
	n := 0
	for n < len(s) {
		t, m := traitsOf(s[n:])
		if t&set != 0 {
			break
		}
		n += m
	}
	return n
}

// runOf returns the length of the longest beginning of s that is made of the ASCII characters in set.
func runOf(s []byte, set string) int {
	n := 0
	for n < len(s) {
		found := false
		for i := range len(set) {
			found = found || s[n] == set[i]
		}
		if !found {
			break
		}
		n++
	}
	return n
}

// isWord tells whether \w of Rust's regex holds a character; see wordOrJoiner.
func isWord(r rune) bool {
	return r == '_' || r == 0x200c || r == 0x200d || r >= 0x24b6 && r <= 0x24e9 || r >= 0x1f130 && r <= 0x1f149 ||
		r >= 0x1f150 && r <= 0x1f169 || r >= 0x1f170 && r <= 0x1f189 || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.In(r, unicode.Nd, unicode.Nl, unicode.Pc)
}

// appendValid appends text to dst with each maximal part that is not UTF-8 replaced by U+FFFD, as Python's
// bytes.decode(errors="replace") does (Unicode 15, section 3.9, table 3-8).
func appendValid(dst, text []byte) []byte {
	for len(text) > 0 {
		if text[0] < utf8.RuneSelf {
			n := 1
			for n < len(text) && text[n] < utf8.RuneSelf {
				n++
			}
			dst = append(dst, text[:n]...)
			text = text[n:]
			continue
		}
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, "\uFFFD"...)
			n = illFormed(text)
		} else {
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}

// illFormed returns the length of the maximal part at the beginning of s that begins like a character and is none.
func illFormed(s []byte) int {
	want, low, high := 0, byte(0x80), byte(0xbf)
	switch c := s[0]; {
	case c >= 0xc2 && c <= 0xdf:
		want = 2
	case c >= 0xe0 && c <= 0xef:
		want = 3
		if c == 0xe0 {
			low = 0xa0
		} else if c == 0xed {
			high = 0x9f
		}
	case c >= 0xf0 && c <= 0xf4:
		want = 4
		if c == 0xf0 {
			low = 0x90
		} else if c == 0xf4 {
			high = 0x8f
		}
	default:
		return 1
	}
	n := 1
	for n < want && n < len(s) && s[n] >= low && s[n] <= high {
		n, low, high = n+1, 0x80, 0xbf
	}
	return n
}
