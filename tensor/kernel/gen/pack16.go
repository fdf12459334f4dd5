package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pack16 emits packing into pairs of bf16, in panels of 16.
func pack16() {
	swap := GLOBL("avx2_swap", RODATA|NOPTR) // the words of each dword change places
	for i := range 8 {
		b := uint32(4 * (i % 4))
		DATA(4*i, U32(b+2|(b+3)<<8|b<<16|(b+1)<<24))
	}
	consts["swap"] = swap
	transpose8("packBPairCols", halves)
	packPairs("packBPairRows", halves, 1)
	packPairs("packBPairRows4", halves, 4)
	packPairs("packBRoundRows", rounded, 1)
	packPairs("packBRoundRows4", rounded, 4)
	packAHalfCols()
}

// packPairs joins kc rows, ld bytes apart, into steps of pairs in n panels of 16 columns, stride bytes
// apart; where kc is odd the last row is joined with zeros. One panel of rounded takes 1 to 16 columns and
// fills up with zeros, others take 16.
func packPairs(name string, src source, n int) {
	masked := n == 1 && src == rounded
	read, size := src.reads()
	switch {
	case masked:
		fn(name, "func(kc int, src *float32, ld, cols int, dst *uint32)")
	case n == 1:
		fn(name, "func(kc int, src "+read+", ld int, dst *uint32)")
	default:
		fn(name, "func(kc int, src "+read+", ld int, dst *uint32, stride int)")
	}
	kc, s, ld, next := reg.RAX, reg.RBX, reg.RCX, reg.RDX
	d := pointers
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("dst"), d[0])
	if masked {
		halfMasks()
	}
	if n > 1 {
		Load(Param("stride"), reg.RSI)
		for i := 1; i < n; i++ {
			LEAQ(Mem{Base: d[i-1], Index: reg.RSI, Scale: 1}, d[i])
		}
	}
	turn := func(last bool) {
		if !last {
			LEAQ(Mem{Base: s, Index: ld, Scale: 1}, next)
		}
		for i := range n {
			for g := range 2 {
				disp := 8 * size * (2*i + g)
				load := func(m Mem, r reg.VecPhysical) {
					switch {
					case src == halves:
						VPMOVZXWD(m, r)
					case masked:
						VMASKMOVPS(m, y[14+g], r)
					default:
						VMOVUPS(m, r)
					}
				}
				hi, lo := y[6*g], y[6*g+1]
				load(mem(s, disp), hi)
				if last {
					zero(lo)
				} else {
					load(mem(next, disp), lo)
				}
				if src == rounded {
					roundNearest(hi, y[6*g+2], y[6*g+3], y[6*g+4])
					VPAND(consts["high"], hi, hi)
					roundNearest(lo, y[6*g+2], y[6*g+3], y[6*g+4])
					VPSRLD(Imm(16), lo, lo)
				} else {
					VPSLLD(Imm(16), hi, hi)
				}
				VPOR(lo, hi, hi)
				VMOVDQU(hi, mem(d[i], 32*g))
			}
			if n > 1 && !last {
				PREFETCHT0(Mem{Base: s, Index: ld, Scale: 8, Disp: 16 * size * i})
				PREFETCHT0(Mem{Base: next, Index: ld, Scale: 8, Disp: 16 * size * i})
			}
			ADDQ(Imm(64), d[i])
		}
	}
	SUBQ(Imm(2), kc)
	JL(LabelRef("odd"))
	Label("loop")
	turn(false)
	LEAQ(Mem{Base: s, Index: ld, Scale: 2}, s)
	SUBQ(Imm(2), kc)
	JGE(LabelRef("loop"))
	Label("odd")
	CMPQ(kc, I8(-1))
	JNE(LabelRef("done"))
	turn(true)
	Label("done")
	ret()
}

// packAHalfCols widens kc steps, ld bytes apart, of 6 adjacent bf16: it reads 8, and writes 8 bytes past the
// last step.
func packAHalfCols() {
	fn("packAHalfCols", "func(kc int, src *uint16, ld int, dst *float32)")
	Load(Param("kc"), reg.RAX)
	Load(Param("src"), reg.RBX)
	Load(Param("ld"), reg.RCX)
	Load(Param("dst"), reg.RDX)
	Label("loop")
	VPMOVZXWD(mem(reg.RBX, 0), y[0])
	VPSLLD(Imm(16), y[0], y[0])
	VMOVUPS(y[0], mem(reg.RDX, 0))
	ADDQ(reg.RCX, reg.RBX)
	ADDQ(Imm(24), reg.RDX)
	DECQ(reg.RAX)
	JNE(LabelRef("loop"))
	ret()
}
