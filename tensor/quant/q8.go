package quant

import "math"

// Q8_0: x = d·q
//
//	┌────┬──────────────────────┐
//	│ d  │ qs: 32 signed bytes  │
//	│f16 │                      │
//	└────┴──────────────────────┘
const bytesQ8_0 = 2 + smallElems

var _ [bytesQ8_0]byte = [34]byte{}

func decodeQ8_0(dst []float32, src []byte) {
	d := half(src)
	for i, q := range src[2:bytesQ8_0] {
		dst[i] = float32(int8(q)) * d
	}
}

func encodeQ8_0(dst []byte, src []float32) bool {
	d := abs(extreme(src)) / 127
	r := inverse(d)
	for i, x := range src {
		dst[2+i] = uint8(int8(roundAway(x * r)))
	}
	return putHalf(dst, d)
}

// roundAway rounds to the nearest integer, halves away from zero.
func roundAway(x float32) float32 {
	a := abs(x)
	whole := float32(math.Floor(float64(a)))
	whole += float32(math.Floor(float64(2 * (a - whole))))
	return float32(math.Copysign(float64(whole), float64(x)))
}
