package tokenizer

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unicode/utf8"
)

// bpe merges the parts of a word into tokens: the bytes of a byte-level vocabulary, else the characters.
type bpe struct {
	byteLevel bool
	byteID    [256]int32 // byte-level: the token of a byte; else its token of byte fallback; -1 without one
	pairs     pairTable
	merges    []merge              // by rank
	index     *index               // the tokens that words may be
	asciiID   [utf8.RuneSelf]int32 // the tokens that are one ASCII character, -1 without
	seen      memo                 // which of them are the tokens of their own text
	joints    joints               // where words may be cut
	lossy     bool                 // some byte has no token

	ignoreMerges bool   // a word that is a token is that token, whatever its merges give
	byteFallback bool   // a character without a token is its bytes
	unknown      int32  // the token of a character without one, -1 to leave it out
	fuseUnknown  bool   // unknown characters in a row are one token
	inner        string // what is before the characters of a word but the first, in the vocabulary
	end          string // what is after the last
	lines        bool   // line feeds alone are the token that they are, if they are one
}

// merge says that the tokens left and right become the token into.
type merge struct{ left, right, into int32 }

// mergeBytes is the size of a merge.
const mergeBytes = 12

// shortWord is the longest word, in bytes, that is merged on the stack by repeated search, which is quadratic in the
// word but quick for the few bytes of most; longer words take a heap.
const shortWord = 48

// memo remembers two bits for each token: whether it has been asked about, and the answer. It only ever learns what is true,
// so goroutines may share it.
type memo struct{ asked, yes []atomic.Uint32 }

func newMemo(n int) memo {
	words := n/32 + 1
	return memo{make([]atomic.Uint32, words), make([]atomic.Uint32, words)}
}

// get returns the answer for a token, and whether it is known.
func (m *memo) get(id int32) (yes, known bool) {
	bit := uint32(1) << (id & 31)
	if m.asked[id>>5].Load()&bit == 0 {
		return false, false
	}
	return m.yes[id>>5].Load()&bit != 0, true
}

func (m *memo) set(id int32, yes bool) {
	bit := uint32(1) << (id & 31)
	if yes {
		m.yes[id>>5].Or(bit)
	}
	m.asked[id>>5].Or(bit)
}

func (m *memo) heapBytes() int64 { return 4 * int64(len(m.asked)+len(m.yes)) }

// initBytes finds the tokens of the bytes in a byte-level vocabulary.
func (b *bpe) initBytes(v *vocab) {
	b.byteLevel, b.unknown = true, -1
	for i := range b.byteID {
		b.byteID[i] = -1
	}
	for id := range int32(v.size()) {
		if t := v.token(id); len(t) == 1 && b.byteID[t[0]] < 0 {
			b.byteID[t[0]] = id
		}
	}
}

// initMerges fills the table of merges.
func (b *bpe) initMerges(v *vocab, merges []merge) error {
	b.merges = merges
	var err error
	if b.pairs, err = newPairTable(len(merges)); err != nil {
		return err
	}
	for rank, m := range merges {
		if !b.pairs.add(m.left, m.right, int32(rank)) {
			return fmt.Errorf("tokenizer: merge %d, %q + %q, appears twice", rank, v.token(m.left), v.token(m.right))
		}
	}
	return nil
}

// initIndex lists the tokens that a word may be: those for which has holds.
func (b *bpe) initIndex(v *vocab, has func(id int32) bool) {
	n := 0
	for id := range int32(v.size()) {
		if has(id) {
			n++
		}
	}
	b.index = newIndex(v, n)
	for id := range int32(v.size()) {
		if has(id) {
			b.index.add(id)
		}
	}
	b.seen = newMemo(v.size())
	for c := range b.asciiID {
		b.asciiID[c] = b.index.find([]byte{byte(c)})
	}
}

// initJoints finds where words may be cut, by the tokens for which has holds. It does not where characters without a token are left out
// or fused, or where merges are of tokens that stand for other text than their own.
func (b *bpe) initJoints(v *vocab, has func(id int32) bool) {
	b.lossy = slices.Min(b.byteID[:]) < 0
	other := func(id int32) bool {
		c, isByte := byteToken(v.token(id))
		return id == b.unknown || !b.byteLevel && isByte && b.byteID[c] == id
	}
	switch {
	case b.inner+b.end != "":
	case !b.byteLevel && (b.lossy || !b.byteFallback):
	case slices.ContainsFunc(b.merges, func(m merge) bool { return other(m.left) || other(m.right) }):
	default:
		b.joints = newJoints(v, has)
	}
}

// keepsAll tells whether all of a word is encoded: what is left out makes neighbours of others.
func (b *bpe) keepsAll(word []byte) bool {
	if b.lossy && b.byteLevel {
		for _, c := range word {
			if b.byteID[c] < 0 {
				return false
			}
		}
	}
	return true
}

func (b *bpe) heapBytes() int64 {
	return pairSlotBytes*int64(cap(b.pairs.slots)) + mergeBytes*int64(cap(b.merges)) + b.index.heapBytes() + b.seen.heapBytes() +
		b.joints.heapBytes()
}

// appendWord appends the tokens of one word. Most words are tokens, and most tokens are what their own text merges into, so
// that looking the word up is all there is to do.
func (b *bpe) appendWord(dst []int32, word []byte) []int32 {
	if b.end != "" || b.inner != "" {
		return b.appendMerged(dst, word)
	}
	if id := b.index.find(word); id >= 0 {
		if b.ignoreMerges || b.lines && word[0] == '\n' {
			return append(dst, id)
		}
		return b.appendToken(dst, word, id)
	}
	n := b.joints.next(word)
	if n == len(word) || !b.keepsAll(word) {
		return b.appendMerged(dst, word)
	}
	for {
		if id := b.index.find(word[:n]); id >= 0 {
			dst = b.appendToken(dst, word[:n], id)
		} else {
			dst = b.appendMerged(dst, word[:n])
		}
		if word = word[n:]; len(word) == 0 {
			return dst
		}
		n = b.joints.next(word)
	}
}

// appendToken is appendMerged for the text of a token, which mostly is what that merges into.
func (b *bpe) appendToken(dst []int32, word []byte, id int32) []int32 {
	whole, known := b.seen.get(id)
	if whole {
		return append(dst, id)
	}
	from := len(dst)
	dst = b.appendMerged(dst, word)
	if !known {
		b.seen.set(id, len(dst) == from+1 && dst[from] == id)
	}
	return dst
}

// appendMerged is appendWord by merging.
func (b *bpe) appendMerged(dst []int32, word []byte) []int32 {
	if len(word) > shortWord {
		return b.appendLongWord(dst, word)
	}
	var room, ranks [shortWord]int32 // ranks[i] is that of the pair (ids[i], ids[i+1])
	ids := b.symbols(room[:0], word)
	n := len(ids)
	for i := range n - 1 {
		ranks[i] = b.pairs.find(ids[i], ids[i+1])
	}
	for n > 1 {
		best, at := int32(noRank), 0
		for i, r := range ranks[:n-1] {
			if r < best {
				best, at = r, i
			}
		}
		if best == noRank {
			break
		}
		ids[at] = b.merges[best].into
		copy(ids[at+1:n-1], ids[at+2:n])
		if at+2 < n {
			copy(ranks[at+1:n-2], ranks[at+2:n-1])
		}
		n--
		if at > 0 {
			ranks[at-1] = b.pairs.find(ids[at-1], ids[at])
		}
		if at+1 < n {
			ranks[at] = b.pairs.find(ids[at], ids[at+1])
		}
	}
	return append(dst, ids[:n]...)
}

// symbols appends the tokens that a word begins as, at most one for each of its bytes.
func (b *bpe) symbols(ids []int32, word []byte) []int32 {
	if b.byteLevel {
		for _, c := range word {
			if id := b.byteID[c]; id >= 0 {
				ids = append(ids, id)
			} else {
				ids = b.appendUnknown(ids, nil)
			}
		}
		return ids
	}
	plain := b.inner == "" && b.end == ""
	for at := 0; at < len(word); {
		if c := word[at]; plain && c < utf8.RuneSelf && b.asciiID[c] >= 0 {
			ids = append(ids, b.asciiID[c])
			at++
			continue
		}
		_, n := utf8.DecodeRune(word[at:])
		part := word[at : at+n]
		key := part
		if b.inner != "" && at > 0 || b.end != "" && at+n == len(word) {
			var room [64]byte
			key = room[:0]
			if at > 0 {
				key = append(key, b.inner...)
			}
			key = append(key, part...)
			if at+n == len(word) {
				key = append(key, b.end...)
			}
		}
		at += n
		if id := b.index.find(key); id >= 0 {
			ids = append(ids, id)
		} else {
			ids = b.appendUnknown(ids, part)
		}
	}
	return ids
}

// appendUnknown appends what stands for a character that is no token.
func (b *bpe) appendUnknown(ids []int32, part []byte) []int32 {
	if b.byteFallback && len(part) > 0 {
		all := true
		for _, c := range part {
			all = all && b.byteID[c] >= 0
		}
		if all {
			for _, c := range part {
				ids = append(ids, b.byteID[c])
			}
			return ids
		}
	}
	if b.unknown < 0 || b.fuseUnknown && len(ids) > 0 && ids[len(ids)-1] == b.unknown {
		return ids
	}
	return append(ids, b.unknown)
}

// appendLongWord is appendMerged in n log n time, with a linked list of tokens and a heap of the pairs that may merge. Its
// heap memory is about 40 bytes for each byte of the word.
func (b *bpe) appendLongWord(dst []int32, word []byte) []int32 {
	ids := b.symbols(make([]int32, 0, len(word)), word) //mem:ok only for a word as long as a page; freed on return
	if len(ids) == 0 {
		return dst
	}
	list := make([]link, len(ids)) //mem:ok only for a word as long as a page; freed on return
	for i, id := range ids {
		list[i] = link{id: id, prev: int32(i - 1), next: int32(i + 1)}
	}
	list[len(list)-1].next = -1
	todo := make(keys, 0, len(ids)+len(ids)/4) //mem:ok only for a word as long as a page; freed on return
	push := func(at int32) {
		if next := list[at].next; next >= 0 {
			if r := b.pairs.find(list[at].id, list[next].id); r != noRank {
				todo.push(uint64(r)<<32 | uint64(at)) // the leftmost among equals
			}
		}
	}
	for i := range list {
		push(int32(i))
	}
	for len(todo) > 0 {
		key := todo.pop()
		at := int32(uint32(key))
		left := &list[at]
		m := b.merges[key>>32]
		// The entry is stale if either token has been merged since.
		if left.id != m.left || left.next < 0 || list[left.next].id != m.right {
			continue
		}
		right := &list[left.next]
		right.id, left.id = -1, m.into
		left.next = right.next
		if left.next >= 0 {
			list[left.next].prev = at
		}
		push(at)
		if left.prev >= 0 {
			push(left.prev)
		}
	}
	for at := int32(0); at >= 0; at = list[at].next {
		dst = append(dst, list[at].id)
	}
	return dst
}

// link is a token in a word that is being merged; a merged-away token has id -1.
type link struct{ id, prev, next int32 }
