package tokenizer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// charsmap is SentencePiece's precompiled normalization: a trie of texts as a double array, and what stands for each.
//
//	u32 bytes of the trie | units, u32 each | texts, each ended by a zero byte
//
// A unit holds in bits 0–7 the byte that leads to it, in bit 8 whether a value hangs on it, in bits 10–30 the offset of its
// children (times 256 if bit 9 is set), or, with bit 31 set, a value: where in the texts the replacement is. (S. Yata,
// darts-clone; sentencepiece's normalizer.cc.)
type charsmap struct {
	units []uint32
	texts []byte
}

// newCharsmap reads the form above. An empty one maps nothing.
func newCharsmap(blob []byte) (*charsmap, error) {
	if len(blob) == 0 {
		return nil, nil
	}
	if len(blob) < 4 {
		return nil, errors.New("tokenizer: precompiled_charsmap is cut short")
	}
	n := int64(binary.LittleEndian.Uint32(blob))
	if n%4 != 0 || n == 0 || n > int64(len(blob)-4) {
		return nil, errors.New("tokenizer: precompiled_charsmap is cut short")
	}
	m := &charsmap{
		units: make([]uint32, n/4), //mem:ok as large as the part of the file that it is
		texts: bytes.Clone(blob[4+n:]),
	}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(blob[4+4*i:])
	}
	return m, nil
}

func childrenOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// find looks up the beginnings of s: the shortest that the map has, or the longest. It returns the length of that beginning
// and what stands for it; 0 if there is none.
func (m *charsmap) find(s []byte, longest bool) (n int, text []byte) {
	at := childrenOf(m.units[0])
	value := uint32(0)
	for i, c := range s {
		at ^= uint32(c)
		if uint64(at) >= uint64(len(m.units)) || c == 0 {
			break
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(c) {
			break
		}
		at ^= childrenOf(unit)
		if unit>>8&1 != 0 && uint64(at) < uint64(len(m.units)) {
			n, value = i+1, m.units[at]&(1<<31-1)
			if !longest {
				break
			}
		}
	}
	if n == 0 || uint64(value) > uint64(len(m.texts)) {
		return 0, nil
	}
	text = m.texts[value:]
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	return n, text
}

// leads tells whether a text of the map begins with s.
func (m *charsmap) leads(s []byte) bool {
	at := childrenOf(m.units[0])
	for _, c := range s {
		at ^= uint32(c)
		if uint64(at) >= uint64(len(m.units)) || c == 0 || m.units[at]&(1<<31|0xff) != uint32(c) {
			return false
		}
		at ^= childrenOf(m.units[at])
	}
	return true
}

// mappedGraphemes is Hugging Face's use of a charsmap: each grapheme of less than 6 bytes is looked up as a whole, where the
// shortest match stands for all of it, and else each of its characters.
type mappedGraphemes struct {
	m     *charsmap
	ascii [utf8.RuneSelf][]byte // what stands for a character alone
}

func newMappedGraphemes(m *charsmap) *mappedGraphemes {
	g := &mappedGraphemes{m: m}
	for c := range g.ascii {
		g.ascii[c] = []byte{byte(c)}
		if n, text := m.find(g.ascii[c], false); n > 0 {
			g.ascii[c] = text
		}
	}
	return g
}

// alone tells whether the character that begins s, which is UTF-8 and where a grapheme begins, is one: two of ASCII are never together but for a line's end,
// nor an ideograph and what follows it if that is ASCII or an ideograph. It returns its length, and 0 where it does not know.
func alone(s []byte) int {
	ideograph := func(c byte) bool { return c >= 0xe4 && c <= 0xe9 } // U+4000 to U+9FFF
	n := 1
	switch c := s[0]; {
	case c < utf8.RuneSelf && c != '\r':
	case ideograph(c) && len(s) >= 3:
		n = 3
	default:
		return 0
	}
	if len(s) == n || s[n] < utf8.RuneSelf || n == 3 && ideograph(s[n]) {
		return n
	}
	return 0
}

func (g *mappedGraphemes) normalize(dst, src []byte, _ edges) []byte {
	for len(src) > 0 {
		n := alone(src)
		if n == 1 {
			dst = append(dst, g.ascii[src[0]]...)
			src = src[1:]
			continue
		}
		if n == 0 {
			tokens := graphemes.FromBytes(src)
			tokens.Next()
			n = len(tokens.Value())
		}
		cluster := src[:n]
		src = src[n:]
		if len(cluster) < 6 {
			if n, text := g.m.find(cluster, false); n > 0 {
				dst = append(dst, text...)
				continue
			}
		}
		for len(cluster) > 0 {
			_, size := utf8.DecodeRune(cluster)
			if n, text := g.m.find(cluster[:size], false); n > 0 {
				dst = append(dst, text...)
			} else {
				dst = append(dst, cluster[:size]...)
			}
			cluster = cluster[size:]
		}
	}
	return dst
}

// pieceNormalizer is SentencePiece's own normalization: the charsmap, then rules about spaces.
type pieceNormalizer struct {
	m       *charsmap // nil maps nothing
	whole   *textSet  // texts that are left as they are, nil without any
	prefix  bool      // a space before the text, unless it is empty
	suffix  bool      // a space after it instead
	squeeze bool      // spaces at the ends are left out, and of several in a row all but one
	escape  bool      // a space becomes ▁
	lenient bool      // characters are read as llama.cpp does, which takes some that are not UTF-8
	lazy    bool      // the space before the text comes before its first character that is none, as in llama.cpp

	plain [utf8.RuneSelf]bool // characters other than the space that are left as they are if ASCII follows
}

// newPieceNormalizer completes a normalizer whose rules are given.
func newPieceNormalizer(p pieceNormalizer) *pieceNormalizer {
	for c := range p.plain {
		s := []byte{byte(c)}
		p.plain[c] = c != ' ' && (p.whole == nil || p.whole.trie.child(0, byte(c)) < 0)
		if p.plain[c] && p.m != nil && p.m.leads(s) {
			n, _ := p.m.find(s, true)
			p.plain[c] = n == 0
			for d := 0; d < utf8.RuneSelf && p.plain[c]; d++ {
				p.plain[c] = !p.m.leads([]byte{byte(c), byte(d)})
			}
		}
	}
	return &p
}

// run returns how much of the beginning of s is left as it is.
func (p *pieceNormalizer) run(s []byte) int {
	n := 0
	for n < len(s) && s[n] < utf8.RuneSelf && p.plain[s[n]] {
		n++
	}
	if n > 0 && n < len(s) && s[n] >= utf8.RuneSelf {
		n--
	}
	return n
}

// next returns what stands for the beginning of s, and how much of s that is.
func (p *pieceNormalizer) next(s []byte) (text []byte, n int) {
	if p.whole != nil {
		if n := p.whole.longest(s); n > 0 {
			return s[:n], n
		}
	}
	if p.m != nil {
		if n, text := p.m.find(s, true); n > 0 {
			return text, n
		}
	}
	if p.lenient {
		if n := lenientLength(s); n > 0 {
			return s[:n], n
		}
		return []byte("\uFFFD"), 1
	}
	if r, n := utf8.DecodeRune(s); r != utf8.RuneError || n > 1 {
		return s[:n], n
	}
	return []byte("\uFFFD"), 1
}

func (p *pieceNormalizer) normalize(dst, src []byte, at edges) []byte {
	if p.lazy {
		return p.normalizeLazily(dst, src)
	}
	space := []byte{' '}
	if p.escape {
		space = []byte(spaceSign)
	}
	if p.squeeze && !at.inside {
		for len(src) > 0 {
			text, n := p.next(src)
			if !bytes.Equal(text, []byte{' '}) {
				break
			}
			src = src[n:]
		}
	}
	if len(src) == 0 {
		return dst
	}
	from := len(dst)
	if p.prefix && !p.suffix && !at.inside {
		dst = append(dst, space...)
	}
	spaced := p.squeeze && !at.inside
	for len(src) > 0 {
		if n := p.run(src); n > 0 {
			dst, spaced = append(dst, src[:n]...), false
			src = src[n:]
			continue
		}
		text, n := p.next(src)
		for spaced && len(text) > 0 && text[0] == ' ' {
			text = text[1:]
		}
		if len(text) > 0 {
			dst = appendReplaced(dst, text, []byte{' '}, space)
			spaced = p.squeeze && text[len(text)-1] == ' '
		}
		src = src[n:]
	}
	if p.squeeze && !at.more {
		for len(dst)-from >= len(space) && bytes.HasSuffix(dst[from:], space) {
			dst = dst[:len(dst)-len(space)]
		}
	}
	if p.prefix && p.suffix && !at.more {
		dst = append(dst, space...)
	}
	return dst
}

// normalizeLazily is llama.cpp's normalization for unigram vocabularies.
func (p *pieceNormalizer) normalizeLazily(dst, src []byte) []byte {
	space := []byte{' '}
	if p.escape {
		space = []byte(spaceSign)
	}
	prepended, inWord := false, false
	for len(src) > 0 {
		text, n := src, p.run(src)
		if n > 0 {
			text = src[:n]
		} else {
			text, n = p.next(src)
		}
		for _, c := range text {
			if c == ' ' {
				inWord = false
				if !p.squeeze {
					dst = append(dst, space...)
				}
				continue
			}
			if !inWord {
				inWord = true
				if p.prefix && !p.suffix && !prepended || p.squeeze {
					dst = append(dst, space...)
					prepended = true
				}
			}
			dst = append(dst, c)
		}
		src = src[n:]
	}
	if p.prefix && p.suffix {
		dst = append(dst, space...)
	}
	return dst
}
