package tokenizer

import (
	"bytes"
	"slices"
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
	type found struct {
		token *addedToken
		at    int
	}
	var all []found
	for i, c := range text {
		if a.first[c] != a.first[int(c)+1] {
			a.at(text[i:], func(t *addedToken) { all = append(all, found{t, i}) })
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y found) int {
		if n := len(y.token.content) - len(x.token.content); n != 0 {
			return n
		}
		if n := int(x.token.id - y.token.id); n != 0 {
			return n
		}
		return x.at - y.at
	})
	taken := make([]bool, len(text)+1) //mem:ok as large as the text, which is the caller's
	var spans []claimed
	for _, f := range all {
		from, to := f.at, f.at+len(f.token.content)
		if slices.Contains(taken[from:to], true) {
			continue
		}
		for f.token.lstrip && from > 0 && !taken[from-1] && bytes.IndexByte([]byte(spaceBytes), text[from-1]) >= 0 {
			from--
		}
		for f.token.rstrip && to < len(text) && !taken[to] && bytes.IndexByte([]byte(spaceBytes), text[to]) >= 0 {
			to++
		}
		for i := from; i < to; i++ {
			taken[i] = true
		}
		spans = append(spans, claimed{from, to, f.token.id})
	}
	slices.SortFunc(spans, func(x, y claimed) int { return x.from - y.from })
	return spans
}
