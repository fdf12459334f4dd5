// Package tokenizer turns text into token ids and back with byte-level byte-pair encoding, trains such a tokenizer from
// text, and stores it as a Hugging Face tokenizer.json.
//
// Text is cut into words by GPT-2's pattern, and inside each word the pair of neighbouring tokens that was learned
// earliest is merged first, the leftmost among equals, until no pair is known. Every byte is a token of its own, so any
// bytes at all can be encoded: Decode(Encode(b)) == b, valid UTF-8 or not.
//
// Invariants: an id is in [0, VocabSize); each of the 256 bytes has an id; a merge joins two tokens of the vocabulary
// into a third. A Tokenizer does not change after it is built and may be used from any number of goroutines.
//
// It holds one kind of tokenizer. A file of another kind (SentencePiece, WordPiece, another split pattern, a normaliser,
// added tokens that swallow spaces) is refused by Load rather than approximated; another kind takes the place of the
// field bpe, behind the same methods. Chat templates and begin-of-sequence tokens are not its business.
//
// Sources: Sennrich et al., arXiv 1508.07909, algorithm 1; GPT-2's encoder.py for the byte alphabet and the pattern;
// Hugging Face tokenizers 0.23 for the file and the order of ties in training.
package tokenizer

import "fmt"

// EndOfText is the text of the token that separates documents.
const EndOfText = "<|endoftext|>"

// maxVocab bounds the ids that a file may use, and so what is allocated for them.
const maxVocab = 1 << 20

// Tokenizer encodes and decodes text. The zero value is not usable; Train, Load and Parse make one.
type Tokenizer struct {
	vocab vocab
	bpe   bpe
	added added
	eos   int32 // the id of EndOfText, -1 without one
}

// vocab is the bytes of every token, packed.
type vocab struct {
	text []byte   // the tokens one after another
	ends []uint32 // token i is text[ends[i]:ends[i+1]]; len = tokens + 1
}

// size returns the number of ids.
func (v *vocab) size() int { return len(v.ends) - 1 }

// token returns the bytes of a token, which the caller must not change; none for an id outside the vocabulary.
func (v *vocab) token(id int32) []byte {
	if id < 0 || int(id) >= v.size() {
		return nil
	}
	return v.text[v.ends[id]:v.ends[id+1]:v.ends[id+1]]
}

// packVocab packs tokens, of which those that are nil are ids without a token.
func packVocab(tokens [][]byte) vocab {
	total := 0
	for _, t := range tokens {
		total += len(t)
	}
	v := vocab{
		text: make([]byte, 0, total),           //mem:ok part of the tokenizer line of Runtime, see HeapBytes
		ends: make([]uint32, 1, len(tokens)+1), //mem:ok part of the tokenizer line of Runtime, see HeapBytes
	}
	for _, t := range tokens {
		v.text = append(v.text, t...)
		v.ends = append(v.ends, uint32(len(v.text)))
	}
	return v
}

// build makes a tokenizer of its parts, which it checks against each other.
func build(tokens [][]byte, merges []merge, addedTokens []addedToken) (*Tokenizer, error) {
	t := &Tokenizer{vocab: packVocab(tokens), eos: -1}
	if err := t.bpe.init(tokens, merges); err != nil {
		return nil, err
	}
	if err := t.added.init(addedTokens, len(tokens)); err != nil {
		return nil, err
	}
	for _, a := range addedTokens {
		if a.content == EndOfText {
			t.eos = a.id
		}
	}
	return t, nil
}

// VocabSize returns the number of ids: the largest id plus one.
func (t *Tokenizer) VocabSize() int { return t.vocab.size() }

// EOS returns the id of EndOfText, or -1 if the vocabulary has no such token.
func (t *Tokenizer) EOS() int32 { return t.eos }

// HeapBytes returns the bytes of Go heap that the tokenizer's tables hold, for the Runtime line of a plan. It leaves out
// the added tokens, a few hundred bytes each.
func (t *Tokenizer) HeapBytes() int64 {
	n := int64(cap(t.vocab.text)) + 4*int64(cap(t.vocab.ends))
	return n + pairSlotBytes*int64(cap(t.bpe.pairs.slots)) + mergeBytes*int64(cap(t.bpe.merges))
}

// String describes the tokenizer in a few words.
func (t *Tokenizer) String() string {
	return fmt.Sprintf("byte-level BPE, %d tokens, %d merges", t.VocabSize(), len(t.bpe.merges))
}
