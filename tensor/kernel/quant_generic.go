package kernel

import (
	"encoding/binary"
	"math"

	"loadline/tensor/dtype"
	"loadline/tensor/quant"
)

var genericQuant = quantTable{quantize: quantizeGeneric, gemm: gemmQuantGeneric, grouped: gemmGroupedGeneric, half: gemmHalfGeneric}

func quantizeGeneric(dst []byte, x []float32) {
	for ; len(x) > 0; dst, x = dst[quantGroupBytes:], x[QuantGroup:] {
		most := uint32(0)
		for _, v := range x[:QuantGroup] {
			most = max(most, math.Float32bits(v)&0x7fffffff) // of bits, so that a NaN is the largest
		}
		d := math.Float32frombits(most) / 127
		r := 1 / d
		if r-r != 0 {
			r = 0
		}
		var sums [2]int32
		for i, v := range x[:QuantGroup] {
			q := roundEven(v * r)
			dst[i] = byte(q)
			sums[i/16] += q
		}
		all := sums[0] + sums[1]
		putFloat(dst[32:], d)
		putFloat(dst[36:], d*float32(all))
		binary.LittleEndian.PutUint32(dst[40:], uint32(-8*sums[0]))
		binary.LittleEndian.PutUint32(dst[44:], uint32(-8*sums[1]))
		binary.LittleEndian.PutUint32(dst[48:], uint32(-8*all))
		putFloat(dst[52:], d*float32(sums[0]))
		putFloat(dst[56:], d*float32(sums[1]))
		clear(dst[60:quantGroupBytes])
	}
}

// roundEven rounds to the nearest integer, halves to even, |x| below 2²²; what is not a number is −128.
func roundEven(x float32) int32 {
	if x != x {
		return -128
	}
	return int32(math.Float32bits(x+(3<<22))&0x7fffff) - 1<<22
}

func putFloat(p []byte, x float32) { binary.LittleEndian.PutUint32(p, math.Float32bits(x)) }
func float(p []byte) float32       { return math.Float32frombits(binary.LittleEndian.Uint32(p)) }
func int32At(p []byte) int32       { return int32(binary.LittleEndian.Uint32(p)) }

func gemmQuantGeneric(t quant.Type, rows, cols int, c []float32, ldc int, a []byte, lda int, b []byte, blocks int) {
	p, _ := panelOf(t)
	for r := range rows {
		clear(c[r*ldc:][:cols])
	}
	var u unpacked
	for block := range blocks {
		for step := range p.elems / QuantGroup {
			u.unpack(t, b[block*p.bytes:][:p.bytes], step)
			for r := range rows {
				u.multiply(c[r*ldc:][:cols], a[r*lda+(block*p.elems/QuantGroup+step)*quantGroupBytes:][:quantGroupBytes])
			}
		}
	}
}

// multiply continues the sums of some columns by a group of A.
func (u *unpacked) multiply(c []float32, a []byte) {
	d := float(a[32:])
	for n := range c {
		sums := [2]int32{int32At(a[40:]) / 8 * u.zero, int32At(a[44:]) / 8 * u.zero}
		for i, code := range u.codes[n] {
			sums[i/16] += int32(code) * int32(int8(a[i]))
		}
		if !u.halves {
			c[n] = fma32(float32(sums[0]+sums[1]), u.scale[0][n]*d, c[n])
			if u.mins {
				c[n] = fma32(u.min[0][n], float(a[36:]), c[n])
			}
			continue
		}
		for half := range sums {
			c[n] = fma32(float32(sums[half]), u.scale[half][n]*d, c[n])
			if u.mins {
				c[n] = fma32(u.min[half][n], float(a[52+4*half:]), c[n])
			}
		}
	}
}

// fma32 is x·y + z rounded once. The product is exact in float64; its sum with z is rounded to odd there, which leaves the rounding to
// float32 as that of the exact sum (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008).
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	v := s - p
	if e := (p - (s - v)) + (c - v); e != 0 && e == e {
		if bits := math.Float64bits(s); bits&1 == 0 {
			if (e > 0) == (s > 0) {
				s = math.Float64frombits(bits + 1)
			} else {
				s = math.Float64frombits(bits - 1)
			}
		}
	}
	return float32(s)
}

// halfAt reads the binary16 of a row.
func halfAt(p []byte, row int) float32 { return dtype.FromF16(binary.LittleEndian.Uint16(p[2*row:])) }
