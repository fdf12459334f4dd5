package quant

import (
	"encoding/binary"
	"math/bits"

	"loadline/tensor/dtype"
)

// Blocks of 256 elements whose codes are points of a grid: eight elements at once (IQ2, IQ1) or four (IQ3), with signs apart.
//
//	IQ2_XXS ┌ d ┬ 8 × (4 bytes of grid, u32: 4 × 7 bits of signs, 4 of scale) ┐    x = d·(½+scale)/4·grid·sign   groups of 32
//	IQ2_XS  ┌ d ┬ 32 × u16: 9 of grid, 7 of signs ┬ 8 bytes: scales of 4 ┐         x = d·(½+scale)/4·grid·sign   16
//	IQ2_S   ┌ d ┬ qs 32 ┬ signs 32 ┬ qh 8 ┬ 8 bytes: scales of 4 ┐                 x = d·(½+scale)/4·grid·sign   16
//	IQ3_XXS ┌ d ┬ qs 64 ┬ 8 × u32: 4 × 7 of signs, 4 of scale ┐                    x = d·(½+scale)/2·grid·sign   32
//	IQ3_S   ┌ d ┬ qs 64 ┬ qh 8 ┬ signs 32 ┬ 4 bytes: scales of 4 ┐                 x = d·(1+2·scale)·grid·sign   32
//	IQ1_S   ┌ d ┬ qs 32 ┬ 8 × u16: 4 × 3 of grid, 3 of scale, 1 of δ ┐             x = d·(1+2·scale)·(grid±⅛)    32
//	IQ1_M   ┌ qs 32 ┬ qh 16: 2 × (3 of grid, 1 of δ) ┬ 4 × u16: 4 × 3 of scale, 4 of d ┐  the same               16
//
// Seven bits of signs are eight with an even number set.
const (
	bytesIQ2_XXS = 2 + superElems/4
	bytesIQ2_XS  = 2 + superElems/4 + superElems/32
	bytesIQ2_S   = 2 + superElems/4 + superElems/16
	bytesIQ3_XXS = 2 + superElems/4 + superElems/8
	bytesIQ3_S   = 2 + superElems/4 + superElems/8 + superElems/32 + 4
	bytesIQ1_S   = 2 + superElems/8 + superElems/16
	bytesIQ1_M   = superElems/8 + superElems/16 + superElems/32
)

var (
	_ [bytesIQ2_XXS]byte = [66]byte{}
	_ [bytesIQ2_XS]byte  = [74]byte{}
	_ [bytesIQ2_S]byte   = [82]byte{}
	_ [bytesIQ3_XXS]byte = [98]byte{}
	_ [bytesIQ3_S]byte   = [110]byte{}
	_ [bytesIQ1_S]byte   = [50]byte{}
	_ [bytesIQ1_M]byte   = [56]byte{}
)

// The values of a grid's codes.
var (
	valuesIQ2  = [4]float32{0x08, 0x19, 0x2b}
	valuesIQ3X = [8]float32{0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e}
	valuesIQ3S = [8]float32{0x01, 0x03, 0x05, 0x07, 0x09, 0x0b, 0x0d, 0x0f}
)

// allSigns adds the eighth bit to seven.
func allSigns(seven uint32) uint8 {
	seven &= 127
	return uint8(seven | uint32(bits.OnesCount32(seven)&1)<<7)
}

// signed is x, or −x where bit i of signs is set.
func signed(x float32, signs uint8, i int) float32 {
	if signs>>i&1 == 1 {
		return -x
	}
	return x
}

// gridPoint2 writes the eight elements of a point of IQ2's grids, which are two bits each.
func gridPoint2(dst []float32, grid string, index int, d float32, signs uint8) {
	codes := uint(grid[2*index]) | uint(grid[2*index+1])<<8
	for i := range 8 {
		dst[i] = signed(d*valuesIQ2[codes>>(2*i)&3], signs, i)
	}
}

// gridPoint3 writes the four elements of a point of IQ3's grids, which are four bits each; the signs are the low four.
func gridPoint3(dst []float32, grid string, values *[8]float32, index int, d float32, signs uint8) {
	codes := uint(grid[2*index]) | uint(grid[2*index+1])<<8
	for i := range 4 {
		dst[i] = signed(d*values[codes>>(4*i)&7], signs, i)
	}
}

func decodeIQ2_XXS(dst []float32, src []byte) {
	d := half(src)
	for g := range 8 {
		p := src[2+8*g:]
		rest := binary.LittleEndian.Uint32(p[4:])
		db := float32(d*(0.5+float32(rest>>28))) * 0.25
		for k := range 4 {
			gridPoint2(dst[32*g+8*k:], gridIQ2_XXS, int(p[k]), db, allSigns(rest>>(7*k)))
		}
	}
}

func decodeIQ2_XS(dst []float32, src []byte) {
	d, scales := half(src), src[66:]
	for k := range 32 {
		q := binary.LittleEndian.Uint16(src[2+2*k:])
		db := float32(d*(0.5+float32(scales[k/4]>>(k/2%2*4)&15))) * 0.25
		gridPoint2(dst[8*k:], gridIQ2_XS, int(q&511), db, allSigns(uint32(q>>9)))
	}
}

func decodeIQ2_S(dst []float32, src []byte) {
	d, qs, signs, qh, scales := half(src), src[2:34], src[34:66], src[66:74], src[74:]
	for k := range 32 {
		db := float32(d*(0.5+float32(scales[k/4]>>(k/2%2*4)&15))) * 0.25
		index := int(qs[k]) | int(qh[k/4]>>(k%4*2)&3)<<8
		gridPoint2(dst[8*k:], gridIQ2_S, index, db, signs[k])
	}
}

func decodeIQ3_XXS(dst []float32, src []byte) {
	d, qs := half(src), src[2:66]
	for g := range 8 {
		rest := binary.LittleEndian.Uint32(src[66+4*g:])
		db := float32(d*(0.5+float32(rest>>28))) * 0.5
		for k := range 8 {
			signs := allSigns(rest>>(k/2*7)) >> (k % 2 * 4)
			gridPoint3(dst[32*g+4*k:], gridIQ3_XXS, &valuesIQ3X, int(qs[8*g+k]), db, signs)
		}
	}
}

func decodeIQ3_S(dst []float32, src []byte) {
	d, qs, qh, signs, scales := half(src), src[2:66], src[66:74], src[74:106], src[106:]
	for g := range 8 {
		db := d * float32(1+2*(scales[g/2]>>(g%2*4)&15))
		for k := range 8 {
			index := int(qs[8*g+k]) | int(qh[g]>>k&1)<<8
			gridPoint3(dst[32*g+4*k:], gridIQ3_S, &valuesIQ3S, index, db, signs[4*g+k/2]>>(k%2*4))
		}
	}
}

// gridPoint1 writes eight elements of −1, 0 and 1 moved by delta.
func gridPoint1(dst []float32, index int, d float32, down bool) {
	codes := uint(gridIQ1[2*index]) | uint(gridIQ1[2*index+1])<<8
	delta := float32(0.125)
	if down {
		delta = -delta
	}
	for i := range 8 {
		dst[i] = d * (float32(int(codes>>(2*i)&3)-1) + delta)
	}
}

func decodeIQ1_S(dst []float32, src []byte) {
	d, qs := half(src), src[2:34]
	for g := range 8 {
		qh := binary.LittleEndian.Uint16(src[34+2*g:])
		dl := d * float32(2*(qh>>12&7)+1)
		for k := range 4 {
			index := int(qs[4*g+k]) | int(qh>>(3*k)&7)<<8
			gridPoint1(dst[32*g+8*k:], index, dl, qh&0x8000 != 0)
		}
	}
}

func decodeIQ1_M(dst []float32, src []byte) {
	qs, qh := src[:32], src[32:48]
	var words [4]uint16
	scale := uint16(0)
	for i := range words {
		words[i] = binary.LittleEndian.Uint16(src[48+2*i:])
		scale |= words[i] >> 12 << (4 * i)
	}
	d := dtype.FromF16(scale)
	for k := range 32 {
		s := words[k/8] >> (k / 2 % 4 * 3) & 7
		h := qh[k/2] >> (k % 2 * 4)
		gridPoint1(dst[8*k:], int(qs[k])|int(h&7)<<8, d*float32(2*s+1), h&8 != 0)
	}
}
