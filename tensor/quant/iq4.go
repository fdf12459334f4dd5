package quant

import (
	"encoding/binary"
)

// IQ4_NL: x = d·values[q]                 IQ4_XS: x = d·(s−32)·values[q], a scale s for every 32
//
//	┌────┬───────────────────────────┐      ┌────┬──────────┬──────────┬────────────┐
//	│ d  │ qs: byte i has elements i │      │ d  │ high two │ low four │ qs: 16     │
//	│f16 │ (low) and i+16 (high)     │      │f16 │ bits of s│ bits of s│ bytes a 32 │
//	└────┴───────────────────────────┘      └────┴──────────┴──────────┴────────────┘
const (
	bytesIQ4_NL = 2 + smallElems/2
	bytesIQ4_XS = 2 + 2 + superElems/64 + superElems/2
)

var (
	_ [bytesIQ4_NL]byte = [18]byte{}
	_ [bytesIQ4_XS]byte = [136]byte{}
)

// valuesIQ4 are the codes' values, closer together near zero.
var valuesIQ4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

func decodeIQ4_NL(dst []float32, src []byte) {
	decodeIQ4(dst, src[2:], half(src))
}

func decodeIQ4(dst []float32, qs []byte, d float32) {
	for i, q := range qs[:16] {
		dst[i] = d * float32(valuesIQ4[q&15])
		dst[i+16] = d * float32(valuesIQ4[q>>4])
	}
}

func decodeIQ4_XS(dst []float32, src []byte) {
	d, high := half(src), binary.LittleEndian.Uint16(src[2:])
	for g := range 8 {
		s := int(src[4+g/2]>>(g%2*4)&15) | int(high>>(2*g)&3)<<4
		decodeIQ4(dst[32*g:], src[8+16*g:], d*float32(s-32))
	}
}

// encodeIQ4_NL weighs errors by x². It takes the scale that fits the codes found from the largest element.
func encodeIQ4_NL(dst []byte, src []float32) bool {
	var codes [32]uint8
	d := fitIQ4(src, &codes, false)
	packIQ4(dst[2:], codes[:])
	return putHalf(dst, d)
}

// encodeIQ4_XS tries 15 scales more around that of each 32, and rounds the best to six bits of the block's.
func encodeIQ4_XS(dst []byte, src []float32) bool {
	var scales [8]float32
	var codes [32]uint8
	most := float32(0)
	for g := range scales {
		scales[g] = fitIQ4(src[32*g:32*g+32], &codes, true)
		if abs(scales[g]) > abs(most) {
			most = scales[g]
		}
	}
	d := -most / 32
	r := inverse(d)
	clear(dst[2:8])
	high := uint16(0)
	for g := range scales {
		l := max(-32, min(31, nearest(r*scales[g])))
		r := inverse(d * float32(l))
		for i, x := range src[32*g : 32*g+32] {
			codes[i] = nearestIQ4(r * x)
		}
		packIQ4(dst[8+16*g:], codes[:])
		dst[4+g/2] |= uint8(l+32) & 15 << (g % 2 * 4)
		high |= uint16(l+32) >> 4 << (2 * g)
	}
	binary.LittleEndian.PutUint16(dst[2:], high)
	return putHalf(dst, d)
}

func packIQ4(qs []byte, codes []uint8) {
	for i := range 16 {
		qs[i] = codes[i] | codes[i+16]<<4
	}
}

// fitIQ4 returns the scale of 32 elements, trying others around the first when search is set, and leaves the first's codes.
func fitIQ4(x []float32, codes *[32]uint8, search bool) float32 {
	clear(codes[:])
	most := extreme(x)
	if abs(most) < leastScale {
		return 0
	}
	lowest := float32(valuesIQ4[0])
	d := most / lowest
	if search {
		d = -most / lowest
	}
	sums := func(r float32, keep bool) (qx, qq float32) {
		for i, x := range x {
			l := nearestIQ4(r * x)
			if keep {
				codes[i] = l
			}
			q, w := float32(valuesIQ4[l]), x*x
			qx += float32(float32(w*q) * x)
			qq += float32(float32(w*q) * q)
		}
		return qx, qq
	}
	qx, qq := sums(1/d, true)
	d = 0
	if qq > 0 {
		d = qx / qq
	}
	if !search {
		return d
	}
	best := d * qx
	for try := -7; try <= 7; try++ {
		qx, qq := sums((float32(try)+lowest)/most, false)
		if qq > 0 && qx*qx > best*qq {
			d = qx / qq
			best = d * qx
		}
	}
	return d
}

// nearestIQ4 is the code whose value is nearest to x, the higher of two.
func nearestIQ4(x float32) uint8 {
	if x <= float32(valuesIQ4[0]) {
		return 0
	}
	for q := 1; q < 16; q++ {
		if hi := float32(valuesIQ4[q]); x < hi {
			if x-float32(valuesIQ4[q-1]) < hi-x {
				return uint8(q - 1)
			}
			return uint8(q)
		}
	}
	return 15
}
