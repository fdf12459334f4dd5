package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantRows2 is the most rows of activations of a micro-kernel of 256 bits.
const quantRows2 = 4

// Registers of the kernels for 256 bits: 0–7 sums of codes, of row r and half h of the panel in 2r+h; 8–11 codes; 12–15 free. The sums of
// products are in the frame.
const (
	codes2 = 8
	free2  = 12
)

// quant2 is a micro-kernel that is being written.
type quant2 struct {
	*quantLoop
	frame, spilled       Mem
	low, two, sign, ones Mem // constants of a register
	top16, top4, high    Mem
	least, half          Mem
}

// group2 is how sums of codes, in registers 0 to 7, become sums of products.
type group2 struct {
	words bool // they are of 16 bits
	spill bool // and those of the codes before are in the frame, of 32 bits
	zero  int  // the zero point, a power of two from 4 on, or 0
	half  int  // 1 for the first half of a group alone, 2 for the last, 0 for all of it
	min   int  // 1 if minima, in the last two code registers, are added; −1 if they are taken away
}

func word2(name string, w uint32) Mem {
	m := GLOBL("avx2_quant_"+name, RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(w))
	}
	return m
}

// consts2 are made once for all kernels.
var consts2 *quant2

func newQuant2(format string, rows int) {
	if consts2 == nil {
		consts2 = &quant2{low: word2("low", 0x0f0f0f0f), two: word2("two", 0x03030303), high: word2("high", 0x30303030), top16: word2("top16", 0x10101010),
			top4: word2("top4", 0x04040404), sign: word2("sign", 0x80808080), ones: word2("ones", 0x00010001), least: word2("least", 0x00400000), half: word2("half", 0x3f000000)}
	}
	q := *consts2
	q.quantLoop = newQuantLoop(format, rows)
	q.frame = AllocLocal(2 * 64 * quantRows2)
	q.spilled = q.frame.Offset(64 * quantRows2)
	VXORPS(y[0], y[0], y[0])
	for i := range 2 * rows {
		VMOVUPS(y[0], q.frame.Offset(32*i))
	}
	switch format {
	case "IQ4_NL", "IQ4_XS":
		VBROADCASTI128(quantValues("iq4", valuesIQ4), y[15])
	case "MXFP4":
		VBROADCASTI128(quantValues("e2m1", valuesE2M1), y[15])
	}
	Label("loop")
	small := func(bytes int, g group2, sum func()) {
		q.prefetch(bytes)
		sum()
		q.finish(g)
		q.next()
		ADDQ(I32(bytes), q.b)
	}
	switch format {
	case "Q4_0":
		small(288, group2{words: true, zero: 8}, func() {
			q.nibbles(q.b, 4, true, true)
			q.scales(mem(q.b, 256), 0)
		})
	case "Q4_1":
		small(320, group2{words: true, min: 1}, func() {
			q.nibbles(q.b, 4, true, true)
			q.scales(mem(q.b, 256), 0)
			q.scales(mem(q.b, 288), 2)
		})
	case "Q5_0":
		small(352, group2{words: true, spill: true, zero: 16}, func() {
			q.fives(q.nibble(q.b), mem(q.b, 256))
			q.scales(mem(q.b, 320), 0)
		})
	case "Q5_1":
		small(384, group2{words: true, spill: true, min: 1}, func() {
			q.fives(q.nibble(q.b), mem(q.b, 256))
			q.scales(mem(q.b, 320), 0)
			q.scales(mem(q.b, 352), 2)
		})
	case "Q8_0":
		small(544, group2{}, func() {
			q.signed(func(j, h int, code reg.VecPhysical) { VMOVDQU(mem(q.b, 64*j+32*h), code) })
			q.scales(mem(q.b, 512), 0)
		})
	case "IQ4_NL":
		small(288, group2{}, func() {
			q.signed(q.value(q.b))
			q.scales(mem(q.b, 256), 0)
		})
	case "MXFP4":
		small(272, group2{}, func() {
			q.signed(q.value(q.b))
			for h := range 2 {
				r := y[codes2+h]
				VPMOVZXBD(mem(q.b, 256+8*h), r)
				VPSLLD(Imm(23), r, r)
				VPMAXUD(q.least, r, r)
				VMULPS(q.half, r, r)
			}
		})
	case "G4", "G8":
		q.blockGrouped(format == "G4")
	case "Q2_K":
		q.blockTwo(false)
	case "Q3_K":
		q.blockTwo(true)
	case "Q4_K":
		q.blockPairs(false)
	case "Q5_K":
		q.blockPairs(true)
	case "Q6_K":
		q.blockQ6_K()
	case "IQ4_XS":
		q.blockIQ4_XS()
	}
	DECQ(q.blocks)
	JNE(LabelRef("loop"))
	q.store()
	ret()
}

// madd adds the products of a row's dword and the codes of both halves to sums of 16 bits, or begins them.
func (q *quant2) madd(r, dword, codes int, fresh bool) {
	a := y[free2]
	VPBROADCASTD(q.row(r, dword), a)
	for h := range 2 {
		if fresh {
			VPMADDUBSW(a, y[codes+h], y[2*r+h])
			continue
		}
		t := y[free2+1+h]
		VPMADDUBSW(a, y[codes+h], t)
		VPADDW(t, y[2*r+h], y[2*r+h])
	}
}

// nibbles sums the products of the four-bit codes in n registers of 16 rows: the low ones are of dwords from 0 on and the high ones of
// those behind; or only one kind of them.
func (q *quant2) nibbles(b reg.GPPhysical, n int, low, high bool) {
	for j := range n {
		for h := range 2 {
			VMOVDQU(mem(b, 64*j+32*h), y[codes2+2+h])
		}
		if low {
			for h := range 2 {
				VPAND(q.low, y[codes2+2+h], y[codes2+h])
			}
			for r := range q.rows {
				q.madd(r, 4*j, codes2, j == 0)
			}
		}
		if high {
			at := 4 * j
			if low {
				at += 16
			}
			for h := range 2 {
				VPSRLW(Imm(4), y[codes2+2+h], y[codes2+2+h])
				VPAND(q.low, y[codes2+2+h], y[codes2+2+h])
			}
			for r := range q.rows {
				q.madd(r, at, codes2+2, j == 0 && !low)
			}
		}
	}
}

// nibble makes codes j of nibbles: 0 to 3 the low ones of four registers, 4 to 7 the high.
func (q *quant2) nibble(b reg.GPPhysical) func(j, h int, code reg.VecPhysical) {
	return func(j, h int, code reg.VecPhysical) {
		VMOVDQU(mem(b, j%4*64+32*h), code)
		if j >= 4 {
			VPSRLW(Imm(4), code, code)
		}
		VPAND(q.low, code, code)
	}
}

// value looks up what nibbles stand for, in the table in register 15.
func (q *quant2) value(b reg.GPPhysical) func(j, h int, code reg.VecPhysical) {
	nibble := q.nibble(b)
	return func(j, h int, code reg.VecPhysical) {
		nibble(j, h, code)
		VPSHUFB(code, y[15], code)
	}
}

// topped adds top bits to codes, as their bit to, whose mask is high.
func (q *quant2) topped(code func(j, h int, code reg.VecPhysical), tops Mem, to int, high Mem) func(j, h int, code reg.VecPhysical) {
	return func(j, h int, r reg.VecPhysical) {
		code(j, h, r)
		t := y[free2]
		VMOVDQU(tops.Offset(32*h), t)
		if j < to {
			VPSLLW(Imm(uint64(to-j)), t, t)
		}
		if j > to {
			VPSRLW(Imm(uint64(j-to)), t, t)
		}
		VPAND(high, t, t)
		VPOR(t, r, r)
	}
}

// words sums the products of codes from to end, which must be few and small enough, in 16 bits.
func (q *quant2) words(code func(j, h int, code reg.VecPhysical), from, end int) {
	for j := from; j < end; j++ {
		for h := range 2 {
			code(j, h, y[codes2+h])
		}
		for r := range q.rows {
			q.madd(r, 4*j, codes2, j == from)
		}
	}
}

// fives sums the products of codes of five bits: eight would not fit, so the first four go to the frame.
func (q *quant2) fives(nibble func(j, h int, code reg.VecPhysical), tops Mem) {
	code := q.topped(nibble, tops, 4, q.top16)
	q.words(code, 0, 4)
	for i := range 2 * q.rows {
		VPMADDWD(q.ones, y[i], y[i])
		VMOVDQU(y[i], q.spilled.Offset(32*i))
	}
	q.words(code, 4, 8)
}

// signed sums the products of codes that are bytes plus 128: their magnitudes by the activations with their signs.
func (q *quant2) signed(code func(j, h int, code reg.VecPhysical)) {
	for j := range 8 {
		for h := range 2 {
			code(j, h, y[codes2+h])
			VPXOR(q.sign, y[codes2+h], y[codes2+h])
			VPABSB(y[codes2+h], y[codes2+2+h])
		}
		for r := range q.rows {
			VPBROADCASTD(q.row(r, 4*j), y[free2])
			for h := range 2 {
				t, sum := y[free2+1+h], y[2*r+h]
				VPSIGNB(y[codes2+h], y[free2], t)
				VPMADDUBSW(t, y[codes2+2+h], t)
				if j == 0 {
					VPMADDWD(q.ones, t, sum)
					continue
				}
				VPMADDWD(q.ones, t, t)
				VPADDD(t, sum, sum)
			}
		}
	}
}

// scales widens 16 binary16 to the code registers from at on.
func (q *quant2) scales(from Mem, at int) {
	for h := range 2 {
		VCVTPH2PS(from.Offset(16*h), y[codes2+at+h])
	}
}

// finish continues the sums of products: scales are in the first two code registers, minima in the others.
func (q *quant2) finish(g group2) {
	sum, part := groupAll, groupSum
	if g.half > 0 {
		sum, part = groupLow+4*(g.half-1), groupSums+4*(g.half-1)
	}
	for r := range q.rows {
		VBROADCASTSS(q.row(r, groupScale), y[free2])
		if g.zero > 0 {
			t := y[free2+1]
			VPBROADCASTD(q.row(r, sum), t)
			if g.zero < 8 {
				VPSRAD(Imm(1), t, t)
			}
			if g.zero > 8 {
				VPSLLD(Imm(uint64(bits.TrailingZeros(uint(g.zero/8)))), t, t)
			}
		}
		for h := range 2 {
			sum, s := y[2*r+h], y[free2+2]
			acc := q.frame.Offset(64*r + 32*h)
			if g.words {
				VPMADDWD(q.ones, sum, sum)
			}
			if g.spill {
				VPADDD(q.spilled.Offset(64*r+32*h), sum, sum)
			}
			if g.zero > 0 {
				VPADDD(y[free2+1], sum, sum)
			}
			VCVTDQ2PS(sum, sum)
			VMULPS(y[free2], y[codes2+h], s)
			VFMADD213PS(acc, s, sum)
			switch g.min {
			case 1:
				VBROADCASTSS(q.row(r, part), s)
				VFMADD231PS(s, y[codes2+2+h], sum)
			case -1:
				VBROADCASTSS(q.row(r, part), s)
				VFNMADD231PS(s, y[codes2+2+h], sum)
			}
			VMOVUPS(sum, acc)
		}
	}
}

// products makes code registers from at on the products of 16 bytes and 16 binary16.
func (q *quant2) products(bytes, halves Mem, at int, signed bool) {
	for h := range 2 {
		r, t := y[codes2+at+h], y[free2]
		if signed {
			VPMOVSXBD(bytes.Offset(8*h), r)
		} else {
			VPMOVZXBD(bytes.Offset(8*h), r)
		}
		VCVTDQ2PS(r, r)
		VCVTPH2PS(halves.Offset(16*h), t)
		VMULPS(t, r, r)
	}
}

// blockPairs walks over four pairs of groups of Q4_K or Q5_K.
func (q *quant2) blockPairs(five bool) {
	scales, qs, pairs, tops := reg.R11, reg.R12, reg.R13, reg.R14
	bytes, codes, ahead := 2368, 320, 592
	if five {
		bytes, codes, ahead = 2880, 832, 720
		LEAQ(mem(q.b, 320), tops)
	}
	LEAQ(mem(q.b, 64), scales)
	LEAQ(mem(q.b, codes), qs)
	MOVQ(I32(4), pairs)
	Label("pair")
	q.prefetchAt(qs, ahead)
	for half := range 2 {
		if five {
			q.fives(func(j, h int, code reg.VecPhysical) {
				VMOVDQU(mem(qs, 64*j+32*h), code)
				if half == 1 {
					VPSRLW(Imm(4), code, code)
				}
				VPAND(q.low, code, code)
			}, mem(tops, 64*half))
		} else {
			q.nibbles(qs, 8, half == 0, half == 1)
		}
		q.products(mem(scales, 32*half), mem(q.b, 0), 0, false)
		q.products(mem(scales, 32*half+16), mem(q.b, 32), 2, false)
		q.finish(group2{words: true, spill: five, min: -1})
		q.next()
	}
	if five {
		ADDQ(I32(128), tops)
	}
	ADDQ(I32(64), scales)
	ADDQ(I32(512), qs)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	ADDQ(I32(bytes), q.b)
}

// blockTwo walks over two halves of four groups each of Q2_K, or of Q3_K, which has top bits.
func (q *quant2) blockTwo(three bool) {
	scales, qs, halves, tops := reg.R11, reg.R12, reg.R13, reg.R14
	if three {
		LEAQ(mem(q.b, 32), scales)
		LEAQ(mem(q.b, 288), tops)
		LEAQ(mem(q.b, 800), qs)
	} else {
		LEAQ(mem(q.b, 64), scales)
		LEAQ(mem(q.b, 320), qs)
	}
	MOVQ(I32(2), halves)
	Label("half")
	for quarter := range 4 {
		q.prefetchAt(qs, 200)
		code := func(j, h int, code reg.VecPhysical) {
			VMOVDQU(mem(qs, 64*j+32*h), code)
			if quarter > 0 {
				VPSRLW(Imm(uint64(2*quarter)), code, code)
			}
			VPAND(q.two, code, code)
		}
		for p := range 2 {
			bytes := mem(scales, 32*quarter+16*p)
			if three {
				q.words(q.topped(code, mem(tops, 64*quarter), 2, q.top4), 4*p, 4*p+4)
				q.products(bytes, mem(q.b, 0), 0, true)
				q.finish(group2{words: true, zero: 4, half: 1 + p})
				continue
			}
			q.words(code, 4*p, 4*p+4)
			q.scalesAndMins(bytes)
			q.finish(group2{words: true, half: 1 + p, min: -1})
		}
		q.next()
	}
	if three {
		ADDQ(I32(256), tops)
	}
	ADDQ(I32(128), scales)
	ADDQ(I32(512), qs)
	DECQ(halves)
	JNE(LabelRef("half"))
	if three {
		ADDQ(I32(1824), q.b)
	} else {
		ADDQ(I32(1344), q.b)
	}
}

// scalesAndMins makes the code registers the products of Q2_K's scales, low in a byte, and mins, high, with the block's.
func (q *quant2) scalesAndMins(bytes Mem) {
	for h := range 2 {
		s, m := y[codes2+h], y[codes2+2+h]
		VPMOVZXBD(bytes.Offset(8*h), s)
		VPSRLD(Imm(4), s, m)
		VPAND(q.low, s, s)
		for i, r := range []reg.VecPhysical{s, m} {
			VCVTDQ2PS(r, r)
			VCVTPH2PS(mem(q.b, 32*i+16*h), y[free2])
			VMULPS(y[free2], r, r)
		}
	}
}

// blockGrouped walks over the 32 elements of a group one after another; R11 is where its scales are.
func (q *quant2) blockGrouped(four bool) {
	scales, steps := reg.R11, reg.R13
	MOVQ(q.b, scales)
	ADDQ(I32(128), q.b)
	Load(Param("steps"), steps)
	Label("step")
	bytes, g := 512, group2{min: 1}
	if four {
		bytes, g = 256, group2{words: true, zero: 8, min: 1}
	}
	q.prefetch(bytes)
	if four {
		q.nibbles(q.b, 4, true, true)
	} else {
		q.signed(func(j, h int, code reg.VecPhysical) { VMOVDQU(mem(q.b, 64*j+32*h), code) })
	}
	for i := range 4 {
		VMOVUPS(mem(scales, 32*i), y[codes2+i])
	}
	q.finish(g)
	q.next()
	ADDQ(I32(bytes), q.b)
	DECQ(steps)
	JNE(LabelRef("step"))
}

// blockIQ4_XS walks over eight groups.
func (q *quant2) blockIQ4_XS() {
	scales, qs, groups := reg.R11, reg.R12, reg.R13
	LEAQ(mem(q.b, 32), scales)
	LEAQ(mem(q.b, 160), qs)
	MOVQ(I32(8), groups)
	Label("group")
	q.prefetchAt(qs, 276)
	q.signed(q.value(qs))
	q.products(mem(scales, 0), mem(q.b, 0), 0, true)
	q.finish(group2{})
	q.next()
	ADDQ(I32(16), scales)
	ADDQ(I32(256), qs)
	DECQ(groups)
	JNE(LabelRef("group"))
	ADDQ(I32(2208), q.b)
}

// blockQ6_K sums pairs of products in 16 bits, two dwords at a time: four would not fit.
func (q *quant2) blockQ6_K() {
	scales, qs, halves := reg.R11, reg.R12, reg.R13
	LEAQ(mem(q.b, 32), scales)
	LEAQ(mem(q.b, 288), qs)
	MOVQ(I32(2), halves)
	Label("half")
	for quarter := range 4 {
		q.prefetchAt(qs, 420)
		for half := range 2 {
			for j := 4 * half; j < 4*half+4; j += 2 {
				for i := range 2 {
					for h := range 2 {
						q.sixBits(qs, quarter, 64*(j+i)+32*h, y[codes2+2*i+h])
					}
				}
				for r := range q.rows {
					for h := range 2 {
						t, u, sum := y[free2+1], y[free2+2], y[2*r+h]
						for i, p := range []reg.VecPhysical{t, u} {
							VPBROADCASTD(q.row(r, 4*(j+i)), p)
							VPMADDUBSW(p, y[codes2+2*i+h], p)
						}
						VPADDW(u, t, t)
						if j == 4*half {
							VPMADDWD(q.ones, t, sum)
							continue
						}
						VPMADDWD(q.ones, t, t)
						VPADDD(t, sum, sum)
					}
				}
			}
			q.products(mem(scales, 32*quarter+16*half), mem(q.b, 0), 0, true)
			q.finish(group2{zero: 32, half: 1 + half})
		}
		q.next()
	}
	ADDQ(I32(128), scales)
	ADDQ(I32(1536), qs)
	DECQ(halves)
	JNE(LabelRef("half"))
	ADDQ(I32(3360), q.b)
}

// sixBits makes a register of codes of a quarter from byte at of their low parts.
func (q *quant2) sixBits(qs reg.GPPhysical, quarter, at int, code reg.VecPhysical) {
	t := y[free2]
	VMOVDQU(mem(qs, quarter%2*512+at), code)
	VMOVDQU(mem(qs, 1024+at), t)
	if quarter >= 2 {
		VPSRLW(Imm(4), code, code)
	}
	switch quarter {
	case 0:
		VPSLLW(Imm(4), t, t)
	case 1:
		VPSLLW(Imm(2), t, t)
	case 3:
		VPSRLW(Imm(2), t, t)
	}
	VPAND(q.low, code, code)
	VPAND(q.high, t, t)
	VPOR(t, code, code)
}

// store writes the sums of products to C.
func (q *quant2) store() {
	Load(Param("cols"), reg.RAX)
	CMPQ(reg.RAX, Imm(16))
	JNE(LabelRef("part"))
	row := q.c
	q.outputs(func(r int, out Mem) {
		for h := range 2 {
			VMOVUPS(q.frame.Offset(64*r+32*h), y[h])
			VMOVUPS(y[h], mem(row, 32*h))
		}
	})
	ret()
	Label("part")
	LEAQ(quantMasks(), reg.R11)
	NEGQ(reg.RAX)
	for h := range 2 {
		VMOVDQU(Mem{Base: reg.R11, Index: reg.RAX, Scale: 4, Disp: 64 + 32*h}, y[2+h])
	}
	q.outputs(func(r int, out Mem) {
		for h := range 2 {
			VMOVUPS(q.frame.Offset(64*r+32*h), y[h])
			VMASKMOVPS(y[h], y[2+h], mem(row, 32*h))
		}
	})
}

// quantize2 rounds a row, 32 elements at a time.
func quantize2() {
	order := GLOBL("avx2_quant_order", RODATA|NOPTR)
	for i, w := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(w))
	}
	fn("quantizeRow", "func(dst *byte, x *float32, groups int)")
	dst, src, n := reg.RDI, reg.RSI, reg.RCX
	Load(Param("dst"), dst)
	Load(Param("x"), src)
	Load(Param("groups"), n)
	splat(0x7fffffff, y[10])
	splat(0x42fe0000, y[11]) // 127
	splat(0x3f800000, y[12]) // 1
	splat(0x01010101, y[13])
	splat(0x00010001, y[14])
	VMOVDQU(order, y[15])
	Label("loop")
	VPAND(mem(src, 0), y[10], y[2])
	for i := 1; i < 4; i++ {
		VPAND(mem(src, 32*i), y[10], y[3])
		VPMAXUD(y[3], y[2], y[2])
	}
	quantizeScale()
	VBROADCASTSS(x(y[4]), y[9])
	for i := range 4 {
		r := []reg.VecPhysical{y[0], y[1], y[5], y[6]}[i]
		VMULPS(mem(src, 32*i), y[9], r)
		VCVTPS2DQ(r, r)
	}
	VPACKSSDW(y[1], y[0], y[0])
	VPACKSSDW(y[6], y[5], y[5])
	VPACKSSWB(y[5], y[0], y[0])
	VPERMD(y[0], y[15], y[5]) // dwords 0 4 1 5 2 6 3 7 of what the packs left
	VMOVDQU(y[5], mem(dst, 0))
	VPMADDUBSW(y[5], y[13], y[6]) // pairs of the codes
	VPMADDWD(y[14], y[6], y[6])
	quantizeSums(dst)
	ADDQ(I32(groupBytes), dst)
	ADDQ(I32(128), src)
	DECQ(n)
	JNE(LabelRef("loop"))
	ret()
}
