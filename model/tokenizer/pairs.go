package tokenizer

// pairTable maps a pair of tokens to the rank of its merge. It is a hash table with linear probing, at most three quarters full,
// that is not changed once filled. It takes 16 to 32 bytes a merge, about as a Go map would, but a known number of them.
type pairTable struct {
	slots []pairSlot // len is a power of two
	shift uint       // 64 - log2(len)
}

// pairSlot is one entry; rank is one more than the rank of the merge, so that the zero slot is free.
type pairSlot struct{ left, right, rank int32 }

// pairSlotBytes is the size of a pairSlot.
const pairSlotBytes = 12

// noRank is what find returns for a pair that does not merge; it is above every rank.
const noRank = 1<<31 - 1

// newPairTable returns a table with room for n pairs.
func newPairTable(n int) pairTable {
	bits := uint(4)
	for 3<<bits < 4*n {
		bits++
	}
	return pairTable{
		slots: make([]pairSlot, 1<<bits), //mem:ok part of the tokenizer line of Runtime, see HeapBytes
		shift: 64 - bits,
	}
}

// hash returns the first slot to look in: multiplicative hashing (Knuth, volume 3, 6.4).
func (p *pairTable) hash(left, right int32) uint64 {
	return (uint64(uint32(left))<<32 | uint64(uint32(right))) * 0x9e3779b97f4a7c15 >> p.shift
}

// add enters a pair and reports whether it was new.
func (p *pairTable) add(left, right, rank int32) bool {
	mask := uint64(len(p.slots) - 1)
	for at := p.hash(left, right); ; at = (at + 1) & mask {
		s := &p.slots[at]
		if s.rank == 0 {
			*s = pairSlot{left, right, rank + 1}
			return true
		}
		if s.left == left && s.right == right {
			return false
		}
	}
}

// find returns the rank of a pair's merge, or noRank.
func (p *pairTable) find(left, right int32) int32 {
	mask := uint64(len(p.slots) - 1)
	for at := p.hash(left, right); ; at = (at + 1) & mask {
		s := &p.slots[at&mask]
		if s.rank == 0 {
			return noRank
		}
		if s.left == left && s.right == right {
			return s.rank - 1
		}
	}
}

// grown returns a table of twice the size with the same entries.
func (p *pairTable) grown() pairTable {
	q := newPairTable(len(p.slots))
	for _, s := range p.slots {
		if s.rank != 0 {
			q.add(s.left, s.right, s.rank-1)
		}
	}
	return q
}
