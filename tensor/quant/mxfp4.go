package quant

import "math"

// MXFP4: x = 2^(e−128)·values[q]: the four-bit floats of OCP's e2m1, doubled so that they are integers, and half the scale e8m0.
//
//	┌────┬───────────────────────────┐
//	│ e  │ qs: byte i has elements i │
//	│ u8 │ (low) and i+16 (high)     │
//	└────┴───────────────────────────┘
//
// NVFP4: four groups of 16; x = scale/2·values[q], scale an unsigned e4m3.
//
//	┌──────────────┬──────────────────────────────────────────────────────────────┐
//	│ 4 scales, u8 │ qs: 8 bytes a group, byte i has elements i (low), i+8 (high) │
//	└──────────────┴──────────────────────────────────────────────────────────────┘
const (
	bytesMXFP4 = 1 + smallElems/2
	elemsNVFP4 = 64
	bytesNVFP4 = 4 + elemsNVFP4/2
)

var (
	_ [bytesMXFP4]byte = [17]byte{}
	_ [bytesNVFP4]byte = [36]byte{}
)

// valuesE2M1 are the e2m1 floats times two.
var valuesE2M1 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// halfE8M0 is 2^(e−128), half of what e8m0 says.
func halfE8M0(e uint8) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

func decodeMXFP4(dst []float32, src []byte) {
	d := halfE8M0(src[0])
	for i, q := range src[1:bytesMXFP4] {
		dst[i] = d * float32(valuesE2M1[q&15])
		dst[i+16] = d * float32(valuesE2M1[q>>4])
	}
}

// encodeMXFP4 takes the scale whose largest code 6 is in the binade of the largest element, and the nearest code, the first
// among equals. Where the reference wraps below 2⁻¹²⁵, the scale stays at its smallest.
func encodeMXFP4(dst []byte, src []float32) bool {
	e := uint8(0)
	if most := abs(extreme(src)); most > 0 {
		log := float32(math.Log2(float64(most))) // rounded to float32 before its floor, as the reference has it
		e = uint8(max(math.Floor(float64(log))-2+127, 0))
	}
	d := halfE8M0(e)
	dst[0] = e
	for i := range 16 {
		dst[1+i] = nearestE2M1(src[i], d) | nearestE2M1(src[i+16], d)<<4
	}
	return true
}

func nearestE2M1(x, d float32) (best uint8) {
	least := abs(0 - x)
	for q := 1; q < 16; q++ {
		if e := abs(float32(d*float32(valuesE2M1[q])) - x); e < least {
			best, least = uint8(q), e
		}
	}
	return best
}

func decodeNVFP4(dst []float32, src []byte) {
	for g := range 4 {
		d := halfE4M3(src[g])
		for i, q := range src[4+8*g : 12+8*g] {
			dst[16*g+i] = d * float32(valuesE2M1[q&15])
			dst[16*g+i+8] = d * float32(valuesE2M1[q>>4])
		}
	}
}

// halfE4M3 is half of an unsigned e4m3, whose sign bit is ignored and whose one NaN is 0.
func halfE4M3(x uint8) float32 {
	e, m := int(x>>3&15), float64(x&7)
	switch {
	case x == 0x7f:
		return 0
	case e == 0:
		return float32(math.Ldexp(m, -10))
	}
	return float32(math.Ldexp(1+m/8, e-8))
}
