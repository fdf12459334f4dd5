package tokenizer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// maxAddedBytes bounds the text of an added token, so that EncodeReader's margin stays small beside its buffer.
const maxAddedBytes = 1024

// addedToken is a token that is found in the text as a whole, before it is cut into words.
type addedToken struct {
	id         int32
	content    string
	special    bool
	normalized bool // kept for Save; without a normaliser it has no effect
	inVocab    bool // the file lists it in the model's vocabulary too
}

// added finds added tokens in a text: the leftmost, and the longest of those that begin there.
type added struct {
	tokens  []addedToken // longest first
	first   [256]bool    // whether some token begins with the byte
	longest int          // bytes of the longest token, 0 without any
}

// init checks the tokens against a vocabulary of n ids and keeps them.
func (a *added) init(tokens []addedToken, n int) error {
	a.tokens = slices.Clone(tokens)
	slices.SortStableFunc(a.tokens, func(x, y addedToken) int { return cmp.Compare(len(y.content), len(x.content)) })
	seen := make(map[string]bool, len(tokens))
	for _, t := range a.tokens {
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
		a.first[t.content[0]] = true
		a.longest = max(a.longest, len(t.content))
	}
	return nil
}

// find returns where the first added token of the text begins and ends, and its id.
func (a *added) find(text []byte) (from, to int, id int32, ok bool) {
	if len(a.tokens) == 0 {
		return 0, 0, 0, false
	}
	for i, c := range text {
		if !a.first[c] {
			continue
		}
		for j := range a.tokens {
			t := &a.tokens[j]
			if bytes.HasPrefix(text[i:], []byte(t.content)) {
				return i, i + len(t.content), t.id, true
			}
		}
	}
	return 0, 0, 0, false
}
