package dtype

import "math"

// ToE4M3 rounds x to 8 bits of OCP's E4M3, nearest even (OCP 8-bit Floating Point Specification 1.0, §5.2): the largest is 448, to which
// what is larger is cut; the smallest normal is 2⁻⁶ and the smallest subnormal 2⁻⁹. The format has no infinities: infinities
// and NaN become NaN.
func ToE4M3(x float32) uint8 {
	b := math.Float32bits(x)
	sign := uint8(b >> 24 & 0x80)
	b &= 0x7fffffff
	switch {
	case b >= 0x7f800000:
		return sign | 0x7f
	case b >= 0x43e00000: // 448
		return sign | 0x7e
	case b < 0x3c800000: // steps of 2⁻⁹; eight of them are the smallest normal
		return sign | uint8(math.RoundToEven(float64(math.Float32frombits(b))*512))
	}
	b -= 120 << 23
	return sign | uint8((b+0x7ffff+b>>20&1)>>20)
}

// FromE4M3 widens 8 bits of E4M3; exact.
func FromE4M3(h uint8) float32 {
	sign, e, m := uint32(h&0x80)<<24, uint32(h>>3&15), uint32(h&7)
	switch {
	case e == 15 && m == 7:
		return math.Float32frombits(sign | 0x7fc00000)
	case e == 0:
		return math.Float32frombits(sign | math.Float32bits(float32(m)*(1.0/512)))
	}
	return math.Float32frombits(sign | (e+120)<<23 | m<<20)
}
