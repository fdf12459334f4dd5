package main

import (
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
	frame                 Mem
	low, high, sign, ones Mem // constants of a register
}

// group2 is how sums of codes, in registers 0 to 7, become sums of products.
type group2 struct {
	words bool // they are of 16 bits
	sum   int  // where in a group what takes the zero point away is; 0 for nothing
	zero  int  // an eighth of the zero point is 1<<zero
	mins  bool // minima are in the last two code registers
	sub   bool // and are taken away
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
		consts2 = &quant2{low: word2("low", 0x0f0f0f0f), high: word2("high", 0x30303030), sign: word2("sign", 0x80808080), ones: word2("ones", 0x00010001)}
	}
	q := *consts2
	q.quantLoop = newQuantLoop(format, rows)
	q.frame = AllocLocal(64 * quantRows2)
	VXORPS(y[0], y[0], y[0])
	for i := range 2 * rows {
		VMOVUPS(y[0], q.frame.Offset(32*i))
	}
	Label("loop")
	switch format {
	case "Q4_0":
		q.prefetch(q.b, 288)
		q.nibbles(q.b, 4, true, true)
		q.scales(mem(q.b, 256), 0)
		q.finish(group2{words: true, sum: groupAll})
		q.next()
		ADDQ(I32(288), q.b)
	case "Q4_1":
		q.prefetch(q.b, 320)
		q.nibbles(q.b, 4, true, true)
		q.scales(mem(q.b, 256), 0)
		q.scales(mem(q.b, 288), 2)
		q.finish(group2{words: true, mins: true})
		q.next()
		ADDQ(I32(320), q.b)
	case "Q8_0":
		q.prefetch(q.b, 544)
		q.bytes()
		q.scales(mem(q.b, 512), 0)
		q.finish(group2{})
		q.next()
		ADDQ(I32(544), q.b)
	case "Q4_K":
		q.blockQ4_K()
	case "Q6_K":
		q.blockQ6_K()
	}
	DECQ(q.blocks)
	JNE(LabelRef("loop"))
	q.store()
	ret()
}

func (q *quant2) prefetch(b reg.GPPhysical, bytes int) {
	for at := 0; q.rows == 1 && at < bytes; at += 64 {
		PREFETCHT0(mem(b, 4096+at))
	}
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

// bytes sums the products of the codes of Q8_0, signed: their magnitudes by the activations with their signs.
func (q *quant2) bytes() {
	for j := range 8 {
		for h := range 2 {
			VMOVDQU(mem(q.b, 64*j+32*h), y[codes2+h])
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
	for r := range q.rows {
		VBROADCASTSS(q.row(r, groupScale), y[free2])
		if g.sum > 0 {
			VPBROADCASTD(q.row(r, g.sum), y[free2+1])
			if g.zero > 0 {
				VPSLLD(Imm(uint64(g.zero)), y[free2+1], y[free2+1])
			}
		}
		for h := range 2 {
			sum, s := y[2*r+h], y[free2+2]
			acc := q.frame.Offset(64*r + 32*h)
			if g.words {
				VPMADDWD(q.ones, sum, sum)
			}
			if g.sum > 0 {
				VPADDD(y[free2+1], sum, sum)
			}
			VCVTDQ2PS(sum, sum)
			VMULPS(y[free2], y[codes2+h], s)
			VFMADD213PS(acc, s, sum)
			if g.mins {
				VBROADCASTSS(q.row(r, groupSum), s)
				if g.sub {
					VFNMADD231PS(s, y[codes2+2+h], sum)
				} else {
					VFMADD231PS(s, y[codes2+2+h], sum)
				}
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

func (q *quant2) blockQ4_K() {
	scales, qs, pairs := reg.R11, reg.R12, reg.R13
	LEAQ(mem(q.b, 64), scales)
	LEAQ(mem(q.b, 320), qs)
	MOVQ(I32(4), pairs)
	Label("pair")
	q.prefetch(qs, 592)
	for half := range 2 {
		q.nibbles(qs, 8, half == 0, half == 1)
		q.products(mem(scales, 32*half), mem(q.b, 0), 0, false)
		q.products(mem(scales, 32*half+16), mem(q.b, 32), 2, false)
		q.finish(group2{words: true, mins: true, sub: true})
		q.next()
	}
	ADDQ(I32(64), scales)
	ADDQ(I32(512), qs)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	ADDQ(I32(2368), q.b)
}

// blockQ6_K sums pairs of products in 16 bits, two dwords at a time: four would not fit.
func (q *quant2) blockQ6_K() {
	scales, qs, halves := reg.R11, reg.R12, reg.R13
	LEAQ(mem(q.b, 32), scales)
	LEAQ(mem(q.b, 288), qs)
	MOVQ(I32(2), halves)
	Label("half")
	for quarter := range 4 {
		q.prefetch(qs, 420)
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
			q.finish(group2{sum: groupLow + 4*half, zero: 2})
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
