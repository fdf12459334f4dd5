package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// turns emits what turns 16 rows, as a file has them, into the lanes of a panel.
func turns() {
	turnHalves()
	turnLanes()
}

// sixteen are 16 rows.
type sixteen struct {
	row, row3 reg.GPPhysical
	four      [4]reg.GPPhysical // rows 0, 4, 8 and 12
}

// newSixteen loads where the rows are, from src on, row bytes apart.
func newSixteen() *sixteen {
	s := &sixteen{reg.RCX, reg.RDX, [4]reg.GPPhysical{reg.R8, reg.R9, reg.R10, reg.R11}}
	Load(Param("src"), s.four[0])
	Load(Param("row"), s.row)
	LEAQ(Mem{Base: s.row, Index: s.row, Scale: 2}, s.row3)
	for i := 1; i < 4; i++ {
		LEAQ(Mem{Base: s.four[i-1], Index: s.row, Scale: 4}, s.four[i])
	}
	return s
}

// at is the next bytes of a row.
func (s *sixteen) at(r int) Mem {
	m := Mem{Base: s.four[r/4]}
	switch r % 4 {
	case 1, 2:
		m.Index, m.Scale = s.row, uint8(r%4)
	case 3:
		m.Index, m.Scale = s.row3, 1
	}
	return m
}

// load puts 16 bytes of rows a and b beside each other.
func (s *sixteen) load(a, b int, to reg.VecPhysical) {
	VMOVDQU(s.at(a), x(to))
	VINSERTI128(Imm(1), s.at(b), to, to)
}

// next goes on by 16 bytes.
func (s *sixteen) next() {
	for _, p := range s.four {
		ADDQ(Imm(16), p)
	}
}

// turnHalves takes steps times 8 elements of two bytes of each row: 16 bytes of rows r and r+8 beside each other are turned within their
// halves of a register.
func turnHalves() {
	fn("turnHalves", "func(steps int, src *byte, row int, dst *byte)")
	n, d := reg.RAX, reg.RBX
	Load(Param("steps"), n)
	Load(Param("dst"), d)
	rows := newSixteen()
	Label("loop")
	for r := range 8 {
		rows.load(r, r+8, y[r])
	}
	for i := range 4 { // letters are rows, digits elements: a0 b0 a1 b1 … and a4 b4 …
		VPUNPCKLWD(y[2*i+1], y[2*i], y[8+2*i])
		VPUNPCKHWD(y[2*i+1], y[2*i], y[9+2*i])
	}
	for i := range 2 { // a0 b0 c0 d0 a1 …, a2 …, a4 …, a6 …
		for j := range 2 {
			VPUNPCKLDQ(y[10+4*i+j], y[8+4*i+j], y[4*i+2*j])
			VPUNPCKHDQ(y[10+4*i+j], y[8+4*i+j], y[4*i+2*j+1])
		}
	}
	for i := range 4 { // a0 … h0, a1 … h1
		VPUNPCKLQDQ(y[4+i], y[i], y[8+2*i])
		VPUNPCKHQDQ(y[4+i], y[i], y[9+2*i])
	}
	for i := range 8 {
		VMOVDQU(y[8+i], mem(d, 32*i))
	}
	rows.next()
	ADDQ(I32(256), d)
	DECQ(n)
	JNE(LabelRef("loop"))
	ret()
}

// turnLanes takes steps times 4 dwords of each row, of which the bits of mask are turned over.
func turnLanes() {
	fn("turnLanes", "func(steps int, src *byte, row int, dst *byte, mask uint32)")
	n, d := reg.RAX, reg.RBX
	Load(Param("steps"), n)
	Load(Param("dst"), d)
	broadcast("mask", y[15])
	rows := newSixteen()
	Label("loop")
	for h := range 2 {
		for i := range 4 {
			rows.load(8*h+i, 8*h+4+i, y[i])
		}
		VPUNPCKLDQ(y[1], y[0], y[4]) // a0 b0 a1 b1
		VPUNPCKHDQ(y[1], y[0], y[5]) // a2 b2 a3 b3
		VPUNPCKLDQ(y[3], y[2], y[6])
		VPUNPCKHDQ(y[3], y[2], y[7])
		VPUNPCKLQDQ(y[6], y[4], y[8])
		VPUNPCKHQDQ(y[6], y[4], y[9])
		VPUNPCKLQDQ(y[7], y[5], y[10])
		VPUNPCKHQDQ(y[7], y[5], y[11])
		for j := range 4 {
			VPXOR(y[15], y[8+j], y[8+j])
			VMOVDQU(y[8+j], mem(d, 64*j+32*h))
		}
	}
	rows.next()
	ADDQ(I32(256), d)
	DECQ(n)
	JNE(LabelRef("loop"))
	ret()
}
