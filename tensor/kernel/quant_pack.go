package kernel

import (
	"encoding/binary"
	"math"

	"loadline/tensor/quant"
)

// toLanes copies the dwords of a row's bytes to the row's lane of registers from dst on.
func toLanes(dst, src []byte, row int) { toLanesXor(dst, src, row, 0) }

// toLanesXor is toLanes with a mask of bits that are turned.
func toLanesXor(dst, src []byte, row int, mask uint32) {
	for dst = dst[4*row:]; len(src) > 0; src = src[4:] {
		binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(src)^mask)
		dst = dst[min(64, len(dst)):]
	}
}

// lane is byte i of a row that toLanes copied.
func lane(p []byte, row, i int) uint8 { return p[i/4*64+4*row+i%4] }

// unpack reads 32 elements of 16 rows, from 32·step on, of a block of a panel. (A switch: u would escape through a function value.)
func (u *unpacked) unpack(t quant.Type, src []byte, step int) {
	switch t {
	case quant.Q4_0:
		u.readQ4_0(src)
	case quant.Q4_1:
		u.readQ4_1(src)
	case quant.Q5_0:
		u.readQ5_0(src)
	case quant.Q5_1:
		u.readQ5_1(src)
	case quant.Q8_0:
		u.readQ8_0(src)
	case quant.IQ4_NL:
		u.readIQ4_NL(src)
	case quant.MXFP4:
		u.readMXFP4(src)
	case quant.Q2_K:
		u.readQ2_K(src, step)
	case quant.Q3_K:
		u.readQ3_K(src, step)
	case quant.Q5_K:
		u.readQ5_K(src, step)
	case quant.IQ4_XS:
		u.readIQ4_XS(src, step)
	case quant.Q4_K:
		u.readQ4_K(src, step)
	case quant.Q6_K:
		u.readQ6_K(src, step)
	}
}

func packQ4_0(dst, src []byte, row int) {
	toLanes(dst, src[2:18], row)
	copy(dst[256+2*row:], src[:2])
}

func (u *unpacked) readQ4_0(src []byte) {
	u.zero = 8
	for row, end := u.span(); row < end; row++ {
		u.readNibbles(src, row)
		u.scale[0][row] = halfAt(src[256:], row)
	}
}

// readNibbles takes elements i and i+16 from byte i.
func (u *unpacked) readNibbles(src []byte, row int) {
	for i := range 16 {
		q := lane(src, row, i)
		u.codes[row][i], u.codes[row][i+16] = q&15, q>>4
	}
}

func packQ4_1(dst, src []byte, row int) {
	toLanes(dst, src[4:20], row)
	copy(dst[256+2*row:], src[:2])
	copy(dst[288+2*row:], src[2:4])
}

func (u *unpacked) readQ4_1(src []byte) {
	u.mins = true
	for row, end := u.span(); row < end; row++ {
		u.readNibbles(src, row)
		u.scale[0][row], u.min[0][row] = halfAt(src[256:], row), halfAt(src[288:], row)
	}
}

func packQ8_0(dst, src []byte, row int) {
	toLanesXor(dst, src[2:34], row, 0x80808080)
	copy(dst[512+2*row:], src[:2])
}

func (u *unpacked) readQ8_0(src []byte) {
	u.zero = 128
	for row, end := u.span(); row < end; row++ {
		for i := range QuantGroup {
			u.codes[row][i] = lane(src, row, i)
		}
		u.scale[0][row] = halfAt(src[512:], row)
	}
}

// packHalf packs a row of binary16 or bf16, whose blocks are single elements, into the panels of a whole row.
func packHalf(dst, src []byte, row int) {
	for i := 0; i+2 <= len(src); i += 2 {
		binary.LittleEndian.PutUint16(dst[QuantPanel*i+2*row:], binary.LittleEndian.Uint16(src[i:]))
	}
}

// topBits stores the top bits of a group, bit i for element i, in a register of them: bit j of byte i is bit 4j+i.
func topBits(dst []byte, row int, all uint32) {
	for i := range 4 {
		x := all >> i & 0x11111111
		x = (x | x>>3) & 0x03030303
		x = (x | x>>6) & 0x000f000f
		dst[4*row+i] = byte(x | x>>12)
	}
}

// bitOf gathers bit g of 32 bytes, that of byte i in bit i.
func bitOf(src []byte, g int) (all uint32) {
	for i := range 4 {
		x := binary.LittleEndian.Uint64(src[8*i:]) >> g & 0x0101010101010101
		all |= uint32(x*0x0102040810204080>>56) << (8 * i)
	}
	return all
}

// top reads what topBits stored.
func top(src []byte, row, i int) uint8 { return src[4*row+i%4] >> (i / 4) & 1 }

// packFive packs the nibbles and top bits of Q5_0 and Q5_1, from qh on.
func packFive(dst, src []byte, row int) {
	toLanes(dst, src[4:20], row)
	topBits(dst[256:], row, binary.LittleEndian.Uint32(src))
}

func (u *unpacked) readFive(src []byte, row int) {
	u.readNibbles(src, row)
	for i := range QuantGroup {
		u.codes[row][i] |= top(src[256:], row, i) << 4
	}
}

func packQ5_0(dst, src []byte, row int) {
	packFive(dst, src[2:], row)
	copy(dst[320+2*row:], src[:2])
}

func (u *unpacked) readQ5_0(src []byte) {
	u.zero = 16
	for row, end := u.span(); row < end; row++ {
		u.readFive(src, row)
		u.scale[0][row] = halfAt(src[320:], row)
	}
}

func packQ5_1(dst, src []byte, row int) {
	packFive(dst, src[4:], row)
	copy(dst[320+2*row:], src[:2])
	copy(dst[352+2*row:], src[2:4])
}

func (u *unpacked) readQ5_1(src []byte) {
	u.mins = true
	for row, end := u.span(); row < end; row++ {
		u.readFive(src, row)
		u.scale[0][row], u.min[0][row] = halfAt(src[320:], row), halfAt(src[352:], row)
	}
}

// The values of four-bit codes that are looked up, plus 128.
var (
	valuesIQ4  = [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
	valuesE2M1 = [16]uint8{128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116}
)

func (u *unpacked) readValues(src []byte, row int, values *[16]uint8) {
	u.readNibbles(src, row)
	for i, q := range u.codes[row] {
		u.codes[row][i] = values[q]
	}
}

func (u *unpacked) readIQ4_NL(src []byte) {
	u.zero = 128
	for row, end := u.span(); row < end; row++ {
		u.readValues(src, row, &valuesIQ4)
		u.scale[0][row] = halfAt(src[256:], row)
	}
}

func packMXFP4(dst, src []byte, row int) {
	toLanes(dst, src[1:17], row)
	dst[256+row] = src[0]
}

func (u *unpacked) readMXFP4(src []byte) {
	u.zero = 128
	for row, end := u.span(); row < end; row++ {
		u.readValues(src, row, &valuesE2M1)
		// 2^(e−127), where e is 0 its half, which is no normal number; and half of that.
		u.scale[0][row] = math.Float32frombits(max(uint32(src[256+row])<<23, 1<<22)) / 2
	}
}
