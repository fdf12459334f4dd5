package tokenizer

import "unicode/utf8"

// lenientLength returns the length of the character that begins s by llama.cpp's reading, which also takes characters in
// more bytes than they need, surrogates, and numbers past the last character; 0 if there is none.
func lenientLength(s []byte) int {
	n := 0
	switch c := s[0]; {
	case c < 0x80:
		return 1
	case c < 0xc0:
		return 0
	case c < 0xe0:
		n = 2
	case c < 0xf0:
		n = 3
	case c < 0xf8:
		n = 4
	default:
		return 0
	}
	if len(s) < n {
		return 0
	}
	for _, c := range s[1:n] {
		if c&0xc0 != 0x80 {
			return 0
		}
	}
	return n
}

// appendLenient appends text to dst as llama.cpp's byte-level vocabularies read it: characters are written anew in the bytes
// they need, and each byte that begins none is U+FFFD. Where that writes surrogates, the result is not UTF-8.
func appendLenient(dst, text []byte) []byte {
	for len(text) > 0 {
		n := lenientLength(text)
		switch {
		case n == 0:
			dst = append(dst, "\uFFFD"...)
			n = 1
		case n == 1:
			dst = append(dst, text[0])
		default:
			dst = appendCodePoint(dst, text[:n])
		}
		text = text[n:]
	}
	return dst
}

// appendCodePoint appends a character of two bytes or more, written in as few as it needs.
func appendCodePoint(dst, c []byte) []byte {
	p := uint32(c[0]) & (0xff >> (len(c) + 1))
	for _, b := range c[1:] {
		p = p<<6 | uint32(b)&0x3f
	}
	switch {
	case p < utf8.RuneSelf:
		return append(dst, byte(p))
	case p < 0x800:
		return append(dst, 0xc0|byte(p>>6), 0x80|byte(p)&0x3f)
	case p < 0x10000:
		return append(dst, 0xe0|byte(p>>12), 0x80|byte(p>>6)&0x3f, 0x80|byte(p)&0x3f)
	case p > utf8.MaxRune: // llama.cpp fails; this is what it does with other nonsense
		return append(dst, "\uFFFD"...)
	}
	return append(dst, 0xf0|byte(p>>18), 0x80|byte(p>>12)&0x3f, 0x80|byte(p>>6)&0x3f, 0x80|byte(p)&0x3f)
}
