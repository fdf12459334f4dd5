package tokenizer

import (
	"math"
	"unicode/utf8"
)

// unigram cuts a word into the tokens whose scores, logarithms of probabilities, have the largest sum (Kudo, arXiv 1804.10959;
// the Viterbi search of sentencepiece's EncodeOptimized, which Hugging Face and llama.cpp follow).
type unigram struct {
	trie    trie
	scores  []float64 // by id
	unknown int32     // -1 where a file has none, which then cannot spell every text
	penalty float64   // the score of an unknown character
	byteID  [256]int32
	bytes   bool // an unknown character is its bytes
	narrow  bool // sums are rounded to float32, as in sentencepiece, which a word is a whole text for
	fuse    bool // unknown characters in a row are one token
}

// unknownPenalty is how far below the least score an unknown character lies.
const unknownPenalty = 10

func (u *unigram) heapBytes() int64 { return u.trie.heapBytes() + 8*int64(cap(u.scores)) }

// cell is the best way to reach a place in a word.
type cell struct {
	sum  float64
	from int32 // where its last token begins, -1 if the place has not been reached
	id   int32
}

func (u *unigram) appendWord(dst []int32, word []byte) []int32 {
	var room [128]cell
	cells := room[:0]
	if len(word) >= len(room) {
		cells = make([]cell, 0, len(word)+1)
	}
	cells = append(cells, cell{from: 0, id: -1})
	for range word {
		cells = append(cells, cell{from: -1})
	}
	for at := 0; at < len(word); {
		_, n := utf8.DecodeRune(word[at:])
		here := cells[at].sum
		single := false
		node := int32(0)
		for end := at; end < len(word); {
			if node = u.trie.child(node, word[end]); node < 0 {
				break
			}
			end++
			id := u.trie.nodes[node].id
			if id < 0 {
				continue
			}
			u.offer(&cells[end], here, u.scores[id], at, id)
			single = single || end-at == n
		}
		if !single {
			u.offer(&cells[at+n], here, u.penalty, at, u.unknown)
		}
		at += n
	}
	// The tokens, last first, take the places of cells that are done with.
	k := len(word)
	for end := len(word); end > 0; {
		c := cells[end]
		cells[k] = cell{from: int32(end), id: c.id, sum: float64(c.from)}
		k--
		end = int(c.from)
	}
	start := len(dst)
	for _, c := range cells[k+1:] {
		dst = u.appendToken(dst, start, c.id, word[int(c.sum):c.from])
	}
	return dst
}

// offer takes a way to reach a place if it is better than the one known.
func (u *unigram) offer(c *cell, here, score float64, from int, id int32) {
	sum := here + score
	if u.narrow {
		sum = float64(float32(here) + float32(score))
	}
	if c.from >= 0 && sum <= c.sum {
		return
	}
	*c = cell{sum: sum, from: int32(from), id: id}
}

// appendToken appends a token of the word whose tokens begin at dst[start], or what stands for an unknown character.
func (u *unigram) appendToken(dst []int32, start int, id int32, text []byte) []int32 {
	if id != u.unknown {
		return append(dst, id)
	}
	if u.bytes {
		from := len(dst)
		for _, c := range text {
			if u.byteID[c] < 0 {
				dst = dst[:from]
				break
			}
			dst = append(dst, u.byteID[c])
		}
		if len(dst) > from {
			return dst
		}
	}
	if u.unknown < 0 || u.fuse && len(dst) > start && dst[len(dst)-1] == u.unknown {
		return dst
	}
	return append(dst, u.unknown)
}

// leastScore returns the smallest of the scores of the tokens for which has holds.
func leastScore(scores []float64, has func(id int32) bool) float64 {
	least := math.Inf(1)
	for id, s := range scores {
		if has(int32(id)) {
			least = min(least, s)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}
