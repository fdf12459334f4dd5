package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// table packs the texts of the tokens as bytes or as they are.
func (b *ggufBuilder) table(text func(s string, kind int32) []byte) {
	var t tableBuilder
	for id, s := range b.g.Tokens {
		if s == "" {
			s = fmt.Sprintf("[EMPTY_%d]", id)
		}
		t.set(int32(id), text(s, b.types[id]))
	}
	b.t.vocab = t.pack()
	for i := range b.byteID {
		b.byteID[i] = -1
	}
	for id := range int32(b.t.vocab.size()) {
		if c, ok := byteToken(b.t.vocab.token(id)); ok && b.byteID[c] < 0 {
			b.byteID[c] = id
		}
	}
}

func asItIs(s string, _ int32) []byte { return []byte(s) }

// llama is SentencePiece's byte-pair encoding.
func (b *ggufBuilder) llama() error {
	b.bos, b.eos, b.unknown, b.addBOS, b.prefix = 1, 2, 0, true, true
	b.table(asItIs)
	s := &spm{
		index: newIndex(&b.t.vocab, len(b.types)), scores: b.g.Scores, unknown: -1, apart: true, raw: true, byteID: b.byteID,
		seen: newMemo(len(b.types)),
	}
	if s.scores == nil {
		s.scores = make([]float32, len(b.types)) //mem:ok bounded by the file
	}
	all := func(int32) bool { return true }
	for id := range int32(len(b.types)) {
		s.index.add(id)
	}
	s.initJoints(&b.t.vocab, all)
	for c := range s.byteID {
		if s.byteID[c] < 0 {
			s.byteID[c] = s.index.find([]byte{byte(c)})
		}
	}
	b.t.kind, b.t.model = "SentencePiece BPE", s
	b.sayPrefix()
	if b.prefix {
		b.t.norm = append(b.t.norm, prefix(spaceSign))
	}
	b.t.norm = append(b.t.norm, replaced{[]byte{' '}, []byte(spaceSign)})
	if s.index.find([]byte(spaceSign)) >= 0 {
		c := newSpaceCut(&b.t.vocab, all)
		c.whole = true
		b.t.stages = append(b.t.stages, c)
	}
	b.spaces()
	return nil
}

// sayPrefix takes what the file says about a space before a text.
func (b *ggufBuilder) sayPrefix() { b.prefix = isTrue(b.g.AddSpacePrefix, b.prefix) }

// spaces makes decoding write ▁ as a space.
func (b *ggufBuilder) spaces() {
	b.t.decoding = decoding{replace: []replaced{{[]byte(spaceSign), []byte{' '}}}, byteID: b.bytes()}
	if b.prefix {
		b.t.decoding.strip = 1
	}
}

// bytes is a copy of byteID, which does not keep the builder, and with it the file's texts, in memory.
func (b *ggufBuilder) bytes() *[256]int32 {
	ids := b.byteID
	return &ids
}

// t5 is unigrams.
func (b *ggufBuilder) t5() error {
	b.eos, b.unknown, b.addEOS = 1, 2, true
	b.table(asItIs)
	charsmap, err := newCharsmap(b.g.Charsmap)
	if err != nil {
		return err
	}
	b.sayPrefix()
	if x := b.g.Unknown; x != nil {
		b.unknown = *x
	}
	if b.unknown >= int64(len(b.types)) {
		b.unknown = -1
	}
	u := &unigram{scores: make([]float64, len(b.types)), unknown: int32(b.unknown), fuse: true} //mem:ok bounded by the file
	var user []string
	for id, k := range b.types {
		switch {
		case k == pieceUser:
			user = append(user, b.g.Tokens[id])
		case b.g.Scores != nil:
			u.scores[id] = float64(b.g.Scores[id])
		}
	}
	u.penalty = float64(float32(leastScore(u.scores, func(id int32) bool { return b.types[id] == pieceNormal })) - unknownPenalty)
	u.trie = newTrie(&b.t.vocab, func(id int32) bool {
		return b.types[id] == pieceNormal || b.types[id] == pieceUser || b.types[id] == pieceUnused
	})
	b.t.kind, b.t.model = "unigram", u
	b.t.norm = normalizers{newPieceNormalizer(pieceNormalizer{
		m: charsmap, whole: newTextSet(user), prefix: b.prefix, squeeze: isTrue(b.g.RemoveExtraWhitespaces, false), escape: true,
		lenient: true, lazy: true,
	})}
	b.spaces()
	return nil
}

// bert is WordPiece.
func (b *ggufBuilder) bert() error {
	b.bos, b.unknown, b.sep, b.addBOS = 101, 100, 102, true
	b.table(asItIs)
	w := newWordPiece(&b.t.vocab, "", func(int32) bool { return true })
	w.phantom = true
	if x := b.g.Unknown; x != nil {
		b.unknown = *x
	}
	if b.unknown >= 0 && b.unknown < int64(len(b.types)) {
		w.unknown = int32(b.unknown)
	}
	lower := isTrue(b.g.Lowercase, true)
	b.t.kind, b.t.model = "WordPiece", w
	b.t.stages = []stage{bertWords{lower: lower, accents: !isTrue(b.g.StripAccents, lower)}}
	b.t.decoding = decoding{replace: []replaced{{[]byte(spaceSign), []byte{' '}}}, strip: 1}
	return nil
}

// gpt2 is merges of bytes, or of characters.
func (b *ggufBuilder) gpt2() error {
	pre := b.g.Pre
	if b.g.Model == "gemma4" {
		pre = "gemma4"
	}
	p, err := ggufPattern(pre)
	if err != nil {
		return err
	}
	if p.key != "gemma4" {
		b.bos, b.eos = 11, 11
	}
	b.addBOS = p.bos || strings.HasPrefix(p.key, "gemma4")
	known := knownAlternatives()
	for _, pattern := range p.patterns {
		s, err := ggufStage(pattern, known)
		if err != nil {
			return err
		}
		b.t.stages = append(b.t.stages, s)
	}
	letters := newAlphabet()
	spelled := make([]bool, len(b.types)) // tokens that bytes can be
	b.table(func(s string, kind int32) []byte {
		if p.characters {
			return []byte(s)
		}
		if token, ok := letters.unspell([]byte(s)); ok && kind == pieceNormal {
			return token
		}
		return []byte(s)
	})
	for id, s := range b.g.Tokens {
		token, ok := letters.unspell([]byte(s))
		spelled[id] = s != "" && (p.characters || ok && bytes.Equal(token, b.t.vocab.token(int32(id))))
	}
	m := &b.t.bpe
	m.initIndex(&b.t.vocab, func(id int32) bool { return spelled[id] })
	m.unknown, m.byteID, m.ignoreMerges = -1, b.byteID, p.ignoreMerges
	if p.characters {
		m.byteFallback, m.lines = true, p.key == "gemma4"
		b.t.kind = "BPE"
		if p.escaped {
			b.t.norm = normalizers{replaced{[]byte{' '}, []byte(spaceSign)}}
			b.spaces()
		}
		b.t.decoding.byteID = b.bytes()
	} else {
		m.byteLevel = true
		for c := range m.byteID {
			m.byteID[c] = m.index.find([]byte{byte(c)})
		}
		b.t.kind = "byte-level BPE"
	}
	b.t.model, b.t.valid = m, appendLenient
	return b.merges(p, letters, func(id int32) bool { return spelled[id] })
}

// merges reads "left right".
func (b *ggufBuilder) merges(p *ggufPre, letters *alphabet, spelled func(id int32) bool) error {
	if len(b.g.Merges) == 0 && p.key != "kimi-k2" {
		return fmt.Errorf("tokenizer: the file has no tokenizer.ggml.merges")
	}
	m := &b.t.bpe
	m.merges = make([]merge, 0, len(b.g.Merges)) //mem:ok bounded by the file; see HeapBytes
	var err error
	if m.pairs, err = newPairTable(len(b.g.Merges)); err != nil {
		return err
	}
	text := func(s string) ([]byte, bool) {
		if p.characters {
			return []byte(s), true
		}
		return letters.unspell([]byte(s))
	}
	for i, s := range b.g.Merges {
		cut := -1
		if s != "" {
			cut = strings.IndexByte(s[1:], ' ') + 1
		}
		if cut <= 0 {
			return fmt.Errorf("tokenizer: merge %d, %.40q, is not two tokens with a space between", i, s)
		}
		left, okLeft := text(s[:cut])
		right, okRight := text(s[cut+1:])
		x := merge{m.index.find(left), m.index.find(right), m.index.find(slices.Concat(left, right))}
		if !okLeft || !okRight || x.left < 0 || x.right < 0 || x.into < 0 {
			return fmt.Errorf("tokenizer: merge %d, %.40q, uses a token that is not in the vocabulary", i, s)
		}
		if m.pairs.add(x.left, x.right, int32(len(m.merges))) { // the first of equal ones counts
			m.merges = append(m.merges, x)
		}
	}
	m.initJoints(&b.t.vocab, spelled)
	return nil
}
