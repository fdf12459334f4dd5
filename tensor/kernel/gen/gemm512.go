package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile512 is the rows of a tile of 32 columns: 24 accumulators, and registers left for B and for A's values.
const tile512 = 12

// gemm512 emits micro-kernels of 1 to 12 rows by 32 columns over packed panels of B: float32 with A by rows or by
// columns, and bf16 pairs with A by columns. Every four steps they ask for a line from next on, the panel of B that
// follows: without it the first tile of a panel waits for L3 (6 to 10% of the whole).
func gemm512() {
	for _, kind := range []string{"Rows", "Cols", "Pairs"} {
		for rows := 1; rows <= tile512; rows++ {
			micro512(rows, kind)
		}
	}
	tiles512()
}

// tiles512 emits the ways of a tile of 32 columns between float32 and bf16; ld are bytes.
func tiles512() {
	rows, c, ldc, h, ldh := reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI
	for _, rounds := range []bool{true, false} {
		name := "widenTile"
		if rounds {
			name = "roundTile"
		}
		fn(name, "func(rows int, c *float32, ldc int, h *uint16, ldh int)")
		Load(Param("rows"), rows)
		Load(Param("c"), c)
		Load(Param("ldc"), ldc)
		Load(Param("h"), h)
		Load(Param("ldh"), ldh)
		Label("row")
		if rounds {
			VMOVUPS(mem(c, 0), z[0])
			VMOVUPS(mem(c, 64), z[1])
			narrow(1, 0, 2)
			VMOVUPS(z[2], mem(h, 0))
		} else {
			for i := range 2 {
				VPMOVZXWD(mem(h, 32*i), z[i])
				VPSLLD(Imm(16), z[i], z[i])
				VMOVUPS(z[i], mem(c, 64*i))
			}
		}
		ADDQ(ldc, c)
		ADDQ(ldh, h)
		DECQ(rows)
		JNE(LabelRef("row"))
		ret()
	}
}

func micro512(rows int, kind string) {
	const unroll = 4
	pairs := kind == "Pairs"
	if pairs {
		fn(fmt.Sprintf("micro%s%d", kind, rows), "func(kc int, a *float32, lda int, b *uint16, c *float32, ldc int, acc bool, next *float32)")
	} else {
		fn(fmt.Sprintf("micro%s%d", kind, rows), "func(kc int, a *float32, lda int, b, c *float32, ldc int, acc bool, next *float32)")
	}
	kc, b, c, ldc, t, next := reg.RAX, reg.RCX, reg.RDX, reg.RSI, reg.RDI, reg.R8
	Load(Param("kc"), kc)
	a := lhsOf(kind == "Rows", rows)
	Load(Param("b"), b)
	Load(Param("c"), c)
	Load(Param("ldc"), ldc)
	Load(Param("next"), next)
	SHLQ(Imm(2), ldc)
	Load(Param("acc"), reg.DIB)
	TESTB(reg.DIB, reg.DIB)
	JZ(LabelRef("fresh"))
	eachRow := func(f func(r int, lo, hi Mem)) {
		MOVQ(c, t)
		for r := range rows {
			f(r, mem(t, 0), mem(t, 64))
			if r < rows-1 {
				ADDQ(ldc, t)
			}
		}
	}
	eachRow(func(r int, lo, hi Mem) {
		VMOVUPS(lo, z[2*r])
		VMOVUPS(hi, z[2*r+1])
	})
	JMP(LabelRef("start"))
	Label("fresh")
	eachRow(func(r int, lo, hi Mem) {
		PREFETCHT0(lo)
		PREFETCHT0(hi)
		zero(z[2*r])
		zero(z[2*r+1])
	})
	Label("start")
	if rows == tile512 { // the tile below is next: it may start from its C
		for range tile512 {
			ADDQ(ldc, t)
			PREFETCHT0(mem(t, 0))
			PREFETCHT0(mem(t, 64))
		}
	}
	step := func(u int) {
		b0, b1 := 24+2*(u%2), 25+2*(u%2)
		VMOVUPS(mem(b, 128*u), z[b0])
		VMOVUPS(mem(b, 128*u+64), z[b1])
		for r := range rows {
			v := 28 + r%4
			VBROADCASTSS(a.at(r, u), z[v])
			if pairs {
				dotPairs(b0, v, 2*r)
				dotPairs(b1, v, 2*r+1)
			} else {
				VFMADD231PS(z[b0], z[v], z[2*r])
				VFMADD231PS(z[b1], z[v], z[2*r+1])
			}
		}
	}
	MOVQ(kc, t)
	SHRQ(Imm(2), t)
	JZ(LabelRef("tail"))
	Label("loop")
	PREFETCHT1(mem(next, 0))
	ADDQ(Imm(64), next)
	for u := range unroll {
		step(u)
		a.stepped(u)
	}
	a.ahead(unroll)
	ADDQ(I32(128*unroll), b)
	DECQ(t)
	JNE(LabelRef("loop"))
	Label("tail")
	ANDQ(Imm(unroll-1), kc)
	JZ(LabelRef("done"))
	Label("one")
	step(0)
	a.one()
	ADDQ(I32(128), b)
	DECQ(kc)
	JNE(LabelRef("one"))
	Label("done")
	eachRow(func(r int, lo, hi Mem) {
		VMOVUPS(z[2*r], lo)
		VMOVUPS(z[2*r+1], hi)
	})
	ret()
}

// dotPairs is VDPBF16PS: dst += the high bf16 of a·b, then the low. Go's assembler does not know it, so here
// are its bytes, EVEX.512.F3.0F38.W0 52 /r: Intel SDM volume 2, section 2.7.
func dotPairs(rm, vvvv, dst int) {
	not := func(n, bit int) byte { return byte(^n >> bit & 1) }
	p0 := 0x02 | not(dst, 3)<<7 | not(rm, 4)<<6 | not(rm, 3)<<5 | not(dst, 4)<<4
	p1 := 0x06 | byte(^vvvv&15)<<3
	p2 := 0x40 | not(vvvv, 4)<<3
	modrm := byte(0xC0 | dst&7<<3 | rm&7)
	word := func(b ...byte) (w uint32) {
		for i, b := range b {
			w |= uint32(b) << (8 * i)
		}
		return w
	}
	Instruction(&ir.Instruction{Opcode: "LONG", Operands: []Op{U32(word(0x62, p0, p1, p2))}})
	Instruction(&ir.Instruction{Opcode: "WORD", Operands: []Op{U16(uint16(word(0x52, modrm)))}})
}
