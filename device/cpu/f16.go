package cpu

import (
	"math"

	"loadline/tensor/dtype"
)

// widenF16 is dtype.FromF16 of each element.
func widenF16(out []float32, x []uint16) {
	out = out[:len(x)]
	for i, h := range x {
		m, sign := uint32(h&0x7fff), uint32(h&0x8000)<<16
		if m-0x400 < 0x7c00-0x400 {
			out[i] = math.Float32frombits(m<<13 + 112<<23 | sign)
		} else if m < 0x400 {
			out[i] = math.Float32frombits(math.Float32bits(float32(int32(m))*0x1p-24) | sign)
		} else {
			out[i] = dtype.FromF16(h)
		}
	}
}

// roundF16 is dtype.ToF16 of each element. A number below the normal ones is rounded by an addition: the last place of
// numbers from 0.5 to 1 is 2⁻²⁴, the least f16.
func roundF16(out []uint16, x []float32) {
	out = out[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		a, sign := b&0x7fffffff, b>>16&0x8000
		if a-0x38800000 < 0x477ff000-0x38800000 {
			out[i] = uint16(sign | (a-112<<23+0xfff+a>>13&1)>>13)
		} else if a < 0x38800000 {
			out[i] = uint16(sign | math.Float32bits(math.Float32frombits(a)+0.5) - 0x3f000000)
		} else {
			out[i] = dtype.ToF16(v)
		}
	}
}
