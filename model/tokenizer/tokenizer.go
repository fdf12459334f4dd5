// Package tokenizer turns text into token ids and back as the models in use do: byte-level byte-pair encoding,
// SentencePiece's byte-pair encoding and unigrams, WordPiece. It reads Hugging Face's tokenizer.json, SentencePiece's
// tokenizer.model, and the vocabulary in the metadata of a GGUF file; and it trains a byte-level tokenizer from text, and
// stores it as a tokenizer.json.
//
// A text passes through: added tokens found as a whole → normalizers → stages that cut it into pieces → a model, which turns
// a piece into tokens. The result is the reference's, token for token: Hugging Face's tokenizers for a tokenizer.json,
// sentencepiece for a tokenizer.model, llama.cpp for GGUF. What this package would do otherwise is refused by name when a file
// is read, and never approximated.
//
// Invariants: an id is in [0, VocabSize); a merge joins two tokens of the vocabulary into a third. A Tokenizer does not change
// after it is built, except for what its tables remember, and may be used from any number of goroutines. What reading a file
// allocates is in proportion to the file, and time to the text.
//
// Text that is not UTF-8: a tokenizer that was trained here, or reads GPT-2's kind of tokenizer.json, encodes any bytes, and
// Decode(Encode(b)) == b; StreamOptions.Replace reads the same as the reference does, which never sees such bytes. All others
// of a tokenizer.json or tokenizer.model read each ill-formed part as U+FFFD, and those of GGUF read what llama.cpp does.
//
// It holds no chat templates. Begin-of-sequence tokens are known (Frame) and left to the caller.
//
// Sources: Sennrich et al., arXiv 1508.07909, algorithm 1; Kudo, arXiv 1804.10959; Kudo and Richardson, arXiv 1808.06226;
// GPT-2's encoder.py for the byte alphabet and the pattern; Hugging Face tokenizers 0.23 for the file, its components and the
// order of ties in training; llama.cpp's llama-vocab.cpp and unicode.cpp for GGUF.
package tokenizer

import (
	"fmt"
	"slices"
)

// EndOfText is the text of the token that separates documents.
const EndOfText = "<|endoftext|>"

// maxVocab bounds the ids that a file may use, and so what is allocated for them.
const maxVocab = 1 << 20

// Tokenizer encodes and decodes text. The zero value is not usable; Train, Load, Parse, ParseSentencePiece and FromGGUF make one.
type Tokenizer struct {
	kind     string // for String
	vocab    vocab
	bpe      bpe   // the model, of tokenizers that merge by a list
	model    model // what encodes a piece
	norm     normalizers
	stages   []stage
	frame    frame
	decoding decoding
	special  map[int32]bool
	eos      int32 // the id of EndOfText, or of the token that a GGUF file names; -1 without one

	added *added // tokens found in the text
	late  *added // tokens found in the normalized text
	plain *added // those of added that are not special
	latep *added // those of late that are not special

	bare      bool                          // byte-level, GPT-2's words and nothing else: what Train makes
	valid     func(dst, text []byte) []byte // reads text that may not be UTF-8; nil leaves it
	leads     bool                          // the first piece is treated apart if it begins with the text's first character, normalized
	fragments bool                          // added tokens are found as llama.cpp does
}

// build makes a tokenizer like Train's of its parts, which it checks against each other.
func build(tokens [][]byte, merges []merge, addedTokens []addedToken) (*Tokenizer, error) {
	t := &Tokenizer{kind: "byte-level BPE", vocab: packVocab(tokens), bare: true, stages: []stage{&split{splitter: gpt2Words{}}}}
	t.bpe.initBytes(&t.vocab)
	for i, id := range t.bpe.byteID {
		if id < 0 {
			return nil, fmt.Errorf("tokenizer: vocabulary lacks the token of byte 0x%02x", i)
		}
	}
	if err := t.bpe.initMerges(&t.vocab, merges); err != nil {
		return nil, err
	}
	inModel := make(map[int32]bool, len(addedTokens))
	for _, a := range addedTokens {
		inModel[a.id] = a.inVocab
	}
	has := func(id int32) bool {
		in, isAdded := inModel[id]
		return (in || !isAdded) && len(t.vocab.token(id)) > 0
	}
	t.bpe.initIndex(&t.vocab, has)
	t.bpe.initJoints(&t.vocab, has)
	t.model = &t.bpe
	return t, t.initAdded(addedTokens)
}

// initAdded takes the added tokens.
func (t *Tokenizer) initAdded(tokens []addedToken) error {
	all := &added{}
	if err := all.init(tokens, t.vocab.size()); err != nil {
		return err
	}
	early := func(a *addedToken) bool { return !a.normalized || len(t.norm) == 0 }
	t.added = all.only(early)
	t.late = all.only(func(a *addedToken) bool { return !early(a) })
	common := func(a *addedToken) bool { return !a.special }
	t.plain, t.latep = t.added.only(common), t.late.only(common)
	t.special = make(map[int32]bool, len(tokens))
	t.eos = -1
	for _, a := range tokens {
		if a.special {
			t.special[a.id] = true
		}
		if a.content == EndOfText {
			t.eos = a.id
		}
		t.bare = t.bare && a.plainFind()
	}
	return nil
}

// addedTokens returns all added tokens in order of their ids.
func (t *Tokenizer) addedTokens() []addedToken {
	return slices.SortedFunc(slices.Values(slices.Concat(t.added.tokens, t.late.tokens)), func(x, y addedToken) int { return int(x.id) - int(y.id) })
}

// VocabSize returns the number of ids: the largest id plus one.
func (t *Tokenizer) VocabSize() int { return t.vocab.size() }

// EOS returns the id of EndOfText, or of the token that a GGUF or SentencePiece file names as the end, or -1 if there is none.
func (t *Tokenizer) EOS() int32 { return t.eos }

// IsSpecial tells whether a token is special: it controls a model, and is not part of what people read.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// ID returns the token of a text that is one token, an added one if there is such, or -1.
func (t *Tokenizer) ID(token string) int32 {
	for _, a := range []*added{t.added, t.late} {
		for i := range a.tokens {
			if a.tokens[i].content == token {
				return a.tokens[i].id
			}
		}
	}
	for id := range int32(t.vocab.size()) {
		if string(t.vocab.token(id)) == token {
			return id
		}
	}
	return -1
}

// Token returns the text of a token as the vocabulary has it, ▁ for a space; none for an id outside the vocabulary.
func (t *Tokenizer) Token(id int32) string { return string(t.vocab.token(id)) }

// Frame returns the tokens that the tokenizer puts before and after a text, such as one that begins a sequence. The caller must not
// change them.
func (t *Tokenizer) Frame() (before, after []int32) { return t.frame.before, t.frame.after }

// HeapBytes returns the bytes of Go heap that the tokenizer's tables hold, for the Runtime line of a plan. It leaves out
// the added tokens, a few hundred bytes each.
func (t *Tokenizer) HeapBytes() int64 {
	return int64(cap(t.vocab.text)) + 4*int64(cap(t.vocab.ends)) + t.model.heapBytes()
}

// String describes the tokenizer in a few words.
func (t *Tokenizer) String() string {
	s := fmt.Sprintf("%s, %d tokens", t.kind, t.VocabSize())
	if n := len(t.bpe.merges); n > 0 {
		s += fmt.Sprintf(", %d merges", n)
	}
	return s
}
