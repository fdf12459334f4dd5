package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// amx emits the bf16 product of tiles: C (32,32) in four accumulators, for each 32 of K two tiles of A (16 rows
// of 32 k) and two of B (16 pairs of k by 16 columns). Smaller tiles at the edges of C by the configuration.
func amx() {
	for _, m := range []int{2, 1} {
		for _, n := range []int{2, 1} {
			tiles(m, n)
			tilesParts(m, n)
		}
	}
	packAMX()
}

// tiles emits the product with m and n tiles of A and B: one strip of at most 16·m rows of C by panels. A's tile
// begins at a, rows aRow bytes apart; its next 32 k lie aStep bytes on. B's panels of blocks·16 pairs of 32 lie
// bPanel bytes apart. C continues where acc, else it begins with the bf16 of from, or where that is nil with zeros;
// where half is not nil, it is rounded into it. Both go by way of buf (32,32).
func tiles(m, n int) {
	fn(fmt.Sprintf("tiles%d%d", m, n), "func(config *[64]byte, panels, blocks int, a *uint16, aRow, aStep int, b *uint32, bPanel int, c *float32, ldc int, acc bool, from *uint16, ldf int, half *uint16, ldh, rows, cols int, buf *float32)")
	const a0, b0 = 4, 6 // tile registers; C has 0 to 3
	a, a1, aRow, aStep, b, bp, c, ldc, t, panels, stride, from, half := reg.RBX, reg.RAX, reg.RCX, reg.RDX, reg.RSI, reg.R12, reg.R8, reg.R9, reg.RDI, reg.R10, reg.R13, reg.R11, reg.R15
	Load(Param("config"), t)
	ldtilecfg(t)
	Load(Param("panels"), panels)
	Load(Param("aRow"), aRow)
	Load(Param("aStep"), aStep)
	Load(Param("b"), bp)
	Load(Param("c"), c)
	Load(Param("ldc"), ldc)
	Load(Param("from"), from)
	Load(Param("half"), half)
	MOVQ(U32(128), stride)
	Load(Param("cols"), t)
	MOVQ(I32(-1), b)
	BZHIQ(t, b, b)
	KMOVD(b.As32(), reg.K1)
	KSHIFTRD(Imm(16), reg.K1, reg.K2)
	eachTile := func(base, stride reg.GPPhysical, f func(tile int, base reg.GPPhysical, disp byte)) {
		tilesOfC(m, n, base, stride, t, f)
	}
	// Lines of the result that are far away come while the tiles work: the first panel's now, the next one's in each loop.
	Load(Param("rows"), t)
	TESTQ(half, half)
	JZ(LabelRef("float"))
	Load(Param("ldh"), a)
	MOVQ(half, a1)
	Label("ask")
	prefetchW(a1, 0)
	ADDQ(a, a1)
	DECQ(t)
	JNE(LabelRef("ask"))
	JMP(LabelRef("panel"))
	Label("float")
	askRows(n, c, ldc, t, a1)
	Label("panel")
	Load(Param("acc"), reg.DIB)
	TESTB(reg.DIB, reg.DIB)
	JZ(LabelRef("fresh"))
	eachTile(c, ldc, func(tile int, base reg.GPPhysical, disp byte) { tileLoad(tile, base, ldc, disp) })
	JMP(LabelRef("start"))
	Label("fresh")
	TESTQ(from, from)
	JZ(LabelRef("zero"))
	Load(Param("buf"), b)
	Load(Param("rows"), t)
	Load(Param("ldf"), a)
	MOVQ(from, a1)
	Label("widen")
	VPMOVZXWD_Z(mem(a1, 0), reg.K1, z[0])
	VPMOVZXWD_Z(mem(a1, 32), reg.K2, z[1])
	VPSLLD(Imm(16), z[0], z[0])
	VPSLLD(Imm(16), z[1], z[1])
	VMOVUPS(z[0], mem(b, 0))
	VMOVUPS(z[1], mem(b, 64))
	ADDQ(stride, b)
	ADDQ(a, a1)
	DECQ(t)
	JNE(LabelRef("widen"))
	ADDQ(Imm(64), from)
	Load(Param("buf"), b)
	eachTile(b, stride, func(tile int, base reg.GPPhysical, disp byte) { tileLoad(tile, base, stride, disp) })
	JMP(LabelRef("start"))
	Label("zero")
	for i := range m {
		for j := range n {
			tileZero(2*i + j)
		}
	}
	Label("start")
	Load(Param("a"), a)
	if m == 2 {
		MOVQ(aRow, a1)
		SHLQ(Imm(4), a1)
		ADDQ(a, a1)
	}
	MOVQ(bp, b)
	KMOVQ(panels, reg.K3)
	KMOVQ(ldc, reg.K4)
	TESTQ(half, half)
	JZ(LabelRef("nextFloat"))
	Load(Param("ldh"), ldc)
	nextOf(half, "half", 64, ldc, t, panels)
	JMP(LabelRef("blocks"))
	Label("nextFloat")
	nextOf(c, "c", 128, ldc, t, panels)
	Label("blocks")
	Load(Param("rows"), panels)
	Load(Param("blocks"), t)
	Label("loop")
	askSome(n, ldc, panels)
	tileLoad(a0, a, aRow, 0)
	for j := range n {
		tileLoad(b0+j, b, stride, byte(64*j))
		tileDot(j, a0, b0+j)
	}
	if m == 2 {
		tileLoad(a0+1, a1, aRow, 0)
		for j := range n {
			tileDot(2+j, a0+1, b0+j)
		}
		ADDQ(aStep, a1)
	}
	ADDQ(aStep, a)
	ADDQ(U32(2048), b)
	DECQ(t)
	JNE(LabelRef("loop"))
	KMOVQ(reg.K3, panels)
	KMOVQ(reg.K4, ldc)
	TESTQ(half, half)
	JNZ(LabelRef("round"))
	eachTile(c, ldc, func(tile int, base reg.GPPhysical, disp byte) { tileStore(tile, base, ldc, disp) })
	JMP(LabelRef("next"))
	Label("round")
	Load(Param("buf"), b)
	eachTile(b, stride, func(tile int, base reg.GPPhysical, disp byte) { tileStore(tile, base, stride, disp) })
	Load(Param("rows"), t)
	Load(Param("ldh"), a)
	MOVQ(half, a1)
	Label("row")
	VMOVUPS(mem(b, 0), z[0])
	VMOVUPS(mem(b, 64), z[1])
	narrow(1, 0, 0)
	VMOVDQU16(z[0], reg.K1, mem(a1, 0))
	ADDQ(stride, b)
	ADDQ(a, a1)
	DECQ(t)
	JNE(LabelRef("row"))
	ADDQ(Imm(64), half)
	Label("next")
	ADDQ(stride, c)
	Load(Param("bPanel"), t)
	ADDQ(t, bp)
	DECQ(panels)
	JNE(LabelRef("panel"))
	tileRelease()
	ret()
}

// tilesOfC has f load or store each of m by n tiles of C, whose rows are stride bytes apart from base on; it clobbers t.
func tilesOfC(m, n int, base, stride, t reg.GPPhysical, f func(tile int, base reg.GPPhysical, disp byte)) {
	for j := range n {
		f(j, base, byte(64*j))
	}
	if m == 2 {
		MOVQ(stride, t)
		SHLQ(Imm(4), t)
		ADDQ(base, t)
		for j := range n {
			f(2+j, t, byte(64*j))
		}
	}
}

// asking is where the next lines of the result are asked for.
var asking = reg.R14

// askRows asks for t lines of n tiles of the result from c on.
func askRows(n int, c, ldc, t, p reg.GPPhysical) {
	MOVQ(c, p)
	Label("askFloat")
	for j := range n {
		prefetchW(p, byte(64*j))
	}
	ADDQ(ldc, p)
	DECQ(t)
	JNE(LabelRef("askFloat"))
}

// nextOf sets asking to the panel after the one at p, bytes wide, or after the last to the first of the next strip: the parameter's, 32 rows on.
func nextOf(p reg.GPPhysical, param string, bytes uint32, ld, t, panels reg.GPPhysical) {
	LEAQ(mem(p, int(bytes)), asking)
	CMPQ(panels, Imm(1))
	JNE(LabelRef(param + "Within"))
	MOVQ(ld, t)
	SHLQ(Imm(5), t)
	Load(Param(param), asking)
	ADDQ(t, asking)
	Label(param + "Within")
}

// askSome asks for the next four of rows lines, all at once would keep the tiles' own waiting.
func askSome(n int, ld, rows reg.GPPhysical) {
	CMPQ(rows, Imm(0))
	JLE(LabelRef("enough"))
	for range 4 {
		for j := range n {
			prefetchW(asking, byte(64*j))
		}
		ADDQ(ld, asking)
	}
	SUBQ(Imm(4), rows)
	Label("enough")
}

// tilesParts emits tiles for operands in three parts, C in float32 alone: one panel of B by strips of at most 16·m rows, of which the next begins aStrip bytes
// on. For each 32 of K there are three tiles of A for each 16 rows, and of B two for each part, 1 KiB each, one after the other; the products of parts come
// smallest first.
func tilesParts(m, n int) {
	fn(fmt.Sprintf("tiles%d%dParts", m, n), "func(config *[64]byte, strips, blocks int, a *uint16, aStep, aStrip int, b *uint32, c *float32, ldc int, acc bool, rows int)")
	const a0, b0 = 4, 6 // tile registers; C has 0 to 3
	a, a1, aStep, b, ap, c, ldc, t, strips, stride, lines := reg.RBX, reg.RAX, reg.RDX, reg.RSI, reg.R12, reg.R8, reg.R9, reg.RDI, reg.R10, reg.R13, reg.R11
	Load(Param("config"), t)
	ldtilecfg(t)
	Load(Param("strips"), strips)
	Load(Param("aStep"), aStep)
	Load(Param("a"), ap)
	Load(Param("c"), c)
	Load(Param("ldc"), ldc)
	MOVQ(U32(64), stride)
	Load(Param("rows"), t)
	askRows(n, c, ldc, t, a1)
	Label("strip")
	Load(Param("acc"), reg.DIB)
	TESTB(reg.DIB, reg.DIB)
	JZ(LabelRef("zero"))
	tilesOfC(m, n, c, ldc, t, func(tile int, base reg.GPPhysical, disp byte) { tileLoad(tile, base, ldc, disp) })
	JMP(LabelRef("start"))
	Label("zero")
	for i := range m {
		for j := range n {
			tileZero(2*i + j)
		}
	}
	Label("start")
	MOVQ(ap, a)
	Load(Param("b"), b)
	Load(Param("rows"), lines)
	MOVQ(ldc, asking)
	SHLQ(Imm(5), asking)
	ADDQ(c, asking)
	CMPQ(strips, Imm(1))
	JNE(LabelRef("within"))
	Load(Param("c"), asking) // the next panel's first strip
	SUBQ(I8(-128), asking)
	Label("within")
	Load(Param("blocks"), t)
	Label("loop")
	askSome(n, ldc, lines)
	left, right, ahead := -1, -1, 6*1024
	for _, parts := range [][2]int{{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}} {
		for i := range m {
			if parts[0] != left {
				tileLoadFar(a0+i, a, stride, 1024*(3*i+parts[0]))
			}
		}
		for j := range n {
			if parts[1] != right {
				tileLoadFar(b0+j, b, stride, 1024*(2*parts[1]+j))
			}
		}
		left, right = parts[0], parts[1]
		for i := range m {
			for j := range n {
				tileDot(2*i+j, a0+i, b0+j)
				for range 16 / m / n { // the next 32 of K, or the next panel's first
					PREFETCHT0(mem(b, ahead))
					ahead += 64
				}
			}
		}
	}
	ADDQ(aStep, a)
	ADDQ(U32(6*1024), b)
	DECQ(t)
	JNE(LabelRef("loop"))
	tilesOfC(m, n, c, ldc, t, func(tile int, base reg.GPPhysical, disp byte) { tileStore(tile, base, ldc, disp) })
	MOVQ(ldc, t)
	SHLQ(Imm(5), t)
	ADDQ(t, c)
	Load(Param("aStrip"), t)
	ADDQ(t, ap)
	DECQ(strips)
	JNE(LabelRef("strip"))
	tileRelease()
	ret()
}

// Go's assembler does not know the instructions below; here are their bytes: Intel SDM volume 2.

// code emits bytes.
func code(bytes ...byte) {
	for _, b := range bytes {
		Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(b)}})
	}
}

var numbers = map[reg.GPPhysical]byte{reg.RAX: 0, reg.RCX: 1, reg.RDX: 2, reg.RBX: 3, reg.RSI: 6, reg.RDI: 7,
	reg.R8: 8, reg.R9: 9, reg.R10: 10, reg.R11: 11, reg.R12: 12, reg.R13: 13, reg.R14: 14, reg.R15: 15}

// ldtilecfg is LDTILECFG of the 64 bytes at p, VEX.128.NP.0F38.W0 49 /0.
func ldtilecfg(p reg.GPPhysical) { code(0xC4, 0xE2, 0x78, 0x49, numbers[p]) }

// sib emits VEX.128.pp.0F38.W0 4B of a tile and the memory at base+disp, rows stride bytes apart.
func sib(pp byte, tile int, base, stride reg.GPPhysical, disp byte) {
	b, s := numbers[base], numbers[stride]
	code(0xC4, 0xE2^(b>>3<<5)^(s>>3<<6), 0x78|pp, 0x4B, 0x44|byte(tile)<<3, s&7<<3|b&7, disp)
}

// tileLoadFar is tileLoad with a displacement of four bytes.
func tileLoadFar(tile int, base, stride reg.GPPhysical, disp int) {
	b, s := numbers[base], numbers[stride]
	code(0xC4, 0xE2^(b>>3<<5)^(s>>3<<6), 0x7B, 0x4B, 0x84|byte(tile)<<3, s&7<<3|b&7, byte(disp), byte(disp>>8), 0, 0)
}

func tileLoad(tile int, base, stride reg.GPPhysical, disp byte)  { sib(3, tile, base, stride, disp) } // TILELOADD
func tileStore(tile int, base, stride reg.GPPhysical, disp byte) { sib(2, tile, base, stride, disp) } // TILESTORED

// prefetchW is PREFETCHW of the line at base+disp, 0F 0D /1.
func prefetchW(base reg.GPPhysical, disp byte) {
	code(0x40|numbers[base]>>3, 0x0F, 0x0D, 0x48|numbers[base]&7, disp)
}

// tileZero is TILEZERO, VEX.128.F2.0F38.W0 49.
func tileZero(tile int) { code(0xC4, 0xE2, 0x7B, 0x49, 0xC0|byte(tile)<<3) }

// tileDot is TDPBF16PS c += a·b, VEX.128.F3.0F38.W0 5C.
func tileDot(c, a, b int) { code(0xC4, 0xE2, byte(^b&15)<<3|2, 0x5C, 0xC0|byte(c)<<3|byte(a)) }

// tileDotBytes is TDPBSSD c += a·b of signed bytes, VEX.128.F2.0F38.W0 5E.
func tileDotBytes(c, a, b int) { code(0xC4, 0xE2, byte(^b&15)<<3|3, 0x5E, 0xC0|byte(c)<<3|byte(a)) }

// tileRelease is TILERELEASE, VEX.128.NP.0F38.W0 49 C0.
func tileRelease() { code(0xC4, 0xE2, 0x78, 0x49, 0xC0) }

// narrow is VCVTNE2PS2BF16: dst becomes the bf16 of lo's 16 floats, then of hi's, nearest even and denormals zero.
// EVEX.512.F2.0F38.W0 72 /r.
func narrow(hi, lo, dst int) { evex(0x07, 0x72, lo, hi, dst) }

// evex emits EVEX.512.0F38.W0 with registers alone; p1 has the mandatory prefix.
func evex(p1, opcode byte, rm, vvvv, dst int) {
	not := func(n, bit int) byte { return byte(^n >> bit & 1) }
	code(0x62, 0x02|not(dst, 3)<<7|not(rm, 4)<<6|not(rm, 3)<<5|not(dst, 4)<<4, p1|byte(^vvvv&15)<<3, 0x40|not(vvvv, 4)<<3,
		opcode, 0xC0|byte(dst&7)<<3|byte(rm&7))
}
