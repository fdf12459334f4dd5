package tokenizer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// spaceBytes are what C's isspace holds.
const spaceBytes = " \t\n\v\f\r"

// appendFragments encodes a text as llama.cpp does: added tokens are found one by one, the longest first wherever they are, in what the
// ones before left.
func (t *Tokenizer) appendFragments(e *encoder, text []byte, plain bool, at edges) {
	set := t.added
	if plain {
		set = t.plain
	}
	spans := set.claim(text)
	var bufs [2][]byte
	pos := 0
	for i := 0; i <= len(spans); i++ {
		end := len(text)
		if i < len(spans) {
			end = spans[i].from
		}
		if end > pos {
			e.at = edges{inside: at.inside && pos == 0, more: at.more && end == len(text), first: at.first && pos == 0}
			e.piece(0, t.norm.apply(&bufs, text[pos:end], e.at))
		}
		if i < len(spans) {
			e.dst = append(e.dst, spans[i].id)
			pos = spans[i].to
		}
	}
}

// claimed is a place that an added token has, with the white space that it takes.
type claimed struct {
	from, to int
	id       int32
}

// claim finds the added tokens of a text in llama.cpp's order, and returns them in the order of the text.
func (a *added) claim(text []byte) []claimed {
	seen := make([]bool, len(a.tokens))
	var found []*addedToken // that occur at all: few, however many there are
	for i, c := range text {
		if a.first[c] != a.first[int(c)+1] && len(found) < len(a.tokens) {
			a.at(text[i:], func(t *addedToken, at int32) {
				if !seen[at] {
					seen[at] = true
					found = append(found, t)
				}
			})
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(x, y *addedToken) int {
		return cmp.Or(len(y.content)-len(x.content), int(x.id-y.id))
	})
	parts := []claimed{{0, len(text), -1}} // those with id -1 are free
	for _, t := range found {
		var next []claimed
		for _, p := range parts {
			if p.id >= 0 {
				next = append(next, p)
				continue
			}
			next = t.claim(next, text, p)
		}
		parts = next
	}
	return slices.DeleteFunc(parts, func(p claimed) bool { return p.id < 0 })
}

// claim cuts a free part of the text at each place where the token is, and appends the parts to dst.
func (t *addedToken) claim(dst []claimed, text []byte, p claimed) []claimed {
	for {
		at := bytes.Index(text[p.from:p.to], []byte(t.content))
		if at < 0 {
			break
		}
		from := p.from + at
		to := from + len(t.content)
		for t.lstrip && from > p.from && strings.IndexByte(spaceBytes, text[from-1]) >= 0 {
			from--
		}
		for t.rstrip && to < p.to && strings.IndexByte(spaceBytes, text[to]) >= 0 {
			to++
		}
		if from > p.from {
			dst = append(dst, claimed{p.from, from, -1})
		}
		dst = append(dst, claimed{from, to, t.id})
		p.from = to
	}
	if p.from < p.to {
		dst = append(dst, p)
	}
	return dst
}
