package quant

import "fmt"

// Layers also give a row as codes with a scale and a zero point for each group: where they are integers element k is
// scales[g]·(codes[k] − zeros[g]), else scales[g]·value. That is what packed weights are made from (Group).

// GroupOrder fills order with the elements of a row by ascending group, where a checkpoint's are in another order (act-order): element i
// of what Codes writes is element order[i] of W's row, and activations go with it. ends, as many as groups, is workspace. It refuses
// groups that are not of groupSize elements each.
func GroupOrder(order []int32, gidx []byte, ends []int32, groupSize int) error {
	if len(gidx) != 4*len(order) || len(order) != len(ends)*groupSize {
		return fmt.Errorf("quant: g_idx has %d bytes, want %d groups of %d elements", len(gidx), len(ends), groupSize)
	}
	for g := range ends {
		ends[g] = int32(g * groupSize)
	}
	for k := range order {
		g := word(gidx, k)
		if g >= uint32(len(ends)) || ends[g] >= int32((int(g)+1)*groupSize) {
			return fmt.Errorf("quant: g_idx: group %d of %d has not %d elements", int32(g), len(ends), groupSize)
		}
		order[ends[g]] = int32(k)
		ends[g]++
	}
	return nil
}

// at is element i in an order, which may be nil.
func at(order []int32, i int) int {
	if order == nil {
		return i
	}
	return int(order[i])
}

// Codes writes row n. order is GroupOrder's where there is a GIdx, else nil.
func (g *GPTQ) Codes(codes []uint8, scales, zeros []float32, n int, order []int32) {
	if order == nil && 32%g.Bits == 0 { // whole words
		for each := 32 / g.Bits; len(codes) > 0; {
			at := g.K - len(codes)
			x := word(g.QWeight, at/each*g.N+n)
			some := codes[:min(each, len(codes))]
			for i := range some {
				some[i] = uint8(x & (1<<g.Bits - 1))
				x >>= g.Bits
			}
			codes = codes[len(some):]
		}
	}
	for i := range codes {
		codes[i] = uint8(bitsAt(g.QWeight, n, g.N, at(order, i)*g.Bits, g.Bits))
	}
	for group := range scales {
		scales[group], zeros[group] = g.Scales.At(group*g.N+n), float32(g.zero(group, n))
	}
}

// Codes writes row n.
func (a *AWQ) Codes(codes []uint8, scales, zeros []float32, n int) {
	shift, column := 4*placesAWQ[n%8], n/8
	for k := range codes {
		codes[k] = uint8(word(a.QWeight, k*a.N/8+column) >> shift & 15)
	}
	for group := range scales {
		scales[group], zeros[group] = a.Scales.At(group*a.N+n), float32(word(a.QZeros, group*a.N/8+column)>>shift&15)
	}
}

// Codes writes row n, with 2^(Bits−1) added to codes and zero points. order is GroupOrder's where there is a GIdx, else nil.
func (p *PackedInt) Codes(codes []uint8, scales, zeros []float32, n int, order []int32) {
	words := ceil(p.K*p.Bits, 32)
	for i := range codes {
		codes[i] = uint8(bitsAt(p.Packed, n*words, 1, at(order, i)*p.Bits, p.Bits))
	}
	for group := range scales {
		scales[group], zeros[group] = p.scale(n, group), float32(p.zero(n, group))
	}
}

// Codes writes row n: bytes as they are where they are floats, which have no zero points, else with 128 added to codes and zero points.
func (s *Scaled) Codes(codes []uint8, scales, zeros []float32, n int) {
	copy(codes, s.Weight[n*s.K:(n+1)*s.K])
	first := n / s.RowBlock * ceil(s.K, s.ColBlock)
	for group := range scales {
		scales[group], zeros[group] = s.Scale.At(first+group), 0
	}
	if s.Byte != ByteInt8 {
		return
	}
	for i := range codes {
		codes[i] ^= 0x80
	}
	for group := range zeros {
		zeros[group] = 128
		if s.Zero != nil {
			zeros[group] += float32(int8(s.Zero[first+group]))
		}
	}
}

// CodesFrom writes elements first to first+len(codes), and the scale of every so many of them, of which BlockSize and first are multiples.
func (q *NF4) CodesFrom(codes []uint8, scales []float32, first int) {
	for i := range codes {
		at := first + i
		codes[i] = q.Codes[at/2] >> (4 - at%2*4) & 15
	}
	each := len(codes) / max(1, len(scales))
	for i := range scales {
		scales[i] = q.absmax((first + i*each) / q.BlockSize)
	}
}

// Normal tells whether Map is nf4's, to the bit.
func (q *NF4) Normal() bool {
	for i, x := range valuesNF4 {
		if q.Map.At(i) != x {
			return false
		}
	}
	return true
}
