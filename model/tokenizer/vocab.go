package tokenizer

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
)

// vocab is the text of every token, packed: bytes for a byte-level model, else the characters that the file has, ▁ for a space.
type vocab struct {
	text []byte   // the tokens one after another
	ends []uint32 // token i is text[ends[i]:ends[i+1]]; len = tokens + 1
}

// size returns the number of ids.
func (v *vocab) size() int { return max(len(v.ends)-1, 0) }

// token returns the text of a token, which the caller must not change; none for an id outside the vocabulary.
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

// index finds tokens by their text. It is a hash table with linear probing, at most three quarters full, and not changed once filled.
// Its hash is seeded, so that no file can be made to collide.
type index struct {
	vocab   *vocab
	slots   []indexSlot // len is a power of two
	seed    maphash.Seed
	secret  [2]uint64 // the seed for short texts
	longest int       // bytes of the longest token in it
}

// indexSlot is one entry: an id, and a part of its hash that spares most comparisons. The free slot has id -1.
type indexSlot struct {
	tag uint32
	id  int32
}

// indexSlotBytes is the size of an indexSlot.
const indexSlotBytes = 8

// newIndex returns an index with room for n tokens of a vocabulary.
func newIndex(v *vocab, n int) *index {
	bits := uint(4)
	for 3<<bits < 4*n {
		bits++
	}
	x := &index{
		vocab: v,
		slots: make([]indexSlot, 1<<bits), //mem:ok part of the tokenizer line of Runtime, see HeapBytes
		seed:  maphash.MakeSeed(),
	}
	for i := range x.slots {
		x.slots[i].id = -1
	}
	for i := range x.secret {
		x.secret[i] = maphash.Bytes(x.seed, []byte{byte(i)}) | 1
	}
	return x
}

// hash is maphash's for long texts, and for up to 16 bytes a product of the two halves, each with a secret number, whose upper half is
// mixed into the lower (the core of wyhash).
func (x *index) hash(key []byte) uint64 {
	n := len(key)
	var a, b uint64
	switch {
	case n > 16:
		return maphash.Bytes(x.seed, key)
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(key)), uint64(binary.LittleEndian.Uint32(key[n-4:]))
	case n > 0:
		a = uint64(key[0])<<16 | uint64(key[n>>1])<<8 | uint64(key[n-1])
	}
	hi, lo := bits.Mul64(a^x.secret[0], b^x.secret[1]^uint64(n)<<56)
	hi, lo = bits.Mul64(hi^lo^x.secret[0], x.secret[1])
	return hi ^ lo
}

// add enters a token; where its text is there already, the token before stays. It reports whether the text was new.
func (x *index) add(id int32) bool {
	key := x.vocab.token(id)
	h := x.hash(key)
	mask := uint64(len(x.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		s := &x.slots[at]
		if s.id < 0 {
			*s = indexSlot{uint32(h >> 32), id}
			x.longest = max(x.longest, len(key))
			return true
		}
		if s.tag == uint32(h>>32) && string(x.vocab.token(s.id)) == string(key) {
			return false
		}
	}
}

// find returns the token with that text, or -1.
func (x *index) find(key []byte) int32 {
	if len(key) > x.longest {
		return -1
	}
	h := x.hash(key)
	mask := uint64(len(x.slots) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		s := &x.slots[at&mask]
		if s.id < 0 {
			return -1
		}
		if s.tag == uint32(h>>32) && string(x.vocab.token(s.id)) == string(key) {
			return s.id
		}
	}
}

// heapBytes is the size of the table.
func (x *index) heapBytes() int64 {
	if x == nil {
		return 0
	}
	return indexSlotBytes * int64(cap(x.slots))
}

// tableBuilder collects the tokens of a file by id and packs them.
type tableBuilder struct {
	text  []byte
	spans []tokenSpan // by id
}

// tokenSpan is where the text of a token is; known tells an empty token from a missing one.
type tokenSpan struct {
	from, to uint32
	known    bool
}

// set gives an id its text, and reports whether it had none.
func (b *tableBuilder) set(id int32, token []byte) bool {
	if int(id) >= len(b.spans) {
		b.spans = append(b.spans, make([]tokenSpan, int(id)+1-len(b.spans))...) //mem:ok bounded by maxVocab
	}
	if b.spans[id].known {
		return false
	}
	from := uint32(len(b.text))
	b.text = append(b.text, token...)
	b.spans[id] = tokenSpan{from, uint32(len(b.text)), true}
	return true
}

// token is the text of an id.
func (b *tableBuilder) token(id int32) ([]byte, bool) {
	if id < 0 || int(id) >= len(b.spans) {
		return nil, false
	}
	s := b.spans[id]
	return b.text[s.from:s.to], s.known
}

// pack returns the vocabulary.
func (b *tableBuilder) pack() vocab {
	v := vocab{
		text: make([]byte, 0, len(b.text)),      //mem:ok part of the tokenizer line of Runtime, see HeapBytes
		ends: make([]uint32, 1, len(b.spans)+1), //mem:ok part of the tokenizer line of Runtime, see HeapBytes
	}
	for _, s := range b.spans {
		v.text = append(v.text, b.text[s.from:s.to]...)
		v.ends = append(v.ends, uint32(len(v.text)))
	}
	return v
}

// sortedKinds lists names in order for messages.
func sortedKinds[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
