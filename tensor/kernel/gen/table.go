package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// codesOfTables writes what turns the codes of a group of 16 rows into floats: 16 scales, then 16 bytes for each element, or for two. AVX2 is
// enough for both sets: what they make goes through L1 to a product.
func codesOfTables() {
	word("tableBits", 0xbf80bf80)
	number("two8", 256)
	widenE4M3()
	widenTable16()
}

// parameters loads what both have: the elements, codes, place of the first element, bytes from it to the next, and the scales.
func tableParameters() {
	Load(Param("elems"), reg.RAX)
	Load(Param("src"), reg.RBX)
	Load(Param("dst"), reg.RDX)
	Load(Param("stride"), reg.RCX)
	for i := range 2 {
		VMOVUPS(mem(reg.RBX, 32*i), y[8+i])
	}
	ADDQ(Imm(64), reg.RBX)
}

// widenE4M3 takes a byte for a binary16 that is 2⁸ too small: its sign, four of five bits of its exponent and three of its mantissa.
func widenE4M3() {
	fn("widenE4M3", "func(elems int, src *byte, dst *float32, stride int)")
	tableParameters()
	VMOVUPS(consts["tableBits"], y[10])
	VMOVUPS(consts["two8"], y[11])
	Label("loop")
	VPMOVZXBW(mem(reg.RBX, 0), y[0])
	VPSLLW(Imm(8), y[0], y[0])
	VPSRAW(Imm(1), y[0], y[0])
	VPAND(y[10], y[0], y[0])
	VEXTRACTI128(Imm(1), y[0], x(y[1]))
	for i := range 2 {
		VCVTPH2PS(x(y[i]), y[2+i])
		VMULPS(y[11], y[2+i], y[2+i])
		VMULPS(y[8+i], y[2+i], y[2+i])
		VMOVUPS(y[2+i], mem(reg.RDX, 32*i))
	}
	ADDQ(Imm(16), reg.RBX)
	ADDQ(reg.RCX, reg.RDX)
	DECQ(reg.RAX)
	JNZ(LabelRef("loop"))
	ret()
}

// widenTable16 looks four bits up in a table of 16 values, in two halves.
func widenTable16() {
	fn("widenTable16", "func(elems int, src *byte, dst *float32, stride int, table *float32)")
	Load(Param("table"), reg.RSI)
	tableParameters()
	VMOVUPS(mem(reg.RSI, 0), y[10])
	VMOVUPS(mem(reg.RSI, 32), y[11])
	Label("loop")
	for i := range 2 { // rows 0 to 7, then 8 to 15
		codes := y[i]
		VPMOVZXBD(mem(reg.RBX, 8*i), codes)
		for j := range 2 { // the low half, then the high one
			low, high := y[2+2*j], y[3+2*j]
			if j == 1 {
				VPSRLD(Imm(4), codes, codes)
			}
			VPERMPS(y[10], codes, low)
			VPERMPS(y[11], codes, high)
			VPSLLD(Imm(28), codes, y[6])
			VBLENDVPS(y[6], high, low, low)
			VMULPS(y[8+i], low, low)
			if j == 0 {
				VMOVUPS(low, mem(reg.RDX, 32*i))
			} else {
				VMOVUPS(low, Mem{Base: reg.RDX, Index: reg.RCX, Scale: 1, Disp: 32 * i})
			}
		}
	}
	ADDQ(Imm(16), reg.RBX)
	LEAQ(Mem{Base: reg.RDX, Index: reg.RCX, Scale: 2}, reg.RDX)
	SUBQ(Imm(2), reg.RAX)
	JNZ(LabelRef("loop"))
	ret()
}
