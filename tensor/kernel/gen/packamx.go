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
	table("half", 4, func(int) int { return 0x8000 })
	table("upper", 4, func(int) int { return 0xffff0000 })
	tileARound(rounded)
	tileARound(parted)
	for _, src := range []source{halves, rounded, parted} {
		tileACols(src)
		tileBCols(src)
		for _, n := range []int{1, 4} {
			tileBRows(src, n)
		}
	}
}

// parts is how many bf16 a float becomes: as many tiles, one after the other.
func (s source) parts() int {
	if s == parted {
		return 3
	}
	return 1
}

// toHalves makes bf16 of the floats in x0 and x1, in dst's lower and upper half, in as many ways as src has parts: all of them, each followed
// by put, or with only >= 0 that one. The nearest bf16 of a float (halfway away from zero) is its first part, that of what is left the next;
// then eight bits are left at most, which are the last. h0 and h1 are room; x0 and x1 are lost.
func toHalves(src source, only, x0, x1, h0, h1, dst int, put func(part int)) {
	if src != parted {
		narrow(x1, x0, dst)
		put(0)
		return
	}
	for part := range 3 {
		if only >= 0 && part > only {
			return
		}
		asked := only < 0 || part == only
		if part == 2 {
			narrow(x1, x0, dst)
		} else {
			for _, r := range [][2]int{{x0, h0}, {x1, h1}} {
				VPADDD(consts["half"], z[r[0]], z[r[1]])
				VPANDD(consts["upper"], z[r[1]], z[r[1]])
				if !asked || only < 0 {
					VSUBPS(z[r[1]], z[r[0]], z[r[0]])
				}
			}
			if asked {
				narrow(h1, h0, dst)
			}
		}
		if asked {
			put(part)
		}
	}
}

// table makes the constant of a register of indices of size bytes.
func table(name string, size int, f func(i int) int) {
	m := GLOBL(setName(name), RODATA|NOPTR)
	for i := range 64 / size {
		switch size {
		case 2:
			DATA(size*i, U16(uint16(f(i))))
		case 4:
			DATA(size*i, U32(uint32(f(i))))
		default:
			DATA(size*i, U64(uint64(f(i))))
		}
	}
	consts[name] = m
}

func amxName(base string, src source) string {
	switch src {
	case rounded:
		return base + "Round"
	case parted:
		return base + "Parts"
	}
	return base
}

// tileARound rounds one row of kc floats into lines of 32 k, step bytes apart, the last filled up with zeros; lines of parts lie
// 1 KiB apart.
func tileARound(src source) {
	fn(map[source]string{rounded: "tileARound", parted: "tileAParts"}[src], "func(kc int, src *float32, dst *uint16, step int)")
	kc, s, d, step, t := reg.RAX, reg.RBX, reg.RDX, reg.RCX, reg.RDI
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("dst"), d)
	Load(Param("step"), step)
	write := func() { toHalves(src, -1, 0, 1, 2, 3, 4, func(part int) { VMOVDQU16(z[4], mem(d, 1024*part)) }) }
	SUBQ(Imm(32), kc)
	JL(LabelRef("tail"))
	Label("loop")
	VMOVUPS(mem(s, 0), z[0])
	VMOVUPS(mem(s, 64), z[1])
	write()
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
	write()
	Label("done")
	ret()
}

// tileACols turns kc (1 to 32) steps, ld bytes apart, of rows adjacent elements into rows of 32 k, 64 bytes each,
// filled up with zeros: 1 to 32 rows of bf16, or 1 to 16 of float32, whose parts lie 1 KiB apart.
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
	// block makes rows from the low (or high) halves of each 128-bit part of pairs of steps, or one part of their floats.
	block := func(masked, high bool, only int, tag string) {
		load := func(k int, r reg.VecPhysical) {
			switch {
			case !masked:
				VMOVDQU16(mem(p, 0), r)
			case src != halves:
				VMOVUPS_Z(mem(p, 0), reg.K1, r)
			default:
				VMOVDQU16_Z(mem(p, 0), reg.K1, r)
			}
			ADDQ(ld, p)
		}
		MOVQ(s, p)
		if src != halves {
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
			case src != halves:
				toHalves(src, only, 16+2*(i%4), 17+2*(i%4), 24+2*(i%3), 25+2*(i%3), 16+2*(i%4), func(int) { VPERMW(even, z[31], z[i]) })
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
			VMOVUPS(r, mem(d, 64*row+1024*only))
			if after != "" {
				Label(after)
			}
		})
	}
	CMPQ(kc, Imm(32))
	JNE(LabelRef("part"))
	CMPQ(rows, Imm(uint64(all)))
	JNE(LabelRef("part"))
	for part := range src.parts() {
		block(false, false, part, fmt.Sprintf("whole%d", part))
	}
	if src == halves {
		block(false, true, 0, "wholeHigh")
	}
	ret()
	Label("part")
	kMask(rows, reg.RDI, reg.K1)
	for part := range src.parts() {
		block(true, false, part, fmt.Sprintf("part%d", part))
	}
	if src == halves {
		block(true, true, 0, "high")
	}
	ret()
}

// tileBCols turns lines (1 to 16) of kc adjacent elements, ld bytes apart, into half a panel: a step of 32 dwords, or one
// of 16 in a tile for each part and half, has one of every line. Absent lines repeat the last; steps are filled up with zeros to a multiple of 16.
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
	at := func(step, part int) int {
		if src == parted {
			return 64*step + 2048*part
		}
		return 128 * step
	}
	part := func(masked bool, only int) {
		MOVQ(s, p)
		for r := range 16 {
			x := 16 + 4*(r%4)
			switch {
			case src == halves && masked:
				VMOVDQU16_Z(mem(p, 0), reg.K1, z[r])
			case src == halves:
				VMOVDQU16(mem(p, 0), z[r])
			case masked:
				VMOVUPS_Z(mem(p, 0), reg.K1, z[x])
				VMOVUPS_Z(mem(p, 64), reg.K2, z[x+1])
			default:
				VMOVUPS(mem(p, 0), z[x])
				VMOVUPS(mem(p, 64), z[x+1])
			}
			if src != halves {
				toHalves(src, only, x, x+1, x+2, x+3, r, func(int) {})
			}
			if r < 15 {
				MOVQ(ld, t)
				CMPQ(lines, Imm(uint64(r+1)))
				CMOVQLE(none, t)
				ADDQ(t, p)
			}
		}
		turn(16, func(r reg.VecPhysical, part, e int) { VMOVUPS(r, mem(d, at(4*part+e, only))) })
	}
	block := func(masked bool) {
		for only := range src.parts() {
			part(masked, only)
		}
	}
	SUBQ(Imm(32), kc)
	JL(LabelRef("tail"))
	Label("loop")
	block(false)
	ADDQ(I32(32*size), s)
	ADDQ(U32(uint32(16*128*src.parts())), d)
	SUBQ(Imm(32), kc)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(Imm(32), kc)
	JZ(LabelRef("done"))
	kMask(kc, t, reg.K1)
	if src != halves {
		KSHIFTRD(Imm(16), reg.K1, reg.K2)
	}
	block(true)
	Label("done")
	ret()
}

// tileBRows joins kc rows, ld bytes apart, into steps of n panels of 32 columns, stride bytes apart, or at most 32 rows into such tiles; where kc is
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
			r := z[7*(i%4):] // the rest is constants
			at := 7 * (i % 4)
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
				VMOVUPS(r[4], mem(d[i], 0))
				VMOVUPS(r[5], mem(d[i], 64))
			} else {
				for g := range 2 {
					load(s, 0, g)
					if last {
						zero(r[1])
					} else {
						load(next, 1, g)
					}
					toHalves(src, -1, at, at+1, at+2, at+3, at+4+g, func(part int) {
						VPERMW(r[4+g], z[31], r[4+g])
						VMOVUPS(r[4+g], mem(d[i], map[bool]int{true: 2048*part + 1024*g, false: 64 * g}[src == parted]))
					})
				}
			}
			ADDQ(U32(map[bool]uint32{true: 64, false: 128}[src == parted]), d[i])
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
