package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packAMX emits packing for tiles. A dword holds two k, the earlier in the low half.
func packAMX() {
	table("weave", 2, func(i int) int { return i/2 + i%2*16 }) // words: 0, 16, 1, 17, …
	table("first", 8, func(i int) int { return i/4*2 + i%2 + i/2%2*8 })
	table("last", 8, func(i int) int { return i/4*2 + i%2 + i/2%2*8 + 4 })
	tileARound()
	tileACols(halves)
	tileACols(rounded)
	tileBCols(halves)
	tileBCols(rounded)
	for _, n := range []int{1, 4} {
		tileBRows(halves, n)
		tileBRows(rounded, n)
	}
}

// table makes the constant of a register of indices of size bytes.
func table(name string, size int, f func(i int) int) {
	m := GLOBL(setName(name), RODATA|NOPTR)
	for i := range 64 / size {
		if size == 2 {
			DATA(size*i, U16(uint16(f(i))))
		} else {
			DATA(size*i, U64(uint64(f(i))))
		}
	}
	consts[name] = m
}

func amxName(base string, src source) string {
	if src == rounded {
		return base + "Round"
	}
	return base
}

// tileARound rounds one row of kc floats into lines of 32 k, step bytes apart, the last filled up with zeros.
func tileARound() {
	fn("tileARound", "func(kc int, src *float32, dst *uint16, step int)")
	kc, s, d, step, t := reg.RAX, reg.RBX, reg.RDX, reg.RCX, reg.RDI
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("dst"), d)
	Load(Param("step"), step)
	SUBQ(Imm(32), kc)
	JL(LabelRef("tail"))
	Label("loop")
	VMOVUPS(mem(s, 0), z[0])
	VMOVUPS(mem(s, 64), z[1])
	narrow(1, 0, 0)
	VMOVDQU16(z[0], mem(d, 0))
	SUBQ(I8(-128), s)
	ADDQ(step, d)
	SUBQ(Imm(32), kc)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(Imm(32), kc)
	JZ(LabelRef("done"))
	kMask(kc, t, reg.K1)
	KSHIFTRD(Imm(16), reg.K1, reg.K2)
	VMOVUPS_Z(mem(s, 0), reg.K1, z[0])
	VMOVUPS_Z(mem(s, 64), reg.K2, z[1])
	narrow(1, 0, 0)
	VMOVDQU16(z[0], mem(d, 0))
	Label("done")
	ret()
}

// tileACols turns kc (1 to 32) steps, ld bytes apart, of rows adjacent elements into rows of 32 k, 64 bytes each,
// filled up with zeros: 1 to 32 rows of bf16, or 1 to 16 of float32.
func tileACols(src source) {
	read, size := src.reads()
	fn(amxName("tileACols", src), "func(kc int, src "+read+", ld, rows int, dst *uint16)")
	kc, s, ld, rows, d, p := reg.RAX, reg.RBX, reg.RCX, reg.RSI, reg.RDX, reg.R8
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("rows"), rows)
	Load(Param("dst"), d)
	all := 64 / size // elements in a register
	// block makes rows from the low (or high) halves of each 128-bit part of pairs of steps.
	block := func(masked, high bool, tag string) {
		load := func(k int, r reg.VecPhysical) {
			switch {
			case !masked:
				VMOVDQU16(mem(p, 0), r)
			case src == rounded:
				VMOVUPS_Z(mem(p, 0), reg.K1, r)
			default:
				VMOVDQU16_Z(mem(p, 0), reg.K1, r)
			}
			ADDQ(ld, p)
		}
		MOVQ(s, p)
		if src == rounded {
			VMOVUPS(consts["weave"], z[31])
		}
		if masked {
			for i := range 16 {
				zero(z[i])
			}
		}
		for i := range 16 {
			even, odd := z[16+2*(i%4)], z[17+2*(i%4)]
			if masked {
				zero(odd)
				CMPQ(kc, Imm(uint64(2*i)))
				JLE(LabelRef(tag + "loaded"))
				load(2*i, even)
				CMPQ(kc, Imm(uint64(2*i+1)))
				JLE(LabelRef(fmt.Sprintf("%sodd%d", tag, i)))
				load(2*i+1, odd)
				Label(fmt.Sprintf("%sodd%d", tag, i))
			} else {
				load(2*i, even)
				load(2*i+1, odd)
			}
			switch {
			case src == rounded:
				narrow(17+2*(i%4), 16+2*(i%4), 16+2*(i%4))
				VPERMW(even, z[31], z[i])
			case high:
				VPUNPCKHWD(odd, even, z[i])
			default:
				VPUNPCKLWD(odd, even, z[i])
			}
		}
		if masked {
			Label(tag + "loaded")
		}
		turn(16, func(r reg.VecPhysical, part, e int) {
			row := 4*part + e
			if src == halves {
				row = 8*part + e
				if high {
					row += 4
				}
			}
			after := ""
			if masked && row > 0 {
				after = fmt.Sprintf("%safter%d", tag, row)
				CMPQ(rows, Imm(uint64(row)))
				JLE(LabelRef(after))
			}
			VMOVUPS(r, mem(d, 64*row))
			if after != "" {
				Label(after)
			}
		})
	}
	CMPQ(kc, Imm(32))
	JNE(LabelRef("part"))
	CMPQ(rows, Imm(uint64(all)))
	JNE(LabelRef("part"))
	block(false, false, "wholeLow")
	if src == halves {
		block(false, true, "wholeHigh")
	}
	ret()
	Label("part")
	kMask(rows, reg.RDI, reg.K1)
	block(true, false, "low")
	if src == halves {
		block(true, true, "high")
	}
	ret()
}

// tileBCols turns lines (1 to 16) of kc adjacent elements, ld bytes apart, into half a panel: a step of 32 dwords
// has one of every line. Absent lines repeat the last; steps are filled up with zeros to a multiple of 16.
func tileBCols(src source) {
	read, size := src.reads()
	fn(amxName("tileBCols", src), "func(kc int, src "+read+", ld, lines int, dst *uint32)")
	kc, s, ld, lines, d, p, t, none := reg.RAX, reg.RBX, reg.RCX, reg.RSI, reg.RDX, reg.R8, reg.RDI, reg.R9
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("lines"), lines)
	Load(Param("dst"), d)
	XORQ(none, none)
	block := func(masked bool) {
		MOVQ(s, p)
		for r := range 16 {
			switch {
			case src == halves && masked:
				VMOVDQU16_Z(mem(p, 0), reg.K1, z[r])
			case src == halves:
				VMOVDQU16(mem(p, 0), z[r])
			case masked:
				VMOVUPS_Z(mem(p, 0), reg.K1, z[16+r])
				VMOVUPS_Z(mem(p, 64), reg.K2, z[r])
				narrow(r, 16+r, r)
			default:
				VMOVUPS(mem(p, 0), z[16+r])
				VMOVUPS(mem(p, 64), z[r])
				narrow(r, 16+r, r)
			}
			if r < 15 {
				MOVQ(ld, t)
				CMPQ(lines, Imm(uint64(r+1)))
				CMOVQLE(none, t)
				ADDQ(t, p)
			}
		}
		turn(16, func(r reg.VecPhysical, part, e int) { VMOVUPS(r, mem(d, 128*(4*part+e))) })
	}
	SUBQ(Imm(32), kc)
	JL(LabelRef("tail"))
	Label("loop")
	block(false)
	ADDQ(I32(32*size), s)
	ADDQ(I32(16*128), d)
	SUBQ(Imm(32), kc)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(Imm(32), kc)
	JZ(LabelRef("done"))
	kMask(kc, t, reg.K1)
	if src == rounded {
		KSHIFTRD(Imm(16), reg.K1, reg.K2)
	}
	block(true)
	Label("done")
	ret()
}

// tileBRows joins kc rows, ld bytes apart, into steps of n panels of 32 columns, stride bytes apart; where kc is
// odd the last row is joined with zeros. With one panel, cols of its columns exist; the others are zeros.
func tileBRows(src source, n int) {
	read, size := src.reads()
	name := amxName("tileBRows", src)
	if n == 1 {
		fn(name, "func(kc int, src "+read+", ld, cols int, dst *uint32)")
	} else {
		fn(fmt.Sprintf("%s%d", name, n), "func(kc int, src "+read+", ld int, dst *uint32, stride int)")
	}
	kc, s, ld, d := columns512(n)
	next := reg.RDI
	if n == 1 && src == halves {
		KSHIFTLD(Imm(16), reg.K2, reg.K2)
		KORD(reg.K1, reg.K2, reg.K1)
	}
	VMOVUPS(consts["weave"], z[31])
	VMOVUPS(consts["first"], z[30])
	VMOVUPS(consts["last"], z[29])
	join := func(last bool) {
		if !last {
			LEAQ(Mem{Base: s, Index: ld, Scale: 1}, next)
		}
		for i := range n {
			r := z[8*(i%3):]
			at := 8 * (i % 3)
			load := func(base reg.GPPhysical, to, g int) {
				m := mem(base, 32*size*i+64*g)
				k := []reg.OpmaskPhysical{reg.K1, reg.K2}[g]
				switch {
				case n > 1 && src == halves:
					VMOVDQU16(m, r[to])
				case n > 1:
					VMOVUPS(m, r[to])
				case src == halves:
					VMOVDQU16_Z(m, k, r[to])
				default:
					VMOVUPS_Z(m, k, r[to])
				}
			}
			if src == halves {
				load(s, 0, 0)
				if last {
					zero(r[1])
				} else {
					load(next, 1, 0)
				}
				VPUNPCKLWD(r[1], r[0], r[2])
				VPUNPCKHWD(r[1], r[0], r[3])
				VMOVAPS(z[30], r[4])
				VMOVAPS(z[29], r[5])
				VPERMI2Q(r[3], r[2], r[4])
				VPERMI2Q(r[3], r[2], r[5])
			} else {
				for g := range 2 {
					load(s, 0, g)
					if last {
						zero(r[1])
					} else {
						load(next, 1, g)
					}
					narrow(at+1, at, at)
					VPERMW(r[0], z[31], r[4+g])
				}
			}
			VMOVUPS(r[4], mem(d[i], 0))
			VMOVUPS(r[5], mem(d[i], 64))
			SUBQ(I8(-128), d[i])
			if n > 1 && !last {
				for at := 0; at < 32*size; at += 64 {
					PREFETCHT0(Mem{Base: s, Index: ld, Scale: 8, Disp: 32*size*i + at})
					PREFETCHT0(Mem{Base: next, Index: ld, Scale: 8, Disp: 32*size*i + at})
				}
			}
		}
	}
	SUBQ(Imm(2), kc)
	JL(LabelRef("odd"))
	Label("loop")
	join(false)
	LEAQ(Mem{Base: s, Index: ld, Scale: 2}, s)
	SUBQ(Imm(2), kc)
	JGE(LabelRef("loop"))
	Label("odd")
	CMPQ(kc, I8(-1))
	JNE(LabelRef("done"))
	join(true)
	Label("done")
	ret()
}
