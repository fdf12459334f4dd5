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

// appendWord goes through a word that may be a whole text. Where no token reaches across a place, what is before is decided, and only
// the sum goes on: so cells are few, and those of short stretches stay in cache.
func (u *unigram) appendWord(dst []int32, word []byte) []int32 {
	var room [128]cell
	cells := append(room[:0], cell{id: -1}) // of the places from base on, as far as some way leads
	base, start := 0, len(dst)
	for at := 0; at < len(word); {
		if k := at - base; k > 0 && k == len(cells)-1 {
			dst = u.appendWay(dst, start, cells, word[base:at])
			cells = append(cells[:0], cell{sum: cells[k].sum, id: -1})
			base = at
		}
		_, n := utf8.DecodeRune(word[at:])
		here := cells[at-base].sum
		single := false
		node := int32(0)
		for end := at; end < len(word); {
			if node = u.trie.child(node, word[end]); node < 0 {
				break
			}
			end++
			id := u.trie.id(node)
			if id < 0 {
				continue
			}
			for len(cells) <= end-base {
				cells = append(cells, cell{from: -1})
			}
			u.offer(&cells[end-base], here, u.scores[id], at-base, id)
			single = single || end-at == n
		}
		if !single {
			for len(cells) <= at+n-base {
				cells = append(cells, cell{from: -1})
			}
			u.offer(&cells[at+n-base], here, u.penalty, at-base, u.unknown)
		}
		at += n
	}
	return u.appendWay(dst, start, cells, word[base:])
}

// appendWay appends the tokens of the best way through a part of a word whose tokens begin at dst[start], of which cells are the places.
func (u *unigram) appendWay(dst []int32, start int, cells []cell, part []byte) []int32 {
	// The tokens, last first, take the places of cells that are done with; that of the end keeps its sum.
	last := len(part)
	k := last
	for end := last; end > 0; {
		c := cells[end]
		cells[k].from, cells[k].id = int32(end), c.id
		k--
		end = int(c.from)
	}
	from := int32(0)
	for _, c := range cells[k+1 : last+1] {
		dst = u.appendToken(dst, start, c.id, part[from:c.from])
		from = c.from
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
