package quant

// TQ1_0: x = d·(t−1), five digits t of base 3 in a byte (in the last four bytes four), as a fraction of 256 rounded up.
//
//	┌───────────────────────────┬────────────────────┬────┐
//	│ qs: 32 bytes: 5·32, then  │ qh: 4 bytes: 4·4   │ d  │
//	│ 16 bytes: 5·16 elements   │ elements           │f16 │
//	└───────────────────────────┴────────────────────┴────┘
//
// TQ2_0: x = d·(q−1), two bits q; byte i of each 32 has elements i, i+32, i+64, i+96.
//
//	┌──────────────┬────┐
//	│ qs: 64 bytes │ d  │
//	└──────────────┴────┘
const (
	bytesTQ1_0 = 48 + 4 + 2
	bytesTQ2_0 = superElems/4 + 2
)

var (
	_ [bytesTQ1_0]byte = [54]byte{}
	_ [bytesTQ2_0]byte = [66]byte{}
)

func decodeTQ1_0(dst []float32, src []byte) {
	d := half(src[52:])
	digits := func(qs []byte, n int) {
		for range n {
			for i, q := range qs {
				dst[i] = d * float32(int(uint16(q)*3>>8)-1)
			}
			for i := range qs {
				qs[i] *= 3
			}
			dst = dst[len(qs):]
		}
	}
	var qs [52]byte
	copy(qs[:], src)
	digits(qs[:32], 5)
	digits(qs[32:48], 5)
	digits(qs[48:], 4)
}

func decodeTQ2_0(dst []float32, src []byte) {
	d := half(src[64:])
	for part := range 2 {
		for i, q := range src[32*part : 32*part+32] {
			for k := range 4 {
				dst[128*part+32*k+i] = d * float32(int(q>>(2*k)&3)-1)
			}
		}
	}
}
