package tokenizer

import "fmt"

// bpe merges the bytes of a word into tokens.
type bpe struct {
	byteID [256]int32
	pairs  pairTable
	merges []merge // by rank
}

// merge says that the tokens left and right become the token into.
type merge struct{ left, right, into int32 }

// mergeBytes is the size of a merge.
const mergeBytes = 12

// shortWord is the longest word, in bytes, that is merged on the stack by repeated search, which is quadratic in the
// word but quick for the few bytes of most; longer words take a heap.
const shortWord = 48

// init fills the tables from the vocabulary and its merges.
func (b *bpe) init(tokens [][]byte, merges []merge) error {
	for i := range b.byteID {
		b.byteID[i] = -1
	}
	for id, t := range tokens {
		if len(t) == 1 && b.byteID[t[0]] < 0 {
			b.byteID[t[0]] = int32(id)
		}
	}
	for i, id := range b.byteID {
		if id < 0 {
			return fmt.Errorf("tokenizer: vocabulary lacks the token of byte 0x%02x", i)
		}
	}
	b.merges = merges
	b.pairs = newPairTable(len(merges))
	for rank, m := range merges {
		if !b.pairs.add(m.left, m.right, int32(rank)) {
			return fmt.Errorf("tokenizer: merge %d, %q + %q, appears twice", rank, tokens[m.left], tokens[m.right])
		}
	}
	return nil
}

// appendWord appends the tokens of one word.
func (b *bpe) appendWord(dst []int32, word []byte) []int32 {
	if len(word) > shortWord {
		return b.appendLongWord(dst, word)
	}
	var ids, ranks [shortWord]int32 // ranks[i] is that of the pair (ids[i], ids[i+1])
	n := len(word)
	for i, c := range word {
		ids[i] = b.byteID[c]
	}
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

// appendLongWord is appendWord in n log n time, with a linked list of tokens and a heap of the pairs that may merge. Its
// heap memory is about 36 bytes for each byte of the word.
func (b *bpe) appendLongWord(dst []int32, word []byte) []int32 {
	list := make([]link, len(word)) //mem:ok only for a word as long as a page; freed on return
	for i, c := range word {
		list[i] = link{id: b.byteID[c], prev: int32(i - 1), next: int32(i + 1)}
	}
	list[len(list)-1].next = -1
	var todo queue[heapPair]
	push := func(at int32) {
		if next := list[at].next; next >= 0 {
			if r := b.pairs.find(list[at].id, list[next].id); r != noRank {
				todo.push(heapPair{rank: r, at: at})
			}
		}
	}
	for i := range list {
		push(int32(i))
	}
	for len(todo) > 0 {
		p := todo.pop()
		left := &list[p.at]
		m := b.merges[p.rank]
		// The entry is stale if either token has been merged since.
		if left.id != m.left || left.next < 0 || list[left.next].id != m.right {
			continue
		}
		right := &list[left.next]
		right.id, left.id = -1, m.into
		left.next = right.next
		if left.next >= 0 {
			list[left.next].prev = p.at
		}
		push(p.at)
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

// heapPair is a pair that may merge: the rank of its merge, and where its left token is. The lowest rank comes first, and
// the leftmost among equals.
type heapPair struct{ rank, at int32 }

func (a heapPair) before(b heapPair) bool {
	return a.rank < b.rank || a.rank == b.rank && a.at < b.at
}
