package tokenizer

import (
	"math"
	"slices"
	"unicode/utf8"
)

// spm is SentencePiece's byte-pair encoding: of all neighbours whose texts joined are a token, the pair whose token has the
// highest score is joined first, the leftmost among equals. There is no list of merges. (Kudo and Richardson, arXiv
// 1808.06226; sentencepiece's bpe_model.cc and llama.cpp's llm_tokenizer_spm.)
type spm struct {
	index   *index // the tokens that parts may join into
	scores  []float32
	unused  []bool                  // tokens that are taken apart again; nil without any
	frozen  *textSet                // texts that stay whole, nil without any: user-defined symbols
	byteID  [256]int32              // the tokens of byte fallback, -1 without
	unknown int32                   // the token of what has no token nor bytes, -1 to leave it out
	apart   bool                    // unknown parts in a row stay apart, as in llama.cpp
	raw     bool                    // a part is as long as its first byte says, valid or not, as in llama.cpp
	single  func(part []byte) int32 // the token of a part that did not join, for tokens outside index; nil for none
	seen    memo
	joints  joints
}

// initJoints finds where words may be cut, by the tokens for which has holds. It does not where unknown parts are fused, or where a
// token is taken apart as it was joined elsewhere in the word.
func (s *spm) initJoints(v *vocab, has func(id int32) bool) {
	if s.unused == nil && (s.apart || s.unknown < 0 || slices.Min(s.byteID[:]) >= 0) {
		s.joints = newJoints(v, has)
	}
}

func (s *spm) heapBytes() int64 {
	return s.index.heapBytes() + 4*int64(cap(s.scores)) + int64(cap(s.unused)) + s.seen.heapBytes() + s.joints.heapBytes()
}

// part is a stretch of a word that is being joined. One that is joined to its left has length 0.
type part struct {
	from, to   int32
	prev, next int32
	key        uint32 // of the token that it joins to with the part after it, noKey without
	frozen     bool
}

// scoreKey orders tokens that parts may join into: the one with the highest score has the least.
func scoreKey(score float32) uint32 {
	b := math.Float32bits(score)
	switch {
	case score != score: // only in files that make no sense
		return noKey - 1
	case score < 0:
		return b
	case score == 0: // of either sign
		return 1<<31 - 1
	}
	return ^b & (1<<31 - 1)
}

// noKey is above every scoreKey.
const noKey = 1<<32 - 1

func (s *spm) appendWord(dst []int32, word []byte) []int32 {
	if id := s.index.find(word); id >= 0 {
		return s.appendToken(dst, word, id)
	}
	n := len(word)
	if !s.raw || utf8.Valid(word) {
		n = s.joints.next(word)
	}
	if n == len(word) {
		return s.appendJoined(dst, word)
	}
	for {
		if id := s.index.find(word[:n]); id >= 0 {
			dst = s.appendToken(dst, word[:n], id)
		} else {
			dst = s.appendJoined(dst, word[:n])
		}
		if word = word[n:]; len(word) == 0 {
			return dst
		}
		n = s.joints.next(word)
	}
}

// appendToken is appendJoined for the text of a token, which mostly is what that joins into.
func (s *spm) appendToken(dst []int32, word []byte, id int32) []int32 {
	whole, known := s.seen.get(id)
	if whole {
		return append(dst, id)
	}
	from := len(dst)
	dst = s.appendJoined(dst, word)
	if !known {
		s.seen.set(id, len(dst) == from+1 && dst[from] == id)
	}
	return dst
}

// appendJoined is appendWord by joining.
func (s *spm) appendJoined(dst []int32, word []byte) []int32 {
	var room [shortWord]part
	parts := s.parts(room[:0], word)
	var space [2 * shortWord]uint64
	todo := keys(space[:0])
	var taken map[string][2]string
	push := func(left int32) {
		l := &parts[left]
		l.key = noKey
		if l.next < 0 {
			return
		}
		r := &parts[l.next]
		if l.frozen || r.frozen {
			return
		}
		id := s.index.find(word[l.from:r.to])
		if id < 0 {
			return
		}
		l.key = scoreKey(s.scores[id])
		todo.push(uint64(l.key)<<32 | uint64(left)) // the leftmost among equals
		if s.unused != nil && s.unused[id] {
			if taken == nil {
				taken = make(map[string][2]string)
			}
			if text := string(word[l.from:r.to]); taken[text][0] == "" {
				taken[text] = [2]string{string(word[l.from:l.to]), string(word[r.from:r.to])}
			}
		}
	}
	for i := range parts {
		push(int32(i))
	}
	for len(todo) > 0 {
		key := todo.pop()
		left := int32(uint32(key))
		l := &parts[left]
		if l.key != uint32(key>>32) {
			continue // one of the two has been joined since
		}
		r := &parts[l.next]
		l.to, r.from = r.to, r.to
		r.key = noKey
		l.next = r.next
		if l.next >= 0 {
			parts[l.next].prev = left
		}
		if l.prev >= 0 {
			push(l.prev)
		}
		push(left)
	}
	if start := len(dst); len(parts) > 0 {
		for at := int32(0); at >= 0; at = parts[at].next {
			dst = s.appendPart(dst, start, word[parts[at].from:parts[at].to], taken, 0)
		}
	}
	return dst
}

// appendPart appends the token of a part that joins no further, in a word whose tokens begin at dst[start].
func (s *spm) appendPart(dst []int32, start int, text []byte, taken map[string][2]string, depth int) []int32 {
	id := s.index.find(text)
	if id < 0 && s.single != nil {
		id = s.single(text)
	}
	if id >= 0 {
		if s.unused == nil || !s.unused[id] || depth > 100 {
			return append(dst, id)
		}
		halves, ok := taken[string(text)]
		if !ok {
			return append(dst, id)
		}
		dst = s.appendPart(dst, start, []byte(halves[0]), taken, depth+1)
		return s.appendPart(dst, start, []byte(halves[1]), taken, depth+1)
	}
	return s.appendBytes(dst, start, text)
}

// appendBytes appends the bytes of a part that is no token, or the unknown token.
func (s *spm) appendBytes(dst []int32, start int, text []byte) []int32 {
	from := len(dst)
	for _, c := range text {
		if s.byteID[c] < 0 {
			dst = dst[:from]
			break
		}
		dst = append(dst, s.byteID[c])
	}
	if len(dst) > from || s.unknown < 0 {
		return dst
	}
	if !s.apart && from > start && dst[from-1] == s.unknown {
		return dst
	}
	return append(dst, s.unknown)
}

// parts appends what a word begins as: its characters, and the texts that stay whole.
func (s *spm) parts(parts []part, word []byte) []part {
	for at := 0; at < len(word); {
		n, frozen := 0, false
		if s.frozen != nil {
			n = s.frozen.longest(word[at:])
			frozen = n > 0
		}
		if n == 0 && s.raw {
			n = min(leadLength(word[at]), len(word)-at)
		} else if n == 0 {
			_, n = utf8.DecodeRune(word[at:])
		}
		i := int32(len(parts))
		parts = append(parts, part{from: int32(at), to: int32(at + n), prev: i - 1, next: i + 1, frozen: frozen})
		at += n
	}
	if len(parts) > 0 {
		parts[len(parts)-1].next = -1
	}
	return parts
}

// leadLength is how long a character is that begins with a byte, by llama.cpp's table: 1 for what begins none.
func leadLength(c byte) int {
	switch {
	case c < 0xc0:
		return 1
	case c < 0xe0:
		return 2
	case c < 0xf0:
		return 3
	}
	return 4
}

// textSet finds the longest of some texts at the beginning of another.
type textSet struct{ trie trie }

// newTextSet returns the set of the texts, nil without any.
func newTextSet(texts []string) *textSet {
	if len(texts) == 0 {
		return nil
	}
	list := make([][]byte, len(texts))
	for i, t := range texts {
		list[i] = []byte(t)
	}
	v := packVocab(list)
	return &textSet{newTrie(&v, func(int32) bool { return true })}
}

// longest returns the length of the longest of the texts that s begins with, 0 for none.
func (s *textSet) longest(p []byte) (n int) {
	node := int32(0)
	for i, c := range p {
		if node = s.trie.child(node, c); node < 0 {
			break
		}
		if s.trie.id(node) >= 0 {
			n = i + 1
		}
	}
	return n
}
