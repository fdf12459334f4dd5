package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// A model turns a piece of text, as the stages before it leave it, into tokens.
type model interface {
	// appendWord appends the tokens of a piece that is not empty.
	appendWord(dst []int32, word []byte) []int32
	// heapBytes is what the model's tables take, the vocabulary left out.
	heapBytes() int64
}

// A normalizer rewrites a text, or what remains between added tokens. It appends the result to dst, which src does not overlap.
type normalizer interface {
	normalize(dst, src []byte, at edges) []byte
}

// edges say what lies at the two ends of a text that comes in parts.
type edges struct {
	inside bool // it begins inside the text, before a single space
	more   bool // the text goes on after it
	first  bool // it begins where the whole text does, before any added token
}

// A stage cuts or rewrites a piece of text and hands the parts, in order, to the next stage with encoder.piece.
type stage interface {
	apply(e *encoder, i int, p []byte)
}

// encoder is one run of a Tokenizer over a text.
type encoder struct {
	stages []stage
	model  model
	dst    []int32
	at     edges
	bufs   [][]byte // by stage, for those that rewrite
}

// piece hands a part of the text to stage i, or past the last one to the model.
func (e *encoder) piece(i int, p []byte) {
	if len(p) == 0 {
		return
	}
	if i == len(e.stages) {
		e.dst = e.model.appendWord(e.dst, p)
		return
	}
	e.stages[i].apply(e, i, p)
}

// buffer returns the empty buffer of stage i; keep stores it after use.
func (e *encoder) buffer(i int) []byte {
	for len(e.bufs) <= i {
		e.bufs = append(e.bufs, nil)
	}
	return e.bufs[i][:0]
}

func (e *encoder) keep(i int, b []byte) { e.bufs[i] = b }

// behavior is what happens to the matches of a split.
type behavior uint8

const (
	isolated           behavior = iota // a match is a piece of its own
	removed                            // it is left out
	mergedWithPrevious                 // it ends the piece before it
	mergedWithNext                     // it begins the piece after it
	contiguous                         // matches in a row are one piece
)

// behaviors are the names that files have for them.
func behaviors() map[string]behavior {
	return map[string]behavior{
		"Isolated": isolated, "Removed": removed, "MergedWithPrevious": mergedWithPrevious, "MergedWithNext": mergedWithNext,
		"Contiguous": contiguous,
	}
}

// split is the stage that cuts by a pattern.
type split struct {
	splitter splitter
	behavior behavior
	invert   bool // a match is what the pattern does not match
}

func (s *split) apply(e *encoder, i int, p []byte) {
	if s.behavior == isolated {
		for len(p) > 0 {
			n, _ := s.splitter.next(p)
			e.piece(i+1, p[:n])
			p = p[n:]
		}
		return
	}
	from, at := 0, 0 // p[from:at] is held: a piece that may still grow
	last := false    // whether its end is a match
	for at < len(p) {
		n, match := s.splitter.next(p[at:])
		match = match != s.invert
		grows := false
		switch s.behavior {
		case mergedWithPrevious:
			grows = match && !last
		case mergedWithNext:
			grows = !match && last
		case contiguous:
			grows = match == last
		}
		if s.behavior == removed {
			if !match {
				e.piece(i+1, p[at:at+n])
			}
		} else if !grows && at > from {
			e.piece(i+1, p[from:at])
			from = at
		}
		at += n
		last = match
	}
	if s.behavior != removed {
		e.piece(i+1, p[from:])
	}
}

// characters is the splitter that matches single characters.
type characters struct {
	f     func(r rune) bool
	ascii [utf8.RuneSelf]bool
}

func newCharacters(f func(r rune) bool) *characters {
	x := &characters{f: f}
	for c := range x.ascii {
		x.ascii[c] = f(rune(c))
	}
	return x
}

func (x *characters) next(s []byte) (int, bool) {
	for at := 0; at < len(s); {
		r, n := rune(s[at]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(s[at:])
		}
		if r < utf8.RuneSelf && x.ascii[r] || r >= utf8.RuneSelf && x.f(r) {
			if at > 0 {
				return at, false
			}
			return n, true
		}
		at += n
	}
	return len(s), false
}

// literal is the splitter that matches a text.
type literal string

func (l literal) next(s []byte) (int, bool) {
	switch at := bytes.Index(s, []byte(l)); {
	case at < 0:
		return len(s), false
	case at > 0:
		return at, false
	}
	return len(l), true
}

// spacePrefix puts a space before each piece that has none.
type spacePrefix struct{}

func (spacePrefix) apply(e *encoder, i int, p []byte) {
	if p[0] == ' ' || e.at.inside {
		e.piece(i+1, p)
		return
	}
	b := append(append(e.buffer(i), ' '), p...)
	e.keep(i, b)
	e.piece(i+1, b)
}

// prepend says where metaspace puts a sign for a space that is not there.
type prepend uint8

const (
	prependNever  prepend = iota
	prependFirst          // at the beginning of the text
	prependAlways         // also after each added token
)

// metaspace writes spaces as another character, and cuts before each.
type metaspace struct {
	sign    []byte
	prepend prepend
	split   bool
}

func (m *metaspace) apply(e *encoder, i int, p []byte) {
	b := appendReplaced(e.buffer(i), p, []byte{' '}, m.sign)
	if m.prepend == prependAlways && !e.at.inside || m.prepend == prependFirst && e.at.first {
		if !bytes.HasPrefix(b, m.sign) {
			b = append(b, m.sign...)
			copy(b[len(m.sign):], b[:len(b)-len(m.sign)])
			copy(b, m.sign)
		}
	}
	e.keep(i, b)
	if !m.split {
		e.piece(i+1, b)
		return
	}
	for len(b) > 0 {
		n := bytes.Index(b[1:], m.sign) + 1
		if n == 0 {
			n = len(b)
		}
		e.piece(i+1, b[:n])
		b = b[n:]
	}
}

// appendReplaced appends src to dst with each from in it, which is not empty, written as to.
func appendReplaced(dst, src, from, to []byte) []byte {
	for {
		at := bytes.Index(src, from)
		if at < 0 {
			return append(dst, src...)
		}
		dst = append(append(dst, src[:at]...), to...)
		src = src[at+len(from):]
	}
}

// spaceSign is ▁, U+2581, by which SentencePiece writes a space.
const spaceSign = "\u2581"

// spaceCut cuts a text before each ▁ that no token can reach across. It changes no result: what a model merges or joins is
// always a token, or part of one. It keeps words short, and so quick.
type spaceCut struct {
	crossed [256]bool // whether some token has a ▁ after a character that ends in that byte
	whole   bool      // leaves text that is not UTF-8 whole: its characters may swallow a ▁
}

// newSpaceCut looks at the tokens of an index. Runs of ▁ stay together.
func newSpaceCut(v *vocab, has func(id int32) bool) *spaceCut {
	c := &spaceCut{}
	c.crossed[spaceSign[len(spaceSign)-1]] = true
	for id := range int32(v.size()) {
		if !has(id) {
			continue
		}
		for t := v.token(id); len(t) > 0; {
			at := bytes.Index(t, []byte(spaceSign))
			if at < 0 {
				break
			}
			if at > 0 {
				c.crossed[t[at-1]] = true
			}
			t = t[at+len(spaceSign):]
			if bytes.HasPrefix(t, []byte(spaceSign)) {
				continue
			}
		}
	}
	return c
}

func (c *spaceCut) apply(e *encoder, i int, p []byte) {
	if c.whole && !utf8.Valid(p) {
		e.piece(i+1, p)
		return
	}
	from, at := 0, 0
	for {
		n := bytes.Index(p[at:], []byte(spaceSign))
		if n < 0 {
			break
		}
		at += n
		if at > from && !c.crossed[p[at-1]] {
			e.piece(i+1, p[from:at])
			from = at
		}
		at += len(spaceSign)
	}
	e.piece(i+1, p[from:])
}
