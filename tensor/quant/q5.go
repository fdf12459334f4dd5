package quant

import "encoding/binary"

// Q5_0: x = d·(q−16)                            Q5_1: x = d·q + m
//
//	┌────┬──────────────────┬──────────────┐      ┌────┬────┬────┬────┐
//	│ d  │ qh: bit i is the │ qs: low four │      │ d  │ m  │ qh │ qs │
//	│f16 │ fifth of elem. i │ bits, as Q4_0│      │f16 │f16 │    │    │
//	└────┴──────────────────┴──────────────┘      └────┴────┴────┴────┘
const (
	bytesQ5_0 = 2 + 4 + smallElems/2
	bytesQ5_1 = 2 + 2 + 4 + smallElems/2
)

var (
	_ [bytesQ5_0]byte = [22]byte{}
	_ [bytesQ5_1]byte = [24]byte{}
)

func decodeQ5_0(dst []float32, src []byte) {
	d, qh := half(src), binary.LittleEndian.Uint32(src[2:])
	for i, q := range src[6:bytesQ5_0] {
		dst[i] = d * float32(int(uint32(q&15)|qh>>i&1<<4)-16)
		dst[i+16] = d * float32(int(uint32(q>>4)|qh>>(i+16)&1<<4)-16)
	}
}

func encodeQ5_0(dst []byte, src []float32) bool {
	d := extreme(src) / -16
	encode5(dst[2:], src, 0, inverse(d), 16.5)
	return putHalf(dst, d)
}

func decodeQ5_1(dst []float32, src []byte) {
	d, m, qh := half(src), half(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for i, q := range src[8:bytesQ5_1] {
		dst[i] = float32(d*float32(uint32(q&15)|qh>>i&1<<4)) + m
		dst[i+16] = float32(d*float32(uint32(q>>4)|qh>>(i+16)&1<<4)) + m
	}
}

func encodeQ5_1(dst []byte, src []float32) bool {
	lo, hi := ends(src)
	d := (hi - lo) / 31
	encode5(dst[4:], src, lo, inverse(d), 0.5)
	return putHalf(dst, d) && putHalf(dst[2:], lo)
}

// encode5 writes qh and qs.
func encode5(dst []byte, src []float32, lo, r, round float32) {
	qh := uint32(0)
	for i := range 16 {
		a, b := code(src[i]-lo, r, round, 31), code(src[i+16]-lo, r, round, 31)
		dst[4+i] = a&15 | b<<4
		qh |= uint32(a>>4)<<i | uint32(b>>4)<<(i+16)
	}
	binary.LittleEndian.PutUint32(dst, qh)
}
