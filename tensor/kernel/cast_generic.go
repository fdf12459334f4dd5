package kernel

import "math"

func roundBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func widenBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

func roundBF16Generic(out []uint16, x []float32) {
	for i, v := range x {
		out[i] = roundBF16(v)
	}
}

func widenBF16Generic(out []float32, x []uint16) {
	for i, h := range x {
		out[i] = widenBF16(h)
	}
}

// widenF16Generic makes a number below the normal ones by a product, which is exact.
func widenF16Generic(out []float32, x []uint16) {
	out = out[:len(x)]
	for i, h := range x {
		m, sign := uint32(h&0x7fff), uint32(h&0x8000)<<16
		switch {
		case m-0x400 < 0x7c00-0x400:
			out[i] = math.Float32frombits(m<<13 + 112<<23 | sign)
		case m < 0x400:
			out[i] = math.Float32frombits(math.Float32bits(float32(int32(m))*0x1p-24) | sign)
		case m == 0x7c00:
			out[i] = math.Float32frombits(0x7f800000 | sign)
		default:
			out[i] = math.Float32frombits(m<<13 | 0x7fc00000 | sign)
		}
	}
}

// roundF16Generic rounds a number below the normal ones by an addition: the last place of numbers from 0.5 to 1 is
// 2⁻²⁴, the least f16.
func roundF16Generic(out []uint16, x []float32) {
	out = out[:len(x)]
	for i, v := range x {
		b := math.Float32bits(v)
		a, sign := b&0x7fffffff, b>>16&0x8000
		switch {
		case a-0x38800000 < 0x477ff000-0x38800000:
			out[i] = uint16(sign | (a-112<<23+0xfff+a>>13&1)>>13)
		case a < 0x38800000:
			out[i] = uint16(sign | math.Float32bits(math.Float32frombits(a)+0.5) - 0x3f000000)
		case a <= 0x7f800000:
			out[i] = uint16(sign | 0x7c00)
		default:
			out[i] = uint16(sign | 0x7e00)
		}
	}
}

// stochasticWholeGeneric is the form that sets supply: whole groups of 32 elements from counter on.
func stochasticWholeGeneric(out []uint16, x []float32, key uint32, counter uint64) {
	stochasticBF16Generic(out, x, key, counter/8*32)
}

func stochasticBF16Generic(out []uint16, x []float32, key uint32, first uint64) {
	for i, v := range x {
		b := math.Float32bits(v)
		if v != v {
			out[i] = uint16(b>>16) | 0x40
			continue
		}
		e := first + uint64(i)
		words := philox(key, e/32*8+e%16/2)
		out[i] = uint16((b + words[e%2]>>(e/16%2*16)&0xffff) >> 16)
	}
}

// philox is Philox2x32-10.
func philox(key uint32, counter uint64) [2]uint32 {
	x0, x1 := uint32(counter), uint32(counter>>32)
	for range 10 {
		p := uint64(x0) * 0xD256D193
		x0, x1 = uint32(p>>32)^key^x1, uint32(p)
		key += 0x9E3779B9
	}
	return [2]uint32{x0, x1}
}
