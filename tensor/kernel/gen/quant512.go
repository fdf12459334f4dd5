package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of the kernels for 512 bits: 0–7 codes, 8–10 scales and minima of a group, 11 and 12 masks, 13 and 14 scales of a block,
// 16–23 sums, 24–31 free.
const (
	scale512 = 8
	min512   = 10
	low512   = 11
	high512  = 12
	d512     = 13
	dmin512  = 14
	sum512   = 16
	free512  = 24
)

// group512 is how the codes of a group, in registers 0 to 7, are multiplied.
type group512 struct {
	zero   int  // the zero point divided by eight is 1<<(zero-1); none if 0
	halves bool // two scales, in scale512 and the register behind it
	min    int  // 1 if min512 is added, −1 if it is taken away
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

func newQuant512(format string, rows int) {
	q := &quant512{quantLoop: newQuantLoop(format, rows)}
	for r := range rows {
		VPXORD(z[sum512+r], z[sum512+r], z[sum512+r])
	}
	splat(0x0f0f0f0f, z[low512])
	if format == "Q6_K" {
		splat(0x30303030, z[high512])
	}
	Label("loop")
	switch format {
	case "Q4_0":
		q.prefetch(288)
		q.nibbles()
		VCVTPH2PS(mem(q.b, 256), z[scale512])
		q.multiply(group512{zero: 1})
		ADDQ(I32(288), q.b)
	case "Q4_1":
		q.prefetch(320)
		q.nibbles()
		VCVTPH2PS(mem(q.b, 256), z[scale512])
		VCVTPH2PS(mem(q.b, 288), z[min512])
		q.multiply(group512{min: 1})
		ADDQ(I32(320), q.b)
	case "Q8_0":
		q.prefetch(544)
		for j := range 8 {
			VMOVDQU64(mem(q.b, 64*j), z[j])
		}
		VCVTPH2PS(mem(q.b, 512), z[scale512])
		q.multiply(group512{zero: 5})
		ADDQ(I32(544), q.b)
	case "Q4_K":
		q.blockQ4_K()
	case "Q6_K":
		q.blockQ6_K()
	}
	DECQ(q.blocks)
	JNE(LabelRef("loop"))
	Load(Param("cols"), reg.RAX)
	kMask(reg.RAX, reg.R10, reg.K1)
	q.outputs(func(r int, out Mem) { VMOVUPS(z[sum512+r], reg.K1, out) })
	ret()
}

// prefetch asks for as many bytes as a block has, a while ahead. Only single rows wait for memory.
func (q *quant512) prefetch(bytes int) {
	const ahead = 4096
	for at := 0; q.rows == 1 && at < bytes; at += 64 {
		PREFETCHT0(mem(q.b, ahead+at))
	}
}

// nibbles takes codes 4j from the low halves of register j of four, and 16+4j from the high.
func (q *quant512) nibbles() {
	for j := range 4 {
		VMOVDQU64(mem(q.b, 64*j), z[j])
		VPSRLD(Imm(4), z[j], z[4+j])
		VPANDD(z[low512], z[j], z[j])
		VPANDD(z[low512], z[4+j], z[4+j])
	}
}

// multiply continues every row's sums by a group and goes to the next.
func (q *quant512) multiply(g group512) {
	for r := range q.rows {
		acc := z[sum512+r]
		if g.halves {
			for half := range 2 {
				t, s := q.temp(), q.temp()
				q.start(t, q.row(r, groupLow+4*half), g.zero)
				for j := range 4 {
					dotBytes(q.row(r, 16*half+4*j), z[4*half+j], t)
				}
				VMULPS_BCST(q.row(r, groupScale), z[scale512+half], s)
				VCVTDQ2PS(t, t)
				VFMADD231PS(s, t, acc)
			}
		} else {
			t, s := q.temp(), q.temp()
			q.start(t, q.row(r, groupAll), g.zero)
			for j := range 8 {
				dotBytes(q.row(r, 4*j), z[j], t)
			}
			VMULPS_BCST(q.row(r, groupScale), z[scale512], s)
			VCVTDQ2PS(t, t)
			VFMADD231PS(s, t, acc)
		}
		switch g.min {
		case 1:
			VFMADD231PS_BCST(q.row(r, groupSum), z[min512], acc)
		case -1:
			VFNMADD231PS_BCST(q.row(r, groupSum), z[min512], acc)
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
	if zero > 1 {
		VPSLLD(Imm(uint64(zero-1)), t, t)
	}
}

// blockQ4_K walks over four pairs of groups; R11 is where a pair's scales are, R12 its codes.
func (q *quant512) blockQ4_K() {
	scales, qs, pairs := reg.R11, reg.R12, reg.R13
	VCVTPH2PS(mem(q.b, 0), z[d512])
	VCVTPH2PS(mem(q.b, 32), z[dmin512])
	LEAQ(mem(q.b, 64), scales)
	LEAQ(mem(q.b, 320), qs)
	MOVQ(I32(4), pairs)
	Label("pair")
	if q.rows == 1 {
		for at := 0; at < 592; at += 64 {
			PREFETCHT0(mem(qs, 4096+at))
		}
	}
	for half := range 2 {
		for j := range 8 {
			VMOVDQU64(mem(qs, 64*j), z[j])
			if half == 1 {
				VPSRLD(Imm(4), z[j], z[j])
			}
			VPANDD(z[low512], z[j], z[j])
		}
		for i, r := range []int{scale512, min512} {
			VPMOVZXBD(mem(scales, 32*half+16*i), z[r])
			VCVTDQ2PS(z[r], z[r])
			VMULPS(z[d512+i], z[r], z[r])
		}
		q.multiply(group512{min: -1})
	}
	ADDQ(I32(64), scales)
	ADDQ(I32(512), qs)
	DECQ(pairs)
	JNE(LabelRef("pair"))
	ADDQ(I32(2368), q.b)
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
		if q.rows == 1 {
			for at := 0; at < 420; at += 64 {
				PREFETCHT0(mem(qs, 4096+384*quarter+at))
			}
		}
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
			// low |= t & high: of (low, t, high) the table is 0b11111000.
			VPTERNLOGD(Imm(0xF8), z[high512], t, low)
		}
		for half := range 2 {
			s := z[scale512+half]
			VPMOVSXBD(mem(scales, 32*quarter+16*half), s)
			VCVTDQ2PS(s, s)
			VMULPS(z[d512], s, s)
		}
		q.multiply(group512{zero: 3, halves: true})
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
	VXORPS(x(y[8]), x(y[8]), x(y[8]))
	VCVTSI2SSL(reg.EDX, x(y[8]), x(y[8]))
	VMULSS(x(y[3]), x(y[8]), x(y[8]))
	VMOVSS(x(y[3]), mem(dst.(reg.GPPhysical), groupScale))
	VMOVSS(x(y[8]), mem(dst.(reg.GPPhysical), groupSum))
	for i, r := range []reg.GPPhysical{reg.EAX, reg.EBX, reg.EDX} {
		NEGL(r)
		SHLL(Imm(3), r)
		MOVL(r, mem(dst.(reg.GPPhysical), groupLow+4*i))
	}
	MOVL(U32(0), mem(dst.(reg.GPPhysical), 52))
	MOVQ(I32(0), mem(dst.(reg.GPPhysical), 56))
}
