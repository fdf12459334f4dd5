package tokenizer

import (
	"fmt"
	"io"
)

// TrainOptions bounds and steers the training of a tokenizer. The zero value takes the defaults.
type TrainOptions struct {
	// MinCount is how often a pair must occur to be merged; 0 means 2.
	MinCount int64
	// MaxWords bounds the different words that are counted; 0 means 65,536, or eight for each token asked for where that
	// is more. When there are more, the rarer half is forgotten, so that memory does not grow with the text.
	MaxWords int
	// MaxWordBytes bounds the bytes of those words together, in the same way; 0 means sixteen for each of MaxWords. Words of a
	// language have eight; runs of letters without spaces, as in base64 or random bytes, have many more.
	MaxWordBytes int
	// Progress, if not nil, is called when the text is read, and for every token from then on, with how many there are and at most will be.
	Progress func(tokens, all int)
}

// Validate reports the first option that makes no sense.
func (o TrainOptions) Validate() error {
	if o.MinCount < 0 {
		return fmt.Errorf("tokenizer: minimum count is %d, want 0 or more", o.MinCount)
	}
	if o.MaxWords < 0 {
		return fmt.Errorf("tokenizer: maximum of words is %d, want 0 or more", o.MaxWords)
	}
	if o.MaxWordBytes < 0 {
		return fmt.Errorf("tokenizer: maximum of bytes of words is %d, want 0 or more", o.MaxWordBytes)
	}
	return nil
}

// minVocab is the smallest vocabulary: the bytes and EndOfText.
const minVocab = 256 + 1

// Train learns a tokenizer with at most vocabSize tokens from text. The ids are the 256 bytes in GPT-2's order, then the
// merges as they were learned, then EndOfText. A text with too few repeated pairs gives a smaller vocabulary.
//
// The same text and options always give the same tokenizer: the pair that occurs most often is merged, and among equals
// the one with the lowest left, then right id. Heap memory is bounded by the options, not by the text: about 15 MiB for
// a megabyte of English.
func Train(text io.Reader, vocabSize int, o TrainOptions) (*Tokenizer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if vocabSize < minVocab || vocabSize > maxVocab {
		return nil, fmt.Errorf("tokenizer: vocabulary size is %d, want %d to %d", vocabSize, minVocab, maxVocab)
	}
	if o.MinCount == 0 {
		o.MinCount = 2
	}
	if o.MaxWords == 0 {
		o.MaxWords = max(1<<16, 8*vocabSize)
	}
	if o.MaxWordBytes == 0 {
		o.MaxWordBytes = 16 * o.MaxWords
	}
	words, err := countWords(text, o.MaxWords, o.MaxWordBytes)
	if err != nil {
		return nil, err
	}
	l := newLearner(words)
	l.learn(vocabSize-1, o.MinCount, o.Progress)
	eos := addedToken{id: int32(len(l.tokens)), content: EndOfText, special: true, inVocab: true}
	return build(append(l.tokens, []byte(EndOfText)), l.merges, []addedToken{eos})
}

// learner grows a vocabulary by merging, again and again, the pair of tokens that occurs most often.
type learner struct {
	tokens [][]byte
	ids    map[string]int32 // by the bytes of the token
	merges []merge

	syms  []int32 // the tokens of every word, one word after another
	words []span

	pairs map[[2]int32]int32 // index into stats
	stats []pairStat
	queue queue[queuedPair]
	risen []int32 // the pairs that the current merge has made more frequent
}

// span is a word: its tokens are syms[from:from+n], and it occurs count times in the text.
type span struct {
	from, n int32
	count   int64
}

// pairStat is what is known about a pair of neighbouring tokens.
type pairStat struct {
	left, right int32
	risen       bool
	count       int64   // how often it occurs in the text
	words       []int32 // the words it occurs in, and perhaps some it no longer does
}

func newLearner(counted []countedWord) *learner {
	l := &learner{ids: make(map[string]int32), pairs: make(map[[2]int32]int32)}
	var byteID [256]int32
	for id, b := range newAlphabet().order {
		l.addToken([]byte{b})
		byteID[b] = int32(id)
	}
	total := 0
	for _, w := range counted {
		total += len(w.text)
	}
	l.syms = make([]int32, 0, total)        //mem:ok bounded by TrainOptions; training precedes the arenas
	l.words = make([]span, 0, len(counted)) //mem:ok bounded by TrainOptions; training precedes the arenas
	for i, w := range counted {
		from := len(l.syms)
		for _, b := range []byte(w.text) {
			l.syms = append(l.syms, byteID[b])
		}
		l.words = append(l.words, span{from: int32(from), n: int32(len(w.text)), count: w.count})
		for at := from; at+1 < len(l.syms); at++ {
			l.change(l.syms[at], l.syms[at+1], w.count, int32(i))
		}
	}
	l.queueRisen()
	return l
}

func (l *learner) addToken(text []byte) int32 {
	id := int32(len(l.tokens))
	l.tokens = append(l.tokens, text)
	l.ids[string(text)] = id
	return id
}

// learn merges until there are vocabSize tokens or no pair occurs minCount times.
func (l *learner) learn(vocabSize int, minCount int64, progress func(tokens, all int)) {
	if progress == nil {
		progress = func(int, int) {}
	}
	progress(len(l.tokens), vocabSize)
	for len(l.tokens) < vocabSize && len(l.queue) > 0 {
		top := l.queue.pop()
		s := &l.stats[top.pair]
		if s.count != top.count { // it has become rarer since it was queued
			if s.count >= minCount {
				l.queue.push(queuedPair{s.left, s.right, top.pair, s.count})
			}
			continue
		}
		if s.count < minCount {
			return
		}
		l.mergePair(top.pair)
		progress(len(l.tokens), vocabSize)
	}
}

// mergePair makes one token of a pair in all words, and counts the pairs that come and go.
func (l *learner) mergePair(pair int32) {
	s := &l.stats[pair]
	m := merge{left: s.left, right: s.right}
	words := s.words
	s.words, s.count = nil, 0
	text := append(append([]byte(nil), l.tokens[m.left]...), l.tokens[m.right]...)
	id, known := l.ids[string(text)] // the same bytes may have been merged in another way
	if !known {
		id = l.addToken(text)
	}
	m.into = id
	l.merges = append(l.merges, m)
	for _, w := range words {
		l.mergeInWord(w, m)
	}
	l.stats[pair].count = 0 // overlaps, as in aaa, have been subtracted twice
	l.queueRisen()
}

func (l *learner) mergeInWord(w int32, m merge) {
	word := &l.words[w]
	syms := l.syms[word.from : word.from+word.n]
	n := 0 // syms[:n] is done
	for at := 0; at < len(syms); at++ {
		if at+1 == len(syms) || syms[at] != m.left || syms[at+1] != m.right {
			syms[n] = syms[at]
			n++
			continue
		}
		if n > 0 {
			l.change(syms[n-1], m.left, -word.count, w)
			l.change(syms[n-1], m.into, word.count, w)
		}
		if at+2 < len(syms) {
			l.change(m.right, syms[at+2], -word.count, w)
			l.change(m.into, syms[at+2], word.count, w)
		}
		syms[n] = m.into
		n++
		at++
	}
	word.n = int32(n)
}

// change adds to the count of a pair because of word w.
func (l *learner) change(left, right int32, by int64, w int32) {
	key := [2]int32{left, right}
	i, ok := l.pairs[key]
	if !ok {
		i = int32(len(l.stats))
		l.pairs[key] = i
		l.stats = append(l.stats, pairStat{left: left, right: right})
	}
	s := &l.stats[i]
	s.count += by
	if by < 0 {
		return
	}
	if n := len(s.words); n == 0 || s.words[n-1] != w {
		s.words = append(s.words, w)
	}
	if !s.risen {
		s.risen = true
		l.risen = append(l.risen, i)
	}
}

// queueRisen queues the pairs that have become more frequent, with their new counts.
func (l *learner) queueRisen() {
	for _, i := range l.risen {
		s := &l.stats[i]
		s.risen = false
		if s.count > 0 {
			l.queue.push(queuedPair{s.left, s.right, i, s.count})
		}
	}
	l.risen = l.risen[:0]
}

// queuedPair is a pair and the count it had when it was queued.
type queuedPair struct {
	left, right int32
	pair        int32 // index into stats
	count       int64
}

// before orders pairs for merging: the most frequent first, then by the ids of the left and the right token.
func (a queuedPair) before(b queuedPair) bool {
	if a.count != b.count {
		return a.count > b.count
	}
	if a.left != b.left {
		return a.left < b.left
	}
	return a.right < b.right
}
