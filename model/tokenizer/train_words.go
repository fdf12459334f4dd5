package tokenizer

import (
	"cmp"
	"io"
	"slices"
)

// maxWordBytes is the longest word that is counted whole; a longer one counts as several. (Rules of dashes and runs of
// spaces are the usual ones.)
const maxWordBytes = 64

// countedWord is a word and how often it occurs.
type countedWord struct {
	text  string
	count int64
}

// wordCounter counts words, and forgets the rarer half when there are more than its limit: lossy counting in the spirit
// of Manku and Motwani, VLDB 2002, so that what is frequent over the whole text survives.
type wordCounter struct {
	index map[string]int32
	words []countedWord // in order of first appearance
	bytes int           // of all words
	limit int           // of words
	most  int           // of bytes
}

// countWords counts the words of a text, EndOfText left out, and returns them in order of first appearance.
func countWords(text io.Reader, limit, most int) ([]countedWord, error) {
	c := &wordCounter{index: make(map[string]int32), limit: limit, most: most}
	var a added
	if err := a.init([]addedToken{{content: EndOfText}}, 1); err != nil {
		return nil, err
	}
	err := readWords(text, &a, streamBytes, func(word []byte, id int32) error {
		if id >= 0 {
			return nil
		}
		for len(word) > maxWordBytes {
			c.add(word[:maxWordBytes])
			word = word[maxWordBytes:]
		}
		c.add(word)
		return nil
	})
	return c.words, err
}

func (c *wordCounter) add(word []byte) {
	if i, ok := c.index[string(word)]; ok {
		c.words[i].count++
		return
	}
	if len(c.words) > 0 && (len(c.words) == c.limit || c.bytes+len(word) > c.most) {
		c.forget()
	}
	c.bytes += len(word)
	text := string(word)
	c.index[text] = int32(len(c.words))
	c.words = append(c.words, countedWord{text, 1})
}

// forget keeps the more frequent half of the words, the earlier among equals.
func (c *wordCounter) forget() {
	order := make([]int32, len(c.words)) //mem:ok bounded by TrainOptions; training precedes the arenas
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(cmp.Compare(c.words[j].count, c.words[i].count), cmp.Compare(i, j))
	})
	order = order[:len(order)/2]
	slices.Sort(order)
	clear(c.index)
	c.bytes = 0
	for n, i := range order {
		c.bytes += len(c.words[i].text)
		c.words[n] = c.words[i]
		c.index[c.words[n].text] = int32(n)
	}
	clear(c.words[len(order):])
	c.words = c.words[:len(order)]
}
