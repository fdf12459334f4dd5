package quant

import "fmt"

// GPTQ is W (N,K) of a linear layer as GPTQ checkpoints have it: element (n,k) is scale·(code − zero), scale and zero of group GIdx[k],
// or k/GroupSize where there is no GIdx. Codes are a sequence of Bits down K, zeros one along N, low bits first, over words without
// padding: the 3-bit codes 10 and 21 of 32 are in two words. In version 1 a zero is stored less one.
//
// The reference multiplies in binary16: rounded to that, a decoded element has its bits.
type GPTQ struct {
	Bits, N, K, GroupSize int
	QWeight               []byte // int32[⌈K·Bits/32⌉, N]
	QZeros                []byte // int32[groups, ⌈N·Bits/32⌉]
	Scales                Elems  // [groups, N]
	GIdx                  []byte // int32[K], or nil
	V1                    bool
}

// Check compares lengths with the shape, and every group with their number.
func (g *GPTQ) Check() error {
	if err := checkShape("gptq", g.N, g.K, g.Bits, 8); err != nil {
		return err
	}
	if g.GroupSize < 1 {
		return fmt.Errorf("quant: gptq: groups of %d elements", g.GroupSize)
	}
	groups := ceil(g.K, g.GroupSize)
	if err := lengths("gptq", "qweight", len(g.QWeight), 4*ceil(g.K*g.Bits, 32)*g.N, "qzeros", len(g.QZeros), 4*groups*ceil(g.N*g.Bits, 32),
		"scales", g.Scales.Len(), groups*g.N); err != nil {
		return err
	}
	if g.GIdx == nil {
		return nil
	}
	if len(g.GIdx) != 4*g.K {
		return fmt.Errorf("quant: gptq: g_idx has %d bytes, want %d", len(g.GIdx), 4*g.K)
	}
	for k := range g.K {
		if i := word(g.GIdx, k); i >= uint32(groups) {
			return fmt.Errorf("quant: gptq: element %d is of group %d of %d", k, int32(i), groups)
		}
	}
	return nil
}

// DecodeRow writes row n of W.
func (g *GPTQ) DecodeRow(dst []float32, n int) {
	for k := range g.K {
		group := k / g.GroupSize
		if g.GIdx != nil {
			group = int(word(g.GIdx, k))
		}
		code := bitsAt(g.QWeight, n, g.N, k*g.Bits, g.Bits)
		dst[k] = g.Scales.At(group*g.N+n) * float32(int32(code)-g.zero(group, n))
	}
}

// zero is the zero point of a group of row n.
func (g *GPTQ) zero(group, n int) int32 {
	zero := bitsAt(g.QZeros, group*ceil(g.N*g.Bits, 32), 1, n*g.Bits, g.Bits)
	if g.V1 {
		zero = (zero + 1) & (1<<g.Bits - 1)
	}
	return int32(zero)
}

// GPTQVersion1 tells whether zeros are stored less one. What a checkpoint says of itself is not to be trusted: where all zeros are the
// middle of the codes, or all the one below, that decides; else declared, a config's checkpoint_format, which is version 1 unless it is
// "gptq_v2".
func GPTQVersion1(qzeros []byte, n, bits int, declared string) bool {
	words := ceil(n*bits, 32)
	middle := uint32(1) << (bits - 1)
	first := bitsAt(qzeros, 0, 1, 0, bits)
	if first == middle || first == middle-1 {
		same := true
		for group := 0; same && (group+1)*words*4 <= len(qzeros); group++ {
			for i := 0; same && i < n; i++ {
				same = bitsAt(qzeros, group*words, 1, i*bits, bits) == first
			}
		}
		if same {
			return first == middle-1
		}
	}
	return declared != "gptq_v2"
}

// AWQ is W (N,K) of a linear layer as AWQ's GEMM checkpoints have it: element (n,k) is scale·(code − zero), of group k/GroupSize. A word
// has eight codes of four bits along N, of columns 0, 2, 4, 6, 1, 3, 5, 7 from its low bits on.
type AWQ struct {
	N, K, GroupSize int
	QWeight         []byte // int32[K, N/8]
	QZeros          []byte // int32[groups, N/8]
	Scales          Elems  // [groups, N]
}

// Check compares lengths with the shape.
func (a *AWQ) Check() error {
	if err := checkShape("awq", a.N, a.K, 4, 4); err != nil {
		return err
	}
	if a.N%8 != 0 || a.GroupSize < 1 {
		return fmt.Errorf("quant: awq: %d rows in groups of %d elements, want a multiple of 8 rows", a.N, a.GroupSize)
	}
	groups := ceil(a.K, a.GroupSize)
	return lengths("awq", "qweight", len(a.QWeight), a.K*a.N/2, "qzeros", len(a.QZeros), groups*a.N/2, "scales", a.Scales.Len(), groups*a.N)
}

// placesAWQ is which four bits of a word are those of column n%8.
var placesAWQ = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// DecodeRow writes row n of W.
func (a *AWQ) DecodeRow(dst []float32, n int) {
	shift, at := 4*placesAWQ[n%8], n/8
	for k := range a.K {
		group := k / a.GroupSize
		code := word(a.QWeight, k*a.N/8+at) >> shift & 15
		zero := word(a.QZeros, group*a.N/8+at) >> shift & 15
		dst[k] = a.Scales.At(group*a.N+n) * float32(int32(code)-int32(zero))
	}
}
