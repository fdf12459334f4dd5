package quant

// Q4_0: x = d·(q−8)                       Q4_1: x = d·q + m
//
//	┌────┬───────────────────────────┐      ┌────┬────┬──────────────┐
//	│ d  │ qs: byte i has elements i │      │ d  │ m  │ qs: the same │
//	│f16 │ (low) and i+16 (high)     │      │f16 │f16 │              │
//	└────┴───────────────────────────┘      └────┴────┴──────────────┘
const (
	bytesQ4_0 = 2 + smallElems/2
	bytesQ4_1 = 2 + 2 + smallElems/2
)

var (
	_ [bytesQ4_0]byte = [18]byte{}
	_ [bytesQ4_1]byte = [20]byte{}
)

func decodeQ4_0(dst []float32, src []byte) {
	d := half(src)
	for i, q := range src[2:bytesQ4_0] {
		dst[i] = d * float32(int(q&15)-8)
		dst[i+16] = d * float32(int(q>>4)-8)
	}
}

// encodeQ4_0 gives the element of largest magnitude, the first of them, the code 0, so that it is met exactly.
func encodeQ4_0(dst []byte, src []float32) bool {
	d := extreme(src) / -8
	r := inverse(d)
	for i := range 16 {
		dst[2+i] = code(src[i], r, 8.5, 15) | code(src[i+16], r, 8.5, 15)<<4
	}
	return putHalf(dst, d)
}

func decodeQ4_1(dst []float32, src []byte) {
	d, m := half(src), half(src[2:])
	for i, q := range src[4:bytesQ4_1] {
		dst[i] = float32(d*float32(q&15)) + m
		dst[i+16] = float32(d*float32(q>>4)) + m
	}
}

func encodeQ4_1(dst []byte, src []float32) bool {
	lo, hi := ends(src)
	d := (hi - lo) / 15
	r := inverse(d)
	for i := range 16 {
		dst[4+i] = code(src[i]-lo, r, 0.5, 15) | code(src[i+16]-lo, r, 0.5, 15)<<4
	}
	return putHalf(dst, d) && putHalf(dst[2:], lo)
}

// extreme returns the first element of the largest magnitude.
func extreme(src []float32) float32 {
	most, of := float32(-1), float32(0)
	for _, x := range src {
		if a := abs(x); a > most {
			most, of = a, x
		}
	}
	return of
}

// ends returns the smallest and the largest element.
func ends(src []float32) (lo, hi float32) {
	lo, hi = src[0], src[0]
	for _, x := range src[1:] {
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

// code is x·r + round, cut to an integer of 0 to most.
func code(x, r, round float32, most uint8) uint8 {
	return uint8(min(max(float32(x*r)+round, 0), float32(most)))
}
