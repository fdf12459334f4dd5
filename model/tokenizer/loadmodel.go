package tokenizer

import (
	"bytes"
	"fmt"
	"strconv"
)

// modelBuilder makes the tables of the model of a tokenizer.json.
type modelBuilder struct {
	t         *Tokenizer
	file      *fileModel
	byteLevel bool
	letters   *alphabet
	idBound   int64 // the bytes of the file bound its ids too, since a token takes a few of them; short files may leave gaps

	table   tableBuilder
	scores  []float64 // of a unigram model
	inModel []bool    // by id: the token is in the model's vocabulary
	added   []addedToken
}

// build reads the vocabulary, places the added tokens, and makes the model.
func (b *modelBuilder) build(addedList []fileAdded) error {
	b.letters = newAlphabet()
	isAdded := make(map[string]bool, len(addedList))
	for _, a := range addedList {
		isAdded[a.Content] = true
	}
	read := b.readVocab
	if b.file.Type == "Unigram" {
		read = b.readScores
	}
	if err := read(isAdded); err != nil {
		return err
	}
	b.inModel = make([]bool, len(b.table.spans))
	for id, s := range b.table.spans {
		b.inModel[id] = s.known
	}
	for _, a := range addedList {
		if a.ID >= b.idBound {
			return fmt.Errorf("tokenizer: %q has id %d, want one below %d in a file of this size", a.Content, a.ID, b.idBound)
		}
		token, known := b.table.token(int32(a.ID))
		if known && string(token) != a.Content {
			return fmt.Errorf("tokenizer: added token %q has the id %d of another token", a.Content, a.ID)
		}
		b.table.set(int32(a.ID), []byte(a.Content))
		b.added = append(b.added, addedToken{
			id: int32(a.ID), content: a.Content, special: a.Special, normalized: a.Normalized, inVocab: known,
			lstrip: a.LStrip, rstrip: a.RStrip, singleWord: a.SingleWord,
		})
	}
	b.t.vocab = b.table.pack()
	b.table = tableBuilder{}
	switch b.file.Type {
	case "BPE":
		return b.bpe()
	case "Unigram":
		return b.unigram()
	case "WordPiece":
		return b.wordPiece()
	}
	return b.wordLevel()
}

// has tells whether a token is in the model's vocabulary.
func (b *modelBuilder) has(id int32) bool { return int(id) < len(b.inModel) && b.inModel[id] }

// readVocab reads an object of texts and ids.
func (b *modelBuilder) readVocab(isAdded map[string]bool) error {
	var room [256]byte
	return members(b.file.vocab, func(key, value []byte) error {
		id, err := wholeNumber(value)
		if err != nil {
			return err
		}
		text, err := unquote(room[:0], key)
		if err != nil {
			return err
		}
		if err := checkID(string(text), id); err != nil {
			return err
		}
		if id >= b.idBound {
			return fmt.Errorf("tokenizer: %q has id %d, want one below %d in a file of this size", text, id, b.idBound)
		}
		token := text
		if b.byteLevel && !isAdded[string(text)] {
			spelled, ok := b.letters.unspell(text)
			if !ok || len(text) == 0 {
				return fmt.Errorf("tokenizer: token %q of the vocabulary is not spelled in the byte alphabet", text)
			}
			token = spelled
		}
		if !b.table.set(int32(id), token) {
			return fmt.Errorf("tokenizer: two tokens of the vocabulary have id %d", id)
		}
		return nil
	})
}

// readScores reads a list of texts and scores.
func (b *modelBuilder) readScores(map[string]bool) error {
	var room [256]byte
	return elements(b.file.vocab, func(value []byte) error {
		i := 0
		err := elements(value, func(v []byte) error {
			i++
			switch i {
			case 1:
				text, err := unquote(room[:0], v)
				if err != nil {
					return err
				}
				id := int64(len(b.scores))
				if err := checkID(string(text), id); err != nil {
					return err
				}
				b.table.set(int32(id), text)
			case 2:
				x, err := strconv.ParseFloat(string(v), 64)
				if err != nil {
					return fmt.Errorf("tokenizer: not a tokenizer.json: %.20q stands where a score belongs", v)
				}
				b.scores = append(b.scores, x)
			}
			return nil
		})
		if err == nil && i != 2 {
			err = fmt.Errorf("tokenizer: token %d of the vocabulary has %d parts, want a text and a score", len(b.scores), i)
		}
		return err
	})
}

// tokenID finds the model's token of a text, -1 for a nil text.
func (b *modelBuilder) tokenID(x *index, text *string) (int32, error) {
	if text == nil {
		return -1, nil
	}
	id := x.find([]byte(*text))
	if id < 0 {
		return -1, fmt.Errorf("tokenizer: the unknown token %q is not in the vocabulary", *text)
	}
	return id, nil
}

func (b *modelBuilder) bpe() error {
	t, m := b.t, &b.t.bpe
	t.kind, t.model = "BPE", m
	m.initIndex(&t.vocab, func(id int32) bool { return b.has(id) && len(t.vocab.token(id)) > 0 })
	m.ignoreMerges, m.fuseUnknown, m.byteFallback = b.file.IgnoreMerges, b.file.FuseUnknown, b.file.ByteFallback
	for dst, src := range map[*string]*string{&m.inner: b.file.Inner, &m.end: b.file.End} {
		if src != nil {
			*dst = *src
		}
		if len(*dst) > 32 {
			return fmt.Errorf("tokenizer: a prefix or suffix of %d bytes is not supported", len(*dst))
		}
	}
	if b.byteLevel {
		if m.inner+m.end != "" {
			return fmt.Errorf("tokenizer: a prefix or suffix of byte-level words is not supported")
		}
		t.kind = "byte-level BPE"
		m.initBytes(&t.vocab) // a byte without a token, in vocabularies of merges that were trained without all, is the unknown token or nothing
	} else {
		for i := range m.byteID {
			m.byteID[i] = m.index.find(fmt.Appendf(nil, "<0x%02X>", i))
		}
		if m.byteFallback {
			t.decoding.byteID = &m.byteID
		}
	}
	unknown := b.file.Unknown
	if unknown != nil && *unknown == "" {
		unknown = nil
	}
	var err error
	if m.unknown, err = b.tokenID(m.index, unknown); err != nil && !b.byteLevel { // bytes mostly have tokens, and it is never asked for
		return err
	}
	merges, err := b.readMerges()
	if err != nil {
		return err
	}
	if len(t.stages) == 0 && !m.ignoreMerges && m.inner+m.end == "" && m.index.find([]byte(spaceSign)) >= 0 {
		t.stages = append(t.stages, newSpaceCut(&t.vocab, b.has))
	}
	if err := m.initMerges(&t.vocab, merges); err != nil {
		return err
	}
	m.initJoints(&t.vocab, b.has)
	return nil
}

// readMerges reads a list of merges, each "left right" or, in files written since 2024, ["left", "right"].
func (b *modelBuilder) readMerges() ([]merge, error) {
	if len(b.file.merges) == 0 {
		return nil, nil
	}
	count := bytes.Count(b.file.merges, []byte{','}) // at least that many, and not many more
	if bytes.IndexByte(b.file.merges[1:], '[') >= 0 {
		count /= 2
	}
	merges := make([]merge, 0, count+1) //mem:ok bounded by the file; see HeapBytes
	x := b.t.bpe.index
	var room [512]byte
	err := elements(b.file.merges, func(value []byte) error {
		i := len(merges)
		var left, right []byte
		if value[0] == '[' {
			n := 0
			err := elements(value, func(v []byte) (err error) {
				n++
				switch n {
				case 1:
					left, err = unquote(room[:0:256], v)
				case 2:
					right, err = unquote(room[256:256], v)
				}
				return err
			})
			if err != nil {
				return err
			}
			if n != 2 {
				return fmt.Errorf("tokenizer: merge %d has %d tokens, want 2", i, n)
			}
		} else {
			s, err := unquote(room[:0], value)
			if err != nil {
				return err
			}
			var ok bool
			if left, right, ok = bytes.Cut(s, []byte{' '}); !ok || bytes.IndexByte(right, ' ') >= 0 {
				return fmt.Errorf("tokenizer: merge %d, %q, is not two tokens with a space between", i, s)
			}
		}
		m, ok := b.merge(x, left, right)
		if !ok {
			return fmt.Errorf("tokenizer: merge %d, %q + %q, uses a token that is not in the vocabulary", i, left, right)
		}
		merges = append(merges, m)
		return nil
	})
	return merges, err
}

// merge finds the three tokens of a merge.
func (b *modelBuilder) merge(x *index, left, right []byte) (m merge, ok bool) {
	if b.byteLevel {
		l, okLeft := b.letters.unspell(left)
		r, okRight := b.letters.unspell(right)
		if !okLeft || !okRight {
			return m, false
		}
		left, right = l, r
	}
	var room [512]byte
	joined := append(room[:0], left...)
	joined = append(joined, right[min(len(b.t.bpe.inner), len(right)):]...)
	m = merge{x.find(left), x.find(right), x.find(joined)}
	return m, m.left >= 0 && m.right >= 0 && m.into >= 0
}

func (b *modelBuilder) unigram() error {
	t := b.t
	t.kind = "unigram"
	u := &unigram{scores: b.scores, unknown: -1, bytes: b.file.ByteFallback, fuse: true}
	if b.file.UnknownID != nil {
		if *b.file.UnknownID < 0 || *b.file.UnknownID >= int64(len(b.scores)) {
			return fmt.Errorf("tokenizer: unk_id is %d, want one below %d", *b.file.UnknownID, len(b.scores))
		}
		u.unknown = int32(*b.file.UnknownID)
	}
	u.trie = newTrie(&t.vocab, b.has)
	u.penalty = leastScore(u.scores, b.has) - unknownPenalty
	for i := range u.byteID {
		u.byteID[i] = u.trie.find(fmt.Appendf(nil, "<0x%02X>", i))
	}
	if u.bytes {
		t.decoding.byteID = &u.byteID
	}
	t.model = u
	if u.trie.find([]byte(spaceSign)) >= 0 && len(t.stages) == 0 {
		t.stages = append(t.stages, newSpaceCut(&t.vocab, b.has))
	}
	return nil
}

// wordIndex lists the model's tokens.
func (b *modelBuilder) wordIndex() *index {
	x := newIndex(&b.t.vocab, len(b.inModel))
	for id := range int32(len(b.inModel)) {
		if b.has(id) && len(b.t.vocab.token(id)) > 0 {
			x.add(id)
		}
	}
	return x
}

func (b *modelBuilder) wordPiece() error {
	inner := "##"
	if b.file.Inner != nil {
		inner = *b.file.Inner
	}
	w := newWordPiece(&b.t.vocab, inner, func(id int32) bool { return b.has(id) && len(b.t.vocab.token(id)) > 0 })
	w.maxChars = 100
	if b.file.MaxWordLength != nil {
		w.maxChars = *b.file.MaxWordLength
	}
	b.t.kind, b.t.model = "WordPiece", w
	if b.file.Unknown == nil {
		return nil
	}
	if w.unknown = w.trie.find([]byte(*b.file.Unknown)); w.unknown < 0 {
		return fmt.Errorf("tokenizer: the unknown token %q is not in the vocabulary", *b.file.Unknown)
	}
	return nil
}

func (b *modelBuilder) wordLevel() (err error) {
	w := &wordLevel{index: b.wordIndex()}
	b.t.kind, b.t.model = "word level", w
	w.unknown, err = b.tokenID(w.index, b.file.Unknown)
	return err
}
