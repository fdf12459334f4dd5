package kernel

import "math"

// Parts returns s with a float32 product by tiles, where s has tiles of bf16; otherwise s itself. Each float32 x is the sum of three
// bf16: x[0] the nearest to x (halfway away from zero), x[1] that to what is left, x[2] the rest, which has eight bits. Of the nine products of
// parts six are summed, the smallest first; the others are below 2⁻²⁵ of a product:
//
//	for ; k < K; k += 32 {
//		for _, p := range [][2]int{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}} {
//			s += A[p[0]][i,k:k+32] · B[p[1]][k:k+32,j] // as GemmBF16 of avx512amx sums
//		}
//	}
//
// The sum of 32 products is rounded to float32 six times where Gemm's is 32 times, so a long sum is nearer to the exact one:
// |err| <= (K+6)·2⁻²³·Σ|A[i,k]·B[k,j]|. Parts below 2⁻¹²⁶ count as zero, and sums there: K·2⁻¹²⁵·(1+max|A|+max|B|) more. An infinity makes NaN of
// its row or column, as does a finite element from 2¹²⁸·(1-2⁻⁹) on. The bits are the same for any split of M, N or the threads, and
// for any split of K at multiples of 32.
//
// A packed B has PackedPartsLen elements. Packing takes some ten products an element: it pays for many rows and columns.
//
// Source: Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", arXiv 1904.06376.
func (s Set) Parts() Set {
	if s.t.parts != nil {
		return Set{s.t.parts}
	}
	return s
}

// PackedPartsLen returns the elements that a packed B (k,n) needs, whatever the set, in parts or not.
func PackedPartsLen(k, n int) int {
	return max(roundUp(k, amxK)/2*partsOf, k) * roundUp(n, PanelCols)
}

// partsOf is how many bf16 an element becomes.
const partsOf = 3

// packedBLen is what a packed B (k,n) of s needs.
func (s Set) packedBLen(k, n int) int {
	if s.t.f32.pieces > 1 {
		return PackedPartsLen(k, n)
	}
	return PackedBLen(k, n)
}

// split is x in parts.
func split(x float32) (p [partsOf]uint16) {
	for i := range p {
		b := math.Float32bits(x)
		if i < len(p)-1 {
			b += 1 << 15
		}
		p[i] = uint16(b >> 16)
		if x != x {
			p[i] = 0x7fc0
		}
		x -= math.Float32frombits(uint32(p[i]) << 16)
	}
	return p
}
