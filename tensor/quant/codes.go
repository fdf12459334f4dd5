package quant

import "fmt"

// The layers of integer codes also give a row as codes with a scale and a zero point for each group: element k is
// scales[g]·(codes[k] − zeros[g]). That is what products with packed weights are made from (kernel.GroupedWeights).

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
