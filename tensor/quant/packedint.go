package quant

import "fmt"

// PackedInt is W (N,K) of a linear layer as compressed-tensors' pack-quantized has it: element (n,k) is scale·(code − zero), codes
// signed integers stored with 2^(Bits−1) added, a sequence of Bits along K over words without padding. A scale is of GroupSize elements
// of a row (GIdx[k] says which, where there is one), of a whole row where GroupSize is 0, or there is but one.
type PackedInt struct {
	Bits, N, K, GroupSize int
	Packed                []byte // int32[N, ⌈K·Bits/32⌉]
	Scale                 Elems  // [N, groups], [N, 1] or [1]
	Zero                  []byte // int32[⌈N·Bits/32⌉, groups], packed down N; nil where symmetric
	GIdx                  []byte // int32[K], or nil
}

func (p *PackedInt) groups() int {
	if p.GroupSize == 0 {
		return 1
	}
	return ceil(p.K, p.GroupSize)
}

// Check compares lengths with the shape, and every group with their number.
func (p *PackedInt) Check() error {
	if err := checkShape("pack-quantized", p.N, p.K, p.Bits, 8); err != nil {
		return err
	}
	if p.GroupSize < 0 {
		return fmt.Errorf("quant: pack-quantized: groups of %d elements", p.GroupSize)
	}
	groups, scales := p.groups(), p.Scale.Len()
	if scales == 1 {
		scales = p.N * groups
	}
	if err := lengths("pack-quantized", "weight_packed", len(p.Packed), 4*p.N*ceil(p.K*p.Bits, 32), "weight_scale", scales, p.N*groups); err != nil {
		return err
	}
	if p.Zero != nil && len(p.Zero) != 4*ceil(p.N*p.Bits, 32)*groups {
		return fmt.Errorf("quant: pack-quantized: weight_zero_point has %d bytes, want %d", len(p.Zero), 4*ceil(p.N*p.Bits, 32)*groups)
	}
	if p.GIdx != nil && len(p.GIdx) != 4*p.K {
		return fmt.Errorf("quant: pack-quantized: weight_g_idx has %d bytes, want %d", len(p.GIdx), 4*p.K)
	}
	for k := 0; p.GIdx != nil && k < p.K; k++ {
		if i := word(p.GIdx, k); i >= uint32(groups) {
			return fmt.Errorf("quant: pack-quantized: element %d is of group %d of %d", k, int32(i), groups)
		}
	}
	return nil
}

// DecodeRow writes row n of W.
func (p *PackedInt) DecodeRow(dst []float32, n int) {
	words := ceil(p.K*p.Bits, 32)
	for k := range p.K {
		group := 0
		switch {
		case p.GIdx != nil:
			group = int(word(p.GIdx, k))
		case p.GroupSize > 0:
			group = k / p.GroupSize
		}
		dst[k] = p.scale(n, group) * float32(int32(bitsAt(p.Packed, n*words, 1, k*p.Bits, p.Bits))-p.zero(n, group))
	}
}

func (p *PackedInt) scale(n, group int) float32 {
	if p.Scale.Len() == 1 {
		return p.Scale.At(0)
	}
	return p.Scale.At(n*p.groups() + group)
}

// zero is the zero point of a group of row n, with the same added as codes have.
func (p *PackedInt) zero(n, group int) int32 {
	if p.Zero == nil {
		return 1 << (p.Bits - 1)
	}
	return int32(bitsAt(p.Zero, group, p.groups(), n*p.Bits, p.Bits))
}
