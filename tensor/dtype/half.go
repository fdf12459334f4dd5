package dtype

import "math"

// ToBF16 rounds x to bfloat16, nearest even; a NaN stays a (quiet) NaN.
func ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBF16 widens a bfloat16; exact.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToF16 rounds x to IEEE binary16, nearest even. Values above 65504 after rounding become infinite; the
// smallest subnormal is 2⁻²⁴ (5.96e-8) and the smallest normal 2⁻¹⁴ (6.10e-5).
func ToF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case b < 0x33000000: // below half the smallest subnormal; the tie itself, 2⁻²⁵, goes to even (zero)
		return sign
	case b < 0x38800000: // subnormal
		shift := 126 - b>>23 // 14..24
		m := b&0x7fffff | 0x800000
		h := m >> shift
		rest, half := m&(1<<shift-1), uint32(1)<<(shift-1)
		if rest > half || rest == half && h&1 == 1 {
			h++
		}
		return sign | uint16(h)
	}
	b -= 112 << 23
	return sign | uint16((b+0xfff+b>>13&1)>>13)
}

// FromF16 widens an IEEE binary16; exact.
func FromF16(h uint16) float32 {
	sign, e, m := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch {
	case e == 31:
		return math.Float32frombits(sign | 0x7f800000 | m<<13)
	case e == 0:
		f := float32(m) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (e+112)<<23 | m<<13)
}
