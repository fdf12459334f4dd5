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
