package sample

import "math/bits"

// philox is Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, §4.3.
// It has no state: the same counter and key give the same four numbers.
func philox(ctr [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, ctr[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, ctr[2])
		ctr = [4]uint32{hi1 ^ ctr[1] ^ key[0], lo1, hi0 ^ ctr[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return ctr
}

// uniform returns the number in [0,1), of 53 random bits, that belongs to a seed, a position and a sample.
func uniform(seed uint64, position int, sample uint32) float64 {
	r := philox(
		[4]uint32{uint32(position), uint32(uint64(position) >> 32), sample, 0},
		[2]uint32{uint32(seed), uint32(seed >> 32)},
	)
	return float64((uint64(r[0])<<32|uint64(r[1]))>>11) * 0x1p-53
}
