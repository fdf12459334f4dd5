package tokenizer

import "unicode/utf8"

// joints knows between which neighbouring characters a token may lie: those that some token of the vocabulary has side by side. A word
// is cut between all others, and each part encoded alone. It changes no result, since what a model merges or joins is always a token or
// part of one; and it makes short parts of scripts without spaces, most of which are tokens.
//
// It is a set of hashes, which may hold more than was entered: then a word is cut less often. Pairs of ASCII characters have a table of
// their own. Characters are taken by their form, a first byte and as many others as it says; what has another
// form is not cut either. A token of a byte-level vocabulary may hold only the end of the first character or the beginning of the
// second, and stands for all characters with that last byte or first byte.
type joints struct {
	ascii   [utf8.RuneSelf][2]uint64 // by the first of two ASCII characters: a bit for each second
	bits    []uint64                 // len is a power of two; nil: words are not cut
	shift   uint                     // 64 - log2(bits)
	partial bool                     // some token holds part of a character
}

// jointBits is how many bits there are at least for each pair.
const jointBits = 8

// part1 marks the code of a part of a character by one byte of it; those of whole characters are below.
const part1 = 0xffffff00

// charForm returns the length and the code of the character that begins s, which is not empty; 0 if it has not the form of one.
func charForm(s []byte) (n int, code uint32) {
	c := s[0]
	switch {
	case c < utf8.RuneSelf:
		return 1, uint32(c)
	case c < 0xc0:
		return 0, 0
	case c < 0xe0:
		n = 2
	case c < 0xf0:
		n = 3
	case c < 0xf8:
		n = 4
	default:
		return 0, 0
	}
	if len(s) < n {
		return 0, 0
	}
	for _, b := range s[:n] {
		code = code<<8 | uint32(b)
	}
	for _, b := range s[1:n] {
		if b&0xc0 != 0x80 {
			return 0, 0
		}
	}
	return n, code
}

// newJoints looks at the tokens for which has holds.
func newJoints(v *vocab, has func(id int32) bool) joints {
	n := 0
	var j joints
	each := func(yield func(a, b uint32)) {
		for id := range int32(v.size()) {
			if has(id) {
				tokenJoints(v.token(id), yield)
			}
		}
	}
	each(func(a, b uint32) {
		if a < utf8.RuneSelf && b < utf8.RuneSelf {
			j.ascii[a][b>>6] |= 1 << (b & 63)
			return
		}
		n++
		j.partial = j.partial || a >= part1 || b >= part1
	})
	log := uint(6)
	for 1<<log < jointBits*n {
		log++
	}
	j.bits, j.shift = make([]uint64, 1<<(log-6)), 64-log //mem:ok part of the tokenizer line of Runtime, see HeapBytes
	each(func(a, b uint32) {
		if a >= utf8.RuneSelf || b >= utf8.RuneSelf {
			h := j.hash(a, b)
			j.bits[h>>6] |= 1 << (h & 63)
		}
	})
	return j
}

// tokenJoints calls yield with each pair of neighbours in a token.
func tokenJoints(t []byte, yield func(a, b uint32)) {
	at := 0
	for at < len(t) && t[at]&0xc0 == 0x80 {
		at++
	}
	if at == len(t) {
		return
	}
	last, known := uint32(0), at > 0 // what is before at, and whether it has a form
	if known {
		last = part1 | uint32(t[at-1])
	}
	for at < len(t) {
		n, code := charForm(t[at:])
		if n == 0 && cutShort(t[at:]) {
			n, code = len(t)-at, part1|uint32(t[at])
		}
		if n > 0 && known {
			yield(last, code)
		}
		last, known = code, n > 0
		if n == 0 {
			n = 1
		}
		for at += n; at < len(t) && t[at]&0xc0 == 0x80; at++ {
			known = false
		}
	}
}

// cutShort tells whether s is the beginning of a character, and no more.
func cutShort(s []byte) bool {
	if s[0] < 0xc0 || s[0] >= 0xf8 || len(s) >= leadLength(s[0]) {
		return false
	}
	for _, b := range s[1:] {
		if b&0xc0 != 0x80 {
			return false
		}
	}
	return true
}

func (j *joints) hash(a, b uint32) uint64 {
	return (uint64(a)<<32 | uint64(b)) * 0x9e3779b97f4a7c15 >> j.shift
}

func (j *joints) has(a, b uint32) bool {
	h := j.hash(a, b)
	return j.bits[h>>6&uint64(len(j.bits)-1)]>>(h&63)&1 != 0
}

// next returns how much of the beginning of a word, which is not empty, no token reaches out of.
func (j *joints) next(word []byte) int {
	if j.bits == nil {
		return len(word)
	}
	n, last := charForm(word)
	at := max(n, 1)
	for at < len(word) {
		c := word[at]
		if c < utf8.RuneSelf {
			if n == 1 { // two of ASCII
				if j.ascii[last&0x7f][c>>6]>>(c&63)&1 == 0 {
					return at
				}
				last = uint32(c)
				at++
				continue
			}
		}
		m, code := charForm(word[at:])
		if n > 0 && m > 0 && !j.joined(last, code, word[at-1], c) {
			return at
		}
		if m == 0 {
			m = 1
			n = 0
		} else {
			n = m
		}
		last = code
		at += m
	}
	return at
}

// joined tells whether a token may lie across two characters, of which the last and the first byte are given too.
func (j *joints) joined(a, b uint32, last, first byte) bool {
	if j.has(a, b) {
		return true
	}
	if !j.partial {
		return false
	}
	left, right := part1|uint32(last), part1|uint32(first)
	return j.has(a, right) || j.has(left, b) || j.has(left, right)
}

func (j *joints) heapBytes() int64 { return 8 * int64(cap(j.bits)) }
