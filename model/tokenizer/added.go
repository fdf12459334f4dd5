package tokenizer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"unicode"
	"unicode/utf8"
)

// maxAddedBytes bounds the text of an added token, so that EncodeReader's margin stays small beside its buffer.
const maxAddedBytes = 1024

// addedToken is a token that is found in the text as a whole, before it is cut into words.
type addedToken struct {
	id         int32
	content    string
	special    bool
	normalized bool // it is looked for in the normalized text
	inVocab    bool // the file lists it in the model's vocabulary too
	lstrip     bool // it takes the white space before it
	rstrip     bool // it takes the white space after it
	singleWord bool // it is none inside a word
}

// plainFind tells whether a token is no more than its text.
func (t *addedToken) plainFind() bool { return !t.lstrip && !t.rstrip && !t.singleWord }

// added finds added tokens in a text: the leftmost, and the longest of those that begin there.
type added struct {
	tokens  []addedToken // in order of their texts
	first   [257]int32   // tokens[first[c]:first[c+1]] begin with byte c
	longest int          // bytes of the longest token, 0 without any
	spaces  bool         // whether a token holds or takes white space
}

// init checks the tokens against a vocabulary of n ids and keeps them.
func (a *added) init(tokens []addedToken, n int) error {
	seen := make(map[string]bool, len(tokens))
	for _, t := range tokens {
		switch {
		case t.content == "":
			return fmt.Errorf("tokenizer: added token %d is empty", t.id)
		case len(t.content) > maxAddedBytes:
			return fmt.Errorf("tokenizer: added token %d has %d bytes, want at most %d", t.id, len(t.content), maxAddedBytes)
		case t.id < 0 || int(t.id) >= n:
			return fmt.Errorf("tokenizer: added token %q has id %d, want one below %d", t.content, t.id, n)
		case seen[t.content]:
			return fmt.Errorf("tokenizer: added token %q appears twice", t.content)
		}
		seen[t.content] = true
	}
	a.keep(tokens)
	return nil
}

// keep takes tokens that have been checked.
func (a *added) keep(tokens []addedToken) {
	a.tokens = slices.Clone(tokens)
	slices.SortFunc(a.tokens, func(x, y addedToken) int { return cmp.Compare(x.content, y.content) })
	a.longest, a.spaces = 0, false
	var counts [257]int32
	for i := range a.tokens {
		t := &a.tokens[i]
		counts[int(t.content[0])+1]++
		a.longest = max(a.longest, len(t.content))
		a.spaces = a.spaces || t.lstrip || t.rstrip || bytes.IndexByte([]byte(t.content), ' ') >= 0
	}
	for c := range 256 {
		counts[c+1] += counts[c]
	}
	a.first = counts
}

// only returns the tokens for which keep holds.
func (a *added) only(keep func(t *addedToken) bool) *added {
	b := &added{}
	var tokens []addedToken
	for i := range a.tokens {
		if keep(&a.tokens[i]) {
			tokens = append(tokens, a.tokens[i])
		}
	}
	b.keep(tokens)
	return b
}

// at calls yield with each token whose text s begins with, the shortest first, and its place in tokens.
func (a *added) at(s []byte, yield func(t *addedToken, place int32)) {
	lo, hi := a.first[s[0]], a.first[int(s[0])+1]
	for depth := 1; lo < hi; depth++ {
		if t := &a.tokens[lo]; len(t.content) == depth {
			yield(t, lo)
			lo++
		}
		if depth == len(s) {
			return
		}
		c := s[depth]
		if hi-lo == 1 { // the usual end
			if t := &a.tokens[lo]; len(t.content) <= len(s) && t.content[depth:] == string(s[depth:len(t.content)]) {
				yield(t, lo)
			}
			return
		}
		lo = a.bound(lo, hi, depth, c)
		if c == 0xff {
			continue
		}
		hi = a.bound(lo, hi, depth, c+1)
	}
}

// bound returns the first of the tokens lo to hi, which are alike before depth and longer, whose byte at depth is c or above.
func (a *added) bound(lo, hi int32, depth int, c byte) int32 {
	for lo < hi {
		if mid := (lo + hi) / 2; a.tokens[mid].content[depth] < c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// find returns where the first added token of the text begins and ends, and its id.
func (a *added) find(text []byte) (from, to int, id int32, ok bool) {
	return a.findAfter(text, 0)
}

// findAfter is find for the text past a place, of which what is before is still seen.
func (a *added) findAfter(text []byte, start int) (from, to int, id int32, ok bool) {
	if len(a.tokens) == 0 {
		return 0, 0, 0, false
	}
	for i := start; i < len(text); i++ {
		c := text[i]
		if a.first[c] == a.first[int(c)+1] {
			continue
		}
		var t *addedToken
		a.at(text[i:], func(found *addedToken, _ int32) { t = found })
		if t == nil {
			continue
		}
		from, to = i, i+len(t.content)
		if t.singleWord && (wordAtEnd(text[:from]) || wordAtStart(text[to:])) {
			i = to - 1
			continue
		}
		if t.lstrip {
			from = max(start, len(bytes.TrimRightFunc(text[:from], unicode.IsSpace)))
		}
		if t.rstrip {
			to = len(text) - len(bytes.TrimLeftFunc(text[to:], unicode.IsSpace))
		}
		return from, to, t.id, true
	}
	return 0, 0, 0, false
}

func wordAtEnd(s []byte) bool {
	r, n := utf8.DecodeLastRune(s)
	return n > 0 && isWord(r)
}

func wordAtStart(s []byte) bool {
	r, n := utf8.DecodeRune(s)
	return n > 0 && isWord(r)
}
