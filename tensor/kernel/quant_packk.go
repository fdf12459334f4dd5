package kernel

// panelQ4_K is the bytes of 16 rows' blocks of Q4_K.
const panelQ4_K = 32 + 32 + 8*32 + 4*512

func packQ4_K(dst, src []byte, row int) {
	packScales(dst, src, row)
	toLanes(dst[320:], src[16:144], row)
}

// packScales packs the first 16 bytes of Q4_K and Q5_K.
func packScales(dst, src []byte, row int) {
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
}

func (u *unpacked) readQ4_K(src []byte, step int) {
	for row, end := u.span(); row < end; row++ {
		u.readPair(src, src[320+step/2*512:], row, step)
	}
}

// readPair takes scale and min of a group of Q4_K and Q5_K, and its nibbles.
func (u *unpacked) readPair(src, qs []byte, row, step int) {
	u.mins = true
	for i := range QuantGroup {
		u.codes[row][i] = lane(qs, row, i) >> (step % 2 * 4) & 15
	}
	u.scale[0][row] = halfAt(src, row) * float32(src[64+32*step+row])
	u.min[0][row] = -(halfAt(src[32:], row) * float32(src[80+32*step+row]))
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
	u.zero, u.halves = 32, true
	from := src[288+step/4*1536:]
	quarter := step % 4
	for row, end := u.span(); row < end; row++ {
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

// panelQ5_K is the bytes of 16 rows' blocks of Q5_K.
const panelQ5_K = 32 + 32 + 8*32 + 8*64 + 4*512

func packQ5_K(dst, src []byte, row int) {
	packScales(dst, src, row)
	for g := range 8 {
		topBits(dst[320+64*g:], row, bitOf(src[16:], g))
	}
	toLanes(dst[832:], src[48:176], row)
}

func (u *unpacked) readQ5_K(src []byte, step int) {
	for row, end := u.span(); row < end; row++ {
		u.readPair(src, src[832+step/2*512:], row, step)
		for i := range QuantGroup {
			u.codes[row][i] |= top(src[320+64*step:], row, i) << 4
		}
	}
}

func packQ2_K(dst, src []byte, row int) {
	copy(dst[2*row:], src[80:82])
	copy(dst[32+2*row:], src[82:84])
	for g := range 16 {
		dst[64+16*g+row] = src[g]
	}
	toLanes(dst[320:], src[16:80], row)
}

func (u *unpacked) readQ2_K(src []byte, step int) {
	u.halves, u.mins = true, true
	for row, end := u.span(); row < end; row++ {
		u.readTwo(src[320:], row, step)
		for half := range 2 {
			b := src[64+16*(2*step+half)+row]
			u.scale[half][row] = halfAt(src, row) * float32(b&15)
			u.min[half][row] = -(halfAt(src[32:], row) * float32(b>>4))
		}
	}
}

// readTwo takes the codes of two bits that are a quarter of four in a byte.
func (u *unpacked) readTwo(src []byte, row, step int) {
	for i := range QuantGroup {
		u.codes[row][i] = lane(src[step/4*512:], row, i) >> (step % 4 * 2) & 3
	}
}

// panelQ3_K is the bytes of 16 rows' blocks of Q3_K.
const panelQ3_K = 32 + 16*16 + 8*64 + 2*512

func packQ3_K(dst, src []byte, row int) {
	copy(dst[2*row:], src[108:110])
	packed := src[96:108]
	for g := range 16 {
		scale := packed[g%8]>>(g/8*4)&15 | packed[8+g%4]>>(g/4*2)&3<<4
		dst[32+16*g+row] = scale - 32
	}
	for g := range 8 {
		topBits(dst[288+64*g:], row, bitOf(src, g))
	}
	toLanes(dst[800:], src[32:96], row)
}

func (u *unpacked) readQ3_K(src []byte, step int) {
	u.zero, u.halves = 4, true
	for row, end := u.span(); row < end; row++ {
		u.readTwo(src[800:], row, step)
		for i := range QuantGroup {
			u.codes[row][i] |= top(src[288+64*step:], row, i) << 2
		}
		for half := range 2 {
			u.scale[half][row] = halfAt(src, row) * float32(int8(src[32+16*(2*step+half)+row]))
		}
	}
}

// panelIQ4_XS is the bytes of 16 rows' blocks of IQ4_XS.
const panelIQ4_XS = 32 + 8*16 + 8*256

func packIQ4_XS(dst, src []byte, row int) {
	copy(dst[2*row:], src[:2])
	for g := range 8 {
		scale := src[4+g/2]>>(g%2*4)&15 | src[2+g/4]>>(g%4*2)&3<<4
		dst[32+16*g+row] = scale - 32
		toLanes(dst[160+256*g:], src[8+16*g:24+16*g], row)
	}
}

func (u *unpacked) readIQ4_XS(src []byte, step int) {
	u.zero = 128
	for row, end := u.span(); row < end; row++ {
		u.readValues(src[160+256*step:], row, &valuesIQ4)
		u.scale[0][row] = halfAt(src, row) * float32(int8(src[32+16*step+row]))
	}
}
