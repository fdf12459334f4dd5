package data

import "math/bits"

// feistelRounds is the number of rounds; four make a Feistel network a strong pseudo-random permutation, and the order
// of windows asks for less.
const feistelRounds = 4

// permutation is a bijection of [0, n) that is computed, not stored.
//
// A balanced Feistel network permutes [0, 4^k), the smallest such range that holds n; an output that is n or above is
// put in again until one is below, which keeps it a bijection and takes fewer than four turns on average.
type permutation struct {
	n    uint64
	half uint // k: bits of each half
	keys [feistelRounds]uint64
}

// newPermutation returns the permutation of [0, n) that belongs to a seed and an epoch; n is at least 1.
func newPermutation(n int64, seed uint64, epoch int64) permutation {
	p := permutation{n: uint64(n), half: uint(bits.Len64(uint64(n-1))+1) / 2}
	state := mix(seed) ^ mix(uint64(epoch)+0x9e3779b97f4a7c15)
	for i := range p.keys {
		state += 0x9e3779b97f4a7c15
		p.keys[i] = mix(state)
	}
	return p
}

// at returns where i is mapped to.
func (p *permutation) at(i int64) int64 {
	x := uint64(i)
	for {
		mask := uint64(1)<<p.half - 1
		left, right := x>>p.half, x&mask
		for _, key := range p.keys {
			left, right = right, left^mix(right^key)&mask
		}
		if x = left<<p.half | right; x < p.n {
			return int64(x)
		}
	}
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
