package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func pack() {
	packARows()
	packACols()
	packBRows("packBRows4", 4)
	packBRows("packBRows", 1)
	transpose8("packBCols", floats)
}

// packARows stores rows (1 to 6) of kc elements, lda apart, step after step: 6 floats each, of which
// absent rows repeat the last. It writes 8 bytes past the last whole group of 8 steps.
func packARows() {
	fn("packARows", "func(kc int, src *float32, lda, rows int, dst *float32)")
	kc, ld, d, t := reg.RAX, reg.RCX, reg.RDX, reg.RDI
	Load(Param("kc"), kc)
	Load(Param("lda"), ld)
	Load(Param("dst"), d)
	p := pointers
	Load(Param("src"), p[0])
	Load(Param("rows"), reg.RSI)
	SHLQ(Imm(2), ld)
	for i := 1; i < 6; i++ {
		LEAQ(Mem{Base: p[i-1], Index: ld, Scale: 1}, p[i])
		CMPQ(reg.RSI, Imm(uint64(i+1)))
		CMOVQLT(p[i-1], p[i])
	}
	MOVQ(kc, t)
	SHRQ(Imm(3), t)
	JZ(LabelRef("tail"))
	Label("loop")
	for r := range 6 {
		VMOVUPS(mem(p[r], 0), y[r])
		ADDQ(Imm(32), p[r])
	}
	// Letters are rows, digits steps; each 128-bit half of a register does the same.
	VUNPCKLPS(y[1], y[0], y[6])  // a0 b0 a1 b1 | a4 b4 a5 b5
	VUNPCKHPS(y[1], y[0], y[7])  // a2 b2 a3 b3 | a6 …
	VUNPCKLPS(y[3], y[2], y[8])  // c0 d0 c1 d1
	VUNPCKHPS(y[3], y[2], y[9])  // c2 d2 c3 d3
	VUNPCKLPS(y[5], y[4], y[10]) // e0 f0 e1 f1
	VUNPCKHPS(y[5], y[4], y[11]) // e2 f2 e3 f3
	VSHUFPS(Imm(0x44), y[8], y[6], y[0])
	VSHUFPS(Imm(0xEE), y[8], y[6], y[1])
	VSHUFPS(Imm(0x44), y[9], y[7], y[2])
	VSHUFPS(Imm(0xEE), y[9], y[7], y[3])
	VSHUFPS(Imm(0xEE), y[10], y[10], y[12])
	VSHUFPS(Imm(0xEE), y[11], y[11], y[13])
	ef := []reg.VecPhysical{y[10], y[12], y[11], y[13]}
	for k := range 4 {
		VINSERTF128(Imm(1), x(ef[k]), y[k], y[4])
		VMOVUPS(y[4], mem(d, 24*k))
	}
	for k := range 4 {
		VPERM2F128(Imm(0x31), ef[k], y[k], y[4])
		VMOVUPS(y[4], mem(d, 24*(k+4)))
	}
	ADDQ(I32(192), d)
	DECQ(t)
	JNE(LabelRef("loop"))
	Label("tail")
	ANDQ(Imm(7), kc)
	JZ(LabelRef("done"))
	Label("one")
	for r := range 6 {
		VMOVSS(mem(p[r], 0), reg.X0)
		VMOVSS(reg.X0, mem(d, 4*r))
		ADDQ(Imm(4), p[r])
	}
	ADDQ(Imm(24), d)
	DECQ(kc)
	JNE(LabelRef("one"))
	Label("done")
	ret()
}

// packACols does the same where the rows of one step are adjacent and steps lda apart; absent rows are
// zeros. It writes 8 bytes past the last step.
func packACols() {
	fn("packACols", "func(kc int, src *float32, lda, rows int, dst *float32)")
	Load(Param("kc"), reg.RAX)
	Load(Param("src"), reg.RBX)
	Load(Param("lda"), reg.RCX)
	Load(Param("rows"), reg.RSI)
	Load(Param("dst"), reg.RDX)
	SHLQ(Imm(2), reg.RCX)
	loadMask(reg.RSI, reg.RDI, mask)
	Label("loop")
	VMASKMOVPS(mem(reg.RBX, 0), mask, y[0])
	VMOVUPS(y[0], mem(reg.RDX, 0))
	ADDQ(reg.RCX, reg.RBX)
	ADDQ(Imm(24), reg.RDX)
	DECQ(reg.RAX)
	JNE(LabelRef("loop"))
	ret()
}

// packBRows copies kc rows, ldb apart, into panels of 16 columns, stride elements apart. Four at once
// read 256 adjacent bytes a row; the single form takes 1 to 16 columns and fills up with zeros.
func packBRows(name string, n int) {
	if n == 1 {
		fn(name, "func(kc int, src *float32, ldb, cols int, dst *float32)")
	} else {
		fn(name, "func(kc int, src *float32, ldb int, dst *float32, stride int)")
	}
	kc, s, ld := reg.RAX, reg.RBX, reg.RCX
	d := pointers
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ldb"), ld)
	Load(Param("dst"), d[0])
	SHLQ(Imm(2), ld)
	if n == 1 {
		halfMasks()
	} else {
		Load(Param("stride"), reg.RSI)
		SHLQ(Imm(2), reg.RSI)
		for i := 1; i < n; i++ {
			LEAQ(Mem{Base: d[i-1], Index: reg.RSI, Scale: 1}, d[i])
		}
	}
	Label("loop")
	for i := range n {
		if n == 1 {
			VMASKMOVPS(mem(s, 0), y[14], y[0])
			VMASKMOVPS(mem(s, 32), y[15], y[1])
		} else {
			PREFETCHT0(Mem{Base: s, Index: ld, Scale: 8, Disp: 64 * i})
			VMOVUPS(mem(s, 64*i), y[0])
			VMOVUPS(mem(s, 64*i+32), y[1])
		}
		VMOVUPS(y[0], mem(d[i], 0))
		VMOVUPS(y[1], mem(d[i], 32))
		ADDQ(Imm(64), d[i])
	}
	ADDQ(ld, s)
	DECQ(kc)
	JNE(LabelRef("loop"))
	ret()
}

// halfMasks makes the masks of the two halves of a panel, of which cols (1 to 16) columns exist.
func halfMasks() {
	Load(Param("cols"), reg.RSI)
	MOVQ(I32(8), reg.RDX)
	CMPQ(reg.RSI, reg.RDX)
	CMOVQLT(reg.RSI, reg.RDX)
	SUBQ(reg.RDX, reg.RSI)
	loadMask(reg.RDX, reg.RDI, y[14])
	loadMask(reg.RSI, reg.RDI, y[15])
}

// transpose8 turns 16 columns, each of kc adjacent elements and ld elements apart, into one panel. kc is a
// multiple of 8, of 16 where pairs come.
func transpose8(name string, src source) {
	read, _ := src.reads()
	fn(name, "func(kc int, src "+read+", ld int, dst "+src.writes()+")")
	kc, s, ld, d, p4, p, ld3 := reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.R9, reg.R8
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("dst"), d)
	if src == floats {
		SHLQ(Imm(2), ld)
		SHRQ(Imm(3), kc)
	} else {
		SHLQ(Imm(1), ld)
		SHRQ(Imm(4), kc)
	}
	LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, ld3)
	Label("loop")
	MOVQ(s, p)
	for h := range 2 {
		LEAQ(Mem{Base: p, Index: ld, Scale: 4}, p4)
		for r := range 8 {
			m := Mem{Base: p}
			if r >= 4 {
				m.Base = p4
			}
			switch r % 4 {
			case 1, 2:
				m.Index, m.Scale = ld, uint8(r%4)
			case 3:
				m.Index, m.Scale = ld3, 1
			}
			VMOVUPS(m, y[r])
			if src == halves {
				VPSHUFB(consts["swap"], y[r], y[r])
			}
		}
		for i := range 4 { // pairs of columns
			VUNPCKLPS(y[2*i+1], y[2*i], y[8+2*i])
			VUNPCKHPS(y[2*i+1], y[2*i], y[9+2*i])
		}
		for i := range 2 { // fours
			l0, h0, l1, h1 := y[8+4*i], y[9+4*i], y[10+4*i], y[11+4*i]
			VSHUFPS(Imm(0x44), l1, l0, y[4*i])
			VSHUFPS(Imm(0xEE), l1, l0, y[4*i+1])
			VSHUFPS(Imm(0x44), h1, h0, y[4*i+2])
			VSHUFPS(Imm(0xEE), h1, h0, y[4*i+3])
		}
		for k := range 4 { // eights
			VPERM2F128(Imm(0x20), y[4+k], y[k], y[8])
			VMOVUPS(y[8], mem(d, 64*k+32*h))
			VPERM2F128(Imm(0x31), y[4+k], y[k], y[9])
			VMOVUPS(y[9], mem(d, 64*(k+4)+32*h))
		}
		if h == 0 {
			LEAQ(Mem{Base: p, Index: ld, Scale: 8}, p)
		}
	}
	ADDQ(Imm(32), s)
	ADDQ(I32(512), d)
	DECQ(kc)
	JNE(LabelRef("loop"))
	ret()
}
