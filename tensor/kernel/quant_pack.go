package kernel

import "loadline/tensor/quant"

// toLanes copies the dwords of a row's bytes to the row's lane of registers from dst on.
func toLanes(dst, src []byte, row int) {
	for j := 0; j < len(src); j += 4 {
		copy(dst[16*j+4*row:][:4], src[j:])
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
	case quant.Q8_0:
		u.readQ8_0(src)
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
	u.zero8 = 1
	for row := range QuantPanel {
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
	for row := range QuantPanel {
		u.readNibbles(src, row)
		u.scale[0][row], u.min[row] = halfAt(src[256:], row), halfAt(src[288:], row)
	}
}

func packQ8_0(dst, src []byte, row int) {
	toLanes(dst, src[2:34], row)
	for j := range 8 {
		for i := range 4 {
			dst[64*j+4*row+i] ^= 0x80
		}
	}
	copy(dst[512+2*row:], src[:2])
}

func (u *unpacked) readQ8_0(src []byte) {
	u.zero8 = 16
	for row := range QuantPanel {
		for i := range QuantGroup {
			u.codes[row][i] = lane(src, row, i)
		}
		u.scale[0][row] = halfAt(src[512:], row)
	}
}

// panelQ4_K is the bytes of 16 rows' blocks of Q4_K.
const panelQ4_K = 32 + 32 + 8*32 + 4*512

func packQ4_K(dst, src []byte, row int) {
	copy(dst[2*row:], src[:2])
	copy(dst[32+2*row:], src[2:4])
	p := src[4:16]
	for g := range 8 {
		scale, low := p[g&3]&63, p[g&3+4]&63
		if g >= 4 {
			scale, low = p[g+4]&15|p[g-4]>>6<<4, p[g+4]>>4|p[g]>>6<<4
		}
		dst[64+32*g+row], dst[80+32*g+row] = scale, low
	}
	toLanes(dst[320:], src[16:144], row)
}

func (u *unpacked) readQ4_K(src []byte, step int) {
	u.mins = true
	qs := src[320+step/2*512:]
	for row := range QuantPanel {
		for i := range QuantGroup {
			u.codes[row][i] = lane(qs, row, i) >> (step % 2 * 4) & 15
		}
		u.scale[0][row] = halfAt(src, row) * float32(src[64+32*step+row])
		u.min[row] = -(halfAt(src[32:], row) * float32(src[80+32*step+row]))
	}
}

func packQ6_K(dst, src []byte, row int) {
	copy(dst[2*row:], src[208:210])
	for g := range 16 {
		dst[32+16*g+row] = src[192+g]
	}
	for half := range 2 {
		to := dst[288+1536*half:]
		toLanes(to, src[64*half:64*half+64], row)
		toLanes(to[1024:], src[128+32*half:160+32*half], row)
	}
}

func (u *unpacked) readQ6_K(src []byte, step int) {
	u.zero8, u.halves = 4, true
	from := src[288+step/4*1536:]
	quarter := step % 4
	for row := range QuantPanel {
		for i := range QuantGroup {
			low, high := lane(from, row, quarter%2*32+i), lane(from[1024:], row, i)
			u.codes[row][i] = low>>(quarter/2*4)&15 | high>>(2*quarter)&3<<4
		}
		d := halfAt(src, row)
		for half := range 2 {
			u.scale[half][row] = d * float32(int8(src[32+16*(2*step+half)+row]))
		}
	}
}

func packHalf(dst, src []byte, row int) { copy(dst[2*row:], src[:2]) }
