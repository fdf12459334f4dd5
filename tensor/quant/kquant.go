package quant

// Blocks of 256 elements in groups of 16 or 32, whose scales are integers times the block's d (and minima times its dmin).
//
//	Q2_K  ┌ 16 bytes: scale (low), min (high) ┬ qs 64 ┬ d ┬ dmin ┐   x = d·scale·q − dmin·min    groups of 16
//	Q3_K  ┌ hmask 32 ┬ qs 64 ┬ 12 bytes: scales of 6 bits ┬ d ┐      x = d·(scale−32)·(q−4)      16
//	Q4_K  ┌ d ┬ dmin ┬ 12 bytes: scales, mins of 6 bits ┬ qs 128 ┐   x = d·scale·q − dmin·min    32
//	Q5_K  ┌ d ┬ dmin ┬ 12 bytes: the same ┬ qh 32 ┬ qs 128 ┐         x = d·scale·q − dmin·min    32
//	Q6_K  ┌ ql 128 ┬ qh 64 ┬ 16 signed scales ┬ d ┐                  x = d·scale·(q−32)          16
//
// Of two-bit codes, byte i of each 32 has elements i, i+32, i+64 and i+96 of its 128; of four-bit codes in Q4_K and Q5_K, byte i
// of each 32 has elements i and i+32 of its 64; in Q6_K byte i of each 64 has elements i and i+64 of its 128.
const (
	bytesQ2_K = 16 + superElems/4 + 2 + 2
	bytesQ3_K = superElems/8 + superElems/4 + 12 + 2
	bytesQ4_K = 2 + 2 + 12 + superElems/2
	bytesQ5_K = 2 + 2 + 12 + superElems/8 + superElems/2
	bytesQ6_K = superElems/2 + superElems/4 + 16 + 2
)

var (
	_ [bytesQ2_K]byte = [84]byte{}
	_ [bytesQ3_K]byte = [110]byte{}
	_ [bytesQ4_K]byte = [144]byte{}
	_ [bytesQ5_K]byte = [176]byte{}
	_ [bytesQ6_K]byte = [210]byte{}
)

func decodeQ2_K(dst []float32, src []byte) {
	scales, qs, d, dmin := src[:16], src[16:80], half(src[80:]), half(src[82:])
	for g, s := range scales {
		dl, ml := d*float32(s&15), dmin*float32(s>>4)
		from, shift := twoBits(g)
		for i, q := range qs[from : from+16] {
			dst[16*g+i] = float32(dl*float32(q>>shift&3)) - ml
		}
	}
}

// twoBits is where the two-bit codes of the group g of 16 begin, and how far they are shifted.
func twoBits(g int) (from, shift int) { return g/8*32 + g%2*16, g % 8 / 2 * 2 }

func decodeQ3_K(dst []float32, src []byte) {
	hmask, qs, scales, d := src[:32], src[32:96], src[96:108], half(src[108:])
	for g := range 16 {
		dl := d * float32(scaleQ3_K(scales, g)-32)
		from, shift := twoBits(g)
		for i, q := range qs[from : from+16] {
			v := int(q >> shift & 3)
			if hmask[g%2*16+i]>>(g/2)&1 == 0 {
				v -= 4
			}
			dst[16*g+i] = dl * float32(v)
		}
	}
}

// scaleQ3_K is six bits: four in a half of the first eight bytes, two in a quarter of the last four.
func scaleQ3_K(scales []byte, g int) int {
	return int(scales[g%8]>>(g/8*4)&15) | int(scales[8+g%4]>>(g/4*2)&3)<<4
}

// pairQ4_K is the scale and the min of group g of 32. Those of the first four are the low six bits of a byte; of the others, four
// bits are in the last four bytes and two above the first ones'.
func pairQ4_K(p []byte, g int) (scale, min uint8) {
	if g < 4 {
		return p[g] & 63, p[g+4] & 63
	}
	return p[g+4]&15 | p[g-4]>>6<<4, p[g+4]>>4 | p[g]>>6<<4
}

func decodeQ4_K(dst []float32, src []byte) {
	d, dmin, qs := half(src), half(src[2:]), src[16:]
	for g := range 8 {
		s, m := pairQ4_K(src[4:], g)
		dl, ml := d*float32(s), dmin*float32(m)
		for i, q := range qs[g/2*32 : g/2*32+32] {
			dst[32*g+i] = float32(dl*float32(q>>(g%2*4)&15)) - ml
		}
	}
}

func decodeQ5_K(dst []float32, src []byte) {
	d, dmin, qh, qs := half(src), half(src[2:]), src[16:48], src[48:]
	for g := range 8 {
		s, m := pairQ4_K(src[4:], g)
		dl, ml := d*float32(s), dmin*float32(m)
		for i, q := range qs[g/2*32 : g/2*32+32] {
			dst[32*g+i] = float32(dl*float32(q>>(g%2*4)&15|qh[i]>>g&1<<4)) - ml
		}
	}
}

func decodeQ6_K(dst []float32, src []byte) {
	ql, qh, scales, d := src[:128], src[128:192], src[192:208], half(src[208:])
	for g, s := range scales {
		dl := d * float32(int8(s))
		half, quarter, at := g/8, g%8/2, g%2*16
		low := ql[64*half+quarter%2*32+at:]
		high := qh[32*half+at:]
		for i := range 16 {
			q := low[i]>>(quarter/2*4)&15 | high[i]>>(2*quarter)&3<<4
			dst[16*g+i] = dl * float32(int(q)-32)
		}
	}
}
