package quant

import "math"

// leastScale is the magnitude below which a group counts as zero (GROUP_MAX_EPS).
const leastScale = 1e-15

// nearest rounds to the nearest integer, halves to even, and cuts at ±(2²²−1).
func nearest(x float32) int {
	const most = 1<<22 - 1
	return int(math.Float32bits(min(max(x, -most), most)+(3<<22))&0x7fffff) - 1<<22
}

func bound(x, lo, hi int) int { return max(lo, min(hi, x)) }

// encodeQ2_K fits scale and min of each 16 by the sum of |x|·|error|.
func encodeQ2_K(dst []byte, src []float32) bool {
	var codes [superElems]uint8
	var scales, mins [16]float32
	var weights [32]float32
	for g := range scales {
		x := src[16*g : 16*g+16]
		for i, x := range x {
			weights[i] = abs(x)
		}
		scales[g], mins[g] = fitMin(x, weights[:16], codes[16*g:], fit{most: 3, from: -0.5, steps: 15, abs: true})
	}
	topScale, topMin := top(scales[:]), top(mins[:])
	for g := range scales {
		dst[g] = 0
		if topScale > 0 {
			dst[g] = uint8(nearest(15 / topScale * scales[g]))
		}
		if topMin > 0 {
			dst[g] |= uint8(nearest(15/topMin*mins[g])) << 4
		}
	}
	ok := putHalf(dst[80:], topScale/15)
	ok = putHalf(dst[82:], topMin/15) && ok
	d, dmin := half(dst[80:]), half(dst[82:])
	for g := range scales {
		recode(codes[16*g:], src[16*g:16*g+16], d*float32(dst[g]&15), dmin*float32(dst[g]>>4), 0, 3)
	}
	packTwo(dst[16:], codes[:])
	return ok
}

// top is the largest of x, and 0 if none is above it.
func top(x []float32) (most float32) {
	for _, x := range x {
		if x > most {
			most = x
		}
	}
	return most
}

// recode finds the codes again for a scale as it is stored, which is zero only where none would do.
func recode(codes []uint8, x []float32, d, m float32, lo, hi int) {
	if d == 0 {
		return
	}
	for i, x := range x {
		codes[i] = uint8(bound(nearest((x+m)/d), lo, hi) - lo)
	}
}

func packTwo(qs []byte, codes []uint8) {
	for part := range 2 {
		c := codes[128*part:]
		for i := range 32 {
			qs[32*part+i] = c[i] | c[i+32]<<2 | c[i+64]<<4 | c[i+96]<<6
		}
	}
}

// encodeQ3_K fits the scale of each 16 by the sum of x²·error², changing one code at a time.
func encodeQ3_K(dst []byte, src []float32) bool {
	var codes [superElems]uint8
	var scales [16]float32
	most := float32(0)
	for g := range scales {
		scales[g] = fitTurns(src[16*g:16*g+16], codes[16*g:])
		if abs(scales[g]) > abs(most) {
			most = scales[g]
		}
	}
	packed := dst[96:108]
	clear(packed)
	d := float32(0)
	if most != 0 {
		r := -32 / most
		for g := range scales {
			l := uint8(bound(int(int8(nearest(r*scales[g]))), -32, 31) + 32)
			packed[g%8] |= l & 15 << (g / 8 * 4)
			packed[8+g%4] |= l >> 4 << (g / 4 * 2)
		}
		d = 1 / r
	}
	ok := putHalf(dst[108:], d)
	d = half(dst[108:])
	for g := range scales {
		recode(codes[16*g:], src[16*g:16*g+16], d*float32(scaleQ3_K(packed, g)-32), 0, -4, 3)
	}
	clear(dst[:32])
	for i, c := range codes {
		if c > 3 {
			dst[i%32] |= 1 << (i / 32)
			codes[i] -= 4
		}
	}
	packTwo(dst[32:], codes[:])
	return ok
}

func encodeQ4_K(dst []byte, src []float32) bool {
	var codes [superElems]uint8
	ok := encodePairs(dst, src, codes[:], fit{most: 15, from: -1, steps: 20})
	for part := range 4 {
		c, qs := codes[64*part:], dst[16+32*part:]
		for i := range 32 {
			qs[i] = c[i] | c[i+32]<<4
		}
	}
	return ok
}

func encodeQ5_K(dst []byte, src []float32) bool {
	var codes [superElems]uint8
	ok := encodePairs(dst, src, codes[:], fit{most: 31, from: -0.5, steps: 15})
	qh := dst[16:48]
	clear(qh)
	for part := range 4 {
		c, qs := codes[64*part:], dst[48+32*part:]
		for i := range 32 {
			qs[i] = c[i]&15 | c[i+32]&15<<4
			qh[i] |= c[i]>>4<<(2*part) | c[i+32]>>4<<(2*part+1)
		}
	}
	return ok
}

// encodePairs writes the first 16 bytes of Q4_K and Q5_K and finds the codes. Errors are weighed by |x| and its root mean square.
func encodePairs(dst []byte, src []float32, codes []uint8, how fit) bool {
	var scales, mins [8]float32
	var weights [32]float32
	for g := range scales {
		x := src[32*g : 32*g+32]
		sum := float32(0)
		for _, x := range x {
			sum += float32(x * x)
		}
		mean := float32(math.Sqrt(float64(sum / 32)))
		for i, x := range x {
			weights[i] = mean + abs(x)
		}
		scales[g], mins[g] = fitMin(x, weights[:], codes[32*g:], how)
	}
	topScale, topMin := top(scales[:]), top(mins[:])
	var rs, rm float32
	if topScale > 0 {
		rs = 63 / topScale
	}
	if topMin > 0 {
		rm = 63 / topMin
	}
	p := dst[4:16]
	for g := range scales {
		s, m := min(63, uint8(nearest(rs*scales[g]))), min(63, uint8(nearest(rm*mins[g])))
		if g < 4 {
			p[g], p[g+4] = s, m
		} else {
			p[g+4] = s&15 | m&15<<4
			p[g-4] |= s >> 4 << 6
			p[g] |= m >> 4 << 6
		}
	}
	ok := putHalf(dst, topScale/63)
	ok = putHalf(dst[2:], topMin/63) && ok
	d, dmin := half(dst), half(dst[2:])
	for g := range scales {
		s, m := pairQ4_K(p, g)
		recode(codes[32*g:], src[32*g:32*g+32], d*float32(s), dmin*float32(m), 0, how.most)
	}
	return ok
}

// encodeQ6_K fits the scale of each 16 by the sum of x²·error².
func encodeQ6_K(dst []byte, src []float32) bool {
	var codes [superElems]uint8
	var scales [16]float32
	most := float32(0)
	for g := range scales {
		scales[g] = fitScale(src[16*g:16*g+16], codes[16*g:])
		if abs(scales[g]) > abs(most) {
			most = scales[g]
		}
	}
	if abs(most) < leastScale {
		clear(dst)
		return true
	}
	r := -128 / most
	ok := putHalf(dst[208:], 1/r)
	d := half(dst[208:])
	for g := range scales {
		s := int8(min(127, nearest(r*scales[g])))
		dst[192+g] = uint8(s)
		recode(codes[16*g:], src[16*g:16*g+16], d*float32(s), 0, -32, 31)
	}
	for part := range 2 {
		c, ql, qh := codes[128*part:], dst[64*part:], dst[128+32*part:]
		for i := range 32 {
			ql[i] = c[i]&15 | c[i+64]&15<<4
			ql[i+32] = c[i+32]&15 | c[i+96]&15<<4
			qh[i] = c[i]>>4 | c[i+32]>>4<<2 | c[i+64]>>4<<4 | c[i+96]>>4<<6
		}
	}
	return ok
}
