package tokenizer

import "fmt"

// pairTable maps a pair of tokens to the rank of its merge. It is a hash table with linear probing, at most three quarters full,
// that is not changed once filled. It takes 11 to 22 bytes a merge.
//
//	bits 63–44 left token | 43–24 right token | 23–0 one more than the rank, so that the zero slot is free
type pairTable struct {
	slots []uint64 // len is a power of two
	shift uint     // 64 - log2(len)
}

const (
	pairSlotBytes = 8
	rankBits      = 24
	maxMerges     = 1<<rankBits - 1
)

// Tokens take 20 bits of a slot.
var _ [1<<20 - maxVocab]struct{}

// noRank is what find returns for a pair that does not merge; it is above every rank.
const noRank = 1<<31 - 1

// newPairTable returns a table with room for n pairs.
func newPairTable(n int) (pairTable, error) {
	if n > maxMerges {
		return pairTable{}, fmt.Errorf("tokenizer: the file has %d merges, want at most %d", n, maxMerges)
	}
	bits := uint(4)
	for 3<<bits < 4*n {
		bits++
	}
	return pairTable{
		slots: make([]uint64, 1<<bits), //mem:ok part of the tokenizer line of Runtime, see HeapBytes
		shift: 64 - bits,
	}, nil
}

// pairKey is a slot without its rank.
func pairKey(left, right int32) uint64 {
	return uint64(uint32(left))<<44 | uint64(uint32(right))<<rankBits
}

// start returns the first slot to look in: multiplicative hashing (Knuth, volume 3, 6.4).
func (p *pairTable) start(key uint64) uint64 { return key >> rankBits * 0x9e3779b97f4a7c15 >> p.shift }

// add enters a pair and reports whether it was new.
func (p *pairTable) add(left, right, rank int32) bool {
	mask := uint64(len(p.slots) - 1)
	key := pairKey(left, right)
	for at := p.start(key); ; at = (at + 1) & mask {
		s := p.slots[at]
		if s == 0 {
			p.slots[at] = key | uint64(rank+1)
			return true
		}
		if s>>rankBits<<rankBits == key {
			return false
		}
	}
}

// find returns the rank of a pair's merge, or noRank.
func (p *pairTable) find(left, right int32) int32 {
	mask := uint64(len(p.slots) - 1)
	key := pairKey(left, right)
	for at := p.start(key); ; at = (at + 1) & mask {
		s := p.slots[at&mask]
		if s == 0 {
			return noRank
		}
		if s>>rankBits<<rankBits == key {
			return int32(s&maxMerges) - 1
		}
	}
}
