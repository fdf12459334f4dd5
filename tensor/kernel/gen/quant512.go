package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of the kernels for 512 bits: 0–7 codes, 8 and 9 scales of a group, 10 and 15 minima (or 15 a table of values), 11 and 12 masks,
// 13 and 14 scales of a block, 16–23 sums, 24–31 free.
const (
	scale512  = 8
	min512    = 10
	low512    = 11
	high512   = 12
	d512      = 13
	dmin512   = 14
	values512 = 15
	min512b   = 15
	sum512    = 16
	free512   = 24
)

// group512 is how the codes of a group, in registers 0 to 7, are multiplied.
type group512 struct {
	zero   int  // the zero point, a power of two from 4 on, or 0
	halves bool // two scales, in scale512 and the register behind it, and minima, in min512 and min512b
	min    int  // 1 if minima are added, −1 if they are taken away
}

// quant512 is a micro-kernel that is being written.
type quant512 struct {
	*quantLoop
	free int
}

func (q *quant512) temp() reg.VecPhysical {
	r := z[free512+q.free%8]
	q.free++
	return r
}

// newQuant512 emits the product of so many rows with a panel, or where there are none what unpacks a panel.
func newQuant512(format string, rows int) {
	q := &quant512{quantLoop: newQuantLoop(format, rows)}
	if rows == 0 {
		if zero := zeroPoint(format); zero > 0 {
			splat(0x01010101*zero, z[sum512])
		}
		splat(0x80000000, z[sum512+1])
	}
	for r := range rows {
		VPXORD(z[sum512+r], z[sum512+r], z[sum512+r])
	}
	splat(0x0f0f0f0f, z[low512])
	switch format {
	case "Q6_K":
		splat(0x30303030, z[high512])
	case "Q5_0", "Q5_1", "Q5_K":
		splat(0x10101010, z[high512])
	case "Q3_K":
		splat(0x04040404, z[high512])
		splat(0x03030303, z[low512])
	case "Q2_K":
		splat(0x03030303, z[low512])
	case "IQ4_NL", "IQ4_XS":
		VBROADCASTI32X4(quantValues("iq4", valuesIQ4), z[values512])
	case "MXFP4":
		splat(0x00400000, z[d512])
		splat(0x3f000000, z[dmin512]) // a half
		VBROADCASTI32X4(quantValues("e2m1", valuesE2M1), z[values512])
	}
	Label("loop")
	switch format {
	case "Q4_0":
		q.prefetch(288)
		q.nibbles(q.b)
		VCVTPH2PS(mem(q.b, 256), z[scale512])
		q.multiply(group512{zero: 8})
		ADDQ(I32(288), q.b)
	case "Q4_1":
		q.prefetch(320)
		q.nibbles(q.b)
		VCVTPH2PS(mem(q.b, 256), z[scale512])
		VCVTPH2PS(mem(q.b, 288), z[min512])
		q.multiply(group512{min: 1})
		ADDQ(I32(320), q.b)
	case "Q5_0":
		q.prefetch(352)
		q.nibbles(q.b)
		q.topBits(mem(q.b, 256), 4)
		VCVTPH2PS(mem(q.b, 320), z[scale512])
		q.multiply(group512{zero: 16})
		ADDQ(I32(352), q.b)
	case "Q5_1":
		q.prefetch(384)
		q.nibbles(q.b)
		q.topBits(mem(q.b, 256), 4)
		VCVTPH2PS(mem(q.b, 320), z[scale512])
		VCVTPH2PS(mem(q.b, 352), z[min512])
		q.multiply(group512{min: 1})
		ADDQ(I32(384), q.b)
	case "IQ4_NL":
		q.prefetch(288)
		q.values(q.b)
		VCVTPH2PS(mem(q.b, 256), z[scale512])
		q.multiply(group512{zero: 128})
		ADDQ(I32(288), q.b)
	case "MXFP4":
		q.prefetch(272)
		q.values(q.b)
		VPMOVZXBD(mem(q.b, 256), z[scale512])
		VPSLLD(Imm(23), z[scale512], z[scale512])
		VPMAXUD(z[d512], z[scale512], z[scale512])
		VMULPS(z[dmin512], z[scale512], z[scale512])
		q.multiply(group512{zero: 128})
		ADDQ(I32(272), q.b)
	case "Q8_0":
		q.prefetch(544)
		for j := range 8 {
			VMOVDQU64(mem(q.b, 64*j), z[j])
		}
		VCVTPH2PS(mem(q.b, 512), z[scale512])
		q.multiply(group512{zero: 128})
		ADDQ(I32(544), q.b)
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
	if rows > 0 {
		Load(Param("cols"), reg.RAX)
		kMask(reg.RAX, reg.R10, reg.K1)
		q.outputs(func(r int, out Mem) { VMOVUPS(z[sum512+r], reg.K1, out) })
	}
	ret()
}

// prefetch asks for as many bytes as a block has, into L2 long before they are needed and into L1 shortly before: one stream in L1's
// few buffers alone does not use the memory's bandwidth. Only single rows wait for memory.
func (q *quantLoop) prefetch(bytes int) { q.prefetchAt(q.b, bytes) }

func (q *quantLoop) prefetchAt(b reg.GPPhysical, bytes int) {
	const far, near = 16384, 2048
	for at := 0; q.rows == 1 && at < bytes; at += 64 {
		PREFETCHT1(mem(b, far+at))
		PREFETCHT0(mem(b, near+at))
	}
}

// nibbles takes codes 4j from the low halves of register j of four, and 16+4j from the high.
func (q *quant512) nibbles(b reg.GPPhysical) {
	for j := range 4 {
		VMOVDQU64(mem(b, 64*j), z[j])
		VPSRLD(Imm(4), z[j], z[4+j])
		VPANDD(z[low512], z[j], z[j])
		VPANDD(z[low512], z[4+j], z[4+j])
	}
}

// multiply continues every row's sums by a group and goes to the next; with no rows it stores the group.
func (q *quant512) multiply(g group512) {
	if q.rows == 0 {
		q.unpack(g)
		return
	}
	for r := range q.rows {
		acc := z[sum512+r]
		parts, sum, part := 1, groupAll, groupSum
		if g.halves {
			parts, sum, part = 2, groupLow, groupSums
		}
		for p := range parts {
			t, s := q.temp(), q.temp()
			q.start(t, q.row(r, sum+4*p), g.zero)
			for j := 8 / parts * p; j < 8/parts*(p+1); j++ {
				dotBytes(q.row(r, 4*j), z[j], t)
			}
			VMULPS_BCST(q.row(r, groupScale), z[scale512+p], s)
			VCVTDQ2PS(t, t)
			VFMADD231PS(s, t, acc)
			switch m := z[min512+(min512b-min512)*p]; g.min {
			case 1:
				VFMADD231PS_BCST(q.row(r, part+4*p), m, acc)
			case -1:
				VFNMADD231PS_BCST(q.row(r, part+4*p), m, acc)
			}
		}
	}
	q.next()
}

// start sets sums of codes to what takes the zero point away.
func (q *quant512) start(t reg.VecPhysical, sum Mem, zero int) {
	if zero == 0 {
		VPXORD(t, t, t)
		return
	}
	VPBROADCASTD(sum, t)
	if zero < 8 {
		VPSRAD(Imm(1), t, t)
	}
	if zero > 8 {
		VPSLLD(Imm(uint64(bits.TrailingZeros(uint(zero/8)))), t, t)
	}
}

// blockGrouped walks over the 32 elements of a group one after another.
func (q *quant512) blockGrouped(four bool) {
	steps := reg.R13
	VMOVUPS(mem(q.b, 0), z[scale512])
	VMOVUPS(mem(q.b, 64), z[min512])
	ADDQ(I32(128), q.b)
	Load(Param("steps"), steps)
	Label("step")
	bytes, zero := 512, 128
	if four {
		bytes, zero = 256, 8
	}
	q.prefetch(bytes)
	if four {
		q.nibbles(q.b)
	} else {
		for j := range 8 {
			VMOVDQU64(mem(q.b, 64*j), z[j])
		}
	}
	q.multiply(group512{zero: zero, min: 1})
	ADDQ(I32(bytes), q.b)
	DECQ(steps)
	JNE(LabelRef("step"))
}

// values looks up what nibbles stand for.
func (q *quant512) values(b reg.GPPhysical) {
	q.nibbles(b)
	for j := range 8 {
		VPSHUFB(z[j], z[values512], z[j])
	}
}

// topBits adds bit j of a register of top bits to the codes of register j, as their bit to: high512 is its mask.
func (q *quant512) topBits(from Mem, to int) {
	top, t := z[free512+7], z[free512+6]
	VMOVDQU64(from, top)
	for j := range 8 {
		from := top
		if j < to {
			VPSLLD(Imm(uint64(to-j)), top, t)
			from = t
		}
		if j > to {
			VPSRLD(Imm(uint64(j-to)), top, t)
			from = t
		}
		q.orHigh(from, z[j])
	}
}

// orHigh is code |= t & high: of (code, t, high) the table is 0b11111000.
func (q *quant512) orHigh(t, code reg.VecPhysical) { VPTERNLOGD(Imm(0xF8), z[high512], t, code) }

// byteScale makes r the product of 16 bytes and a block's scales.
func (q *quant512) byteScale(bytes Mem, signed bool, d int, r reg.VecPhysical) {
	if signed {
		VPMOVSXBD(bytes, r)
	} else {
		VPMOVZXBD(bytes, r)
	}
	VCVTDQ2PS(r, r)
	VMULPS(z[d], r, r)
}

// blockPairs walks over four pairs of groups of Q4_K or Q5_K: R11 is where a pair's scales are, R12 its codes, R14 its top bits.
func (q *quant512) blockPairs(five bool) {
	scales, qs, pairs, tops := reg.R11, reg.R12, reg.R13, reg.R14
	bytes, codes, ahead := 2368, 320, 592
	if five {
		bytes, codes, ahead = 2880, 832, 720
		LEAQ(mem(q.b, 320), tops)
	}
	VCVTPH2PS(mem(q.b, 0), z[d512])
	VCVTPH2PS(mem(q.b, 32), z[dmin512])
	LEAQ(mem(q.b, 64), scales)
	LEAQ(mem(q.b, codes), qs)
	MOVQ(I32(4), pairs)
	Label("pair")
	q.prefetchAt(qs, ahead)
	for half := range 2 {
		for j := range 8 {
			VMOVDQU64(mem(qs, 64*j), z[j])
			if half == 1 {
				VPSRLD(Imm(4), z[j], z[j])
			}
			VPANDD(z[low512], z[j], z[j])
		}
		if five {
			q.topBits(mem(tops, 64*half), 4)
		}
		q.byteScale(mem(scales, 32*half), false, d512, z[scale512])
		q.byteScale(mem(scales, 32*half+16), false, dmin512, z[min512])
		q.multiply(group512{min: -1})
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
func (q *quant512) blockTwo(three bool) {
	scales, qs, halves, tops := reg.R11, reg.R12, reg.R13, reg.R14
	VCVTPH2PS(mem(q.b, 0), z[d512])
	if three {
		LEAQ(mem(q.b, 32), scales)
		LEAQ(mem(q.b, 288), tops)
		LEAQ(mem(q.b, 800), qs)
	} else {
		VCVTPH2PS(mem(q.b, 32), z[dmin512])
		LEAQ(mem(q.b, 64), scales)
		LEAQ(mem(q.b, 320), qs)
	}
	MOVQ(I32(2), halves)
	Label("half")
	for quarter := range 4 {
		q.prefetchAt(qs, 200)
		for j := range 8 {
			VMOVDQU64(mem(qs, 64*j), z[j])
			if quarter > 0 {
				VPSRLD(Imm(uint64(2*quarter)), z[j], z[j])
			}
			VPANDD(z[low512], z[j], z[j])
		}
		if three {
			q.topBits(mem(tops, 64*quarter), 2)
			for p := range 2 {
				q.byteScale(mem(scales, 32*quarter+16*p), true, d512, z[scale512+p])
			}
			q.multiply(group512{zero: 4, halves: true})
			continue
		}
		for p := range 2 { // a scale in the low half of a byte, a min in the high
			s, m := z[scale512+p], z[min512+(min512b-min512)*p]
			VPMOVZXBD(mem(scales, 32*quarter+16*p), s)
			VPSRLD(Imm(4), s, m)
			VPSLLD(Imm(28), s, s)
			VPSRLD(Imm(28), s, s)
			for i, r := range []reg.VecPhysical{s, m} {
				VCVTDQ2PS(r, r)
				VMULPS(z[d512+i], r, r)
			}
		}
		q.multiply(group512{halves: true, min: -1})
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

// blockIQ4_XS walks over eight groups.
func (q *quant512) blockIQ4_XS() {
	scales, qs, groups := reg.R11, reg.R12, reg.R13
	VCVTPH2PS(mem(q.b, 0), z[d512])
	LEAQ(mem(q.b, 32), scales)
	LEAQ(mem(q.b, 160), qs)
	MOVQ(I32(8), groups)
	Label("group")
	q.prefetchAt(qs, 276)
	q.values(qs)
	q.byteScale(mem(scales, 0), true, d512, z[scale512])
	q.multiply(group512{zero: 128})
	ADDQ(I32(16), scales)
	ADDQ(I32(256), qs)
	DECQ(groups)
	JNE(LabelRef("group"))
	ADDQ(I32(2208), q.b)
}

// blockQ6_K walks over two halves of four groups each.
func (q *quant512) blockQ6_K() {
	scales, qs, halves := reg.R11, reg.R12, reg.R13
	VCVTPH2PS(mem(q.b, 0), z[d512])
	LEAQ(mem(q.b, 32), scales)
	LEAQ(mem(q.b, 288), qs)
	MOVQ(I32(2), halves)
	Label("half")
	for quarter := range 4 {
		q.prefetchAt(qs, 420)
		for j := range 8 {
			low, t := z[j], q.temp()
			VMOVDQU64(mem(qs, quarter%2*512+64*j), low)
			VMOVDQU64(mem(qs, 1024+64*j), t)
			if quarter >= 2 {
				VPSRLD(Imm(4), low, low)
			}
			switch quarter {
			case 0:
				VPSLLD(Imm(4), t, t)
			case 1:
				VPSLLD(Imm(2), t, t)
			case 3:
				VPSRLD(Imm(2), t, t)
			}
			VPANDD(z[low512], low, low)
			q.orHigh(t, low)
		}
		for p := range 2 {
			q.byteScale(mem(scales, 32*quarter+16*p), true, d512, z[scale512+p])
		}
		q.multiply(group512{zero: 32, halves: true})
	}
	ADDQ(I32(128), scales)
	ADDQ(I32(1536), qs)
	DECQ(halves)
	JNE(LabelRef("half"))
	ADDQ(I32(3360), q.b)
}

// quantize512 rounds a row, 32 elements at a time.
func quantize512() {
	fn("quantizeRow", "func(dst *byte, x *float32, groups int)")
	dst, src, n := reg.RDI, reg.RSI, reg.RCX
	Load(Param("dst"), dst)
	Load(Param("x"), src)
	Load(Param("groups"), n)
	splat(0x7fffffff, z[10])
	splat(0x42fe0000, z[11]) // 127
	splat(0x3f800000, z[12]) // 1
	splat(0x01010101, z[13])
	Label("loop")
	VMOVUPS(mem(src, 0), z[0])
	VMOVUPS(mem(src, 64), z[1])
	VPANDD(z[10], z[0], z[2])
	VPANDD(z[10], z[1], z[3])
	VPMAXUD(z[3], z[2], z[2])
	VEXTRACTI64X4(Imm(1), z[2], y[3])
	VPMAXUD(y[3], y[2], y[2])
	quantizeScale()
	VBROADCASTSS(x(y[4]), z[4])
	for i := range 2 {
		VMULPS(z[4], z[i], z[i])
		VCVTPS2DQ(z[i], z[i])
		VPMOVSDB(z[i], mem(dst, 16*i))
	}
	VMOVDQU(mem(dst, 0), y[5])
	VPXOR(y[6], y[6], y[6])
	Instruction(&ir.Instruction{Opcode: "VPDPBUSD", Operands: []Op{y[5], y[13], y[6]}}) // four sums of four in each half
	quantizeSums(dst)
	ADDQ(I32(groupBytes), dst)
	ADDQ(I32(128), src)
	DECQ(n)
	JNE(LabelRef("loop"))
	ret()
}

// quantizeScale turns the eight magnitudes in y2 into d in x3 and 1/d, or 0, in x4. 127 is in y11 and 1 in y12.
func quantizeScale() {
	VEXTRACTI128(Imm(1), y[2], x(y[3]))
	VPMAXUD(x(y[3]), x(y[2]), x(y[2]))
	VPSHUFD(Imm(0x4E), x(y[2]), x(y[3]))
	VPMAXUD(x(y[3]), x(y[2]), x(y[2]))
	VPSHUFD(Imm(0xB1), x(y[2]), x(y[3]))
	VPMAXUD(x(y[3]), x(y[2]), x(y[2]))
	VDIVSS(x(y[11]), x(y[2]), x(y[3]))
	VDIVSS(x(y[3]), x(y[12]), x(y[4]))
	VSUBPS(x(y[4]), x(y[4]), x(y[5]))
	VCMPPS(Imm(7), x(y[5]), x(y[5]), x(y[5])) // ordered: not a NaN
	VANDPS(x(y[5]), x(y[4]), x(y[4]))
}

// quantizeSums stores scale and sums: four of each half's codes are in y6, the scale in x3.
func quantizeSums(dst reg.Register) {
	VPHADDD(y[6], y[6], y[6])
	VPHADDD(y[6], y[6], y[6])
	VEXTRACTI128(Imm(1), y[6], x(y[7]))
	VMOVD(x(y[6]), reg.EAX)
	VMOVD(x(y[7]), reg.EBX)
	LEAL(Mem{Base: reg.RAX, Index: reg.RBX, Scale: 1}, reg.EDX)
	out := dst.(reg.GPPhysical)
	VMOVSS(x(y[3]), mem(out, groupScale))
	for _, part := range []struct {
		r  reg.GPPhysical
		at int
	}{{reg.EDX, groupSum}, {reg.EAX, groupSums}, {reg.EBX, groupSums + 4}} {
		VXORPS(x(y[8]), x(y[8]), x(y[8]))
		VCVTSI2SSL(part.r, x(y[8]), x(y[8]))
		VMULSS(x(y[3]), x(y[8]), x(y[8]))
		VMOVSS(x(y[8]), mem(out, part.at))
	}
	for i, r := range []reg.GPPhysical{reg.EAX, reg.EBX, reg.EDX} {
		NEGL(r)
		SHLL(Imm(3), r)
		MOVL(r, mem(out, groupLow+4*i))
	}
	MOVL(U32(0), mem(out, 60))
}
