package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Of an unpacked group of 16 rows of weights: 8 registers of signed codes, then scales, then minima, each a register, or two of halves.
const unpackedCodes = 512

// unpackedBytes is what a group takes.
func unpackedBytes(g group512) int {
	parts, n := g.parts(), unpackedCodes
	n += 64 * parts
	if g.min != 0 {
		n += 64 * parts
	}
	return n
}

// quantAMX emits what turns panels into signed bytes, and the products of these with 16 rows of activations by tiles.
func quantAMX() {
	set = "AMX"
	for _, f := range quantFormats {
		newQuant512(f, 0)
	}
	for _, halves := range []bool{false, true} {
		for _, min := range []int{0, 1} {
			quantTiles(group512{halves: halves, min: min})
			if !halves || min != 0 {
				quantNear(group512{halves: halves, min: min})
			}
		}
	}
}

// unpack stores a group, its zero point taken away from the codes, and minima that are to be added, and goes to the next. Register
// sum512 has the zero point in every byte, the one behind it the sign of floats.
func (q *quant512) unpack(g group512) {
	for j := range 8 {
		if g.zero > 0 {
			VPSUBB(z[sum512], z[j], z[j])
		}
		VMOVDQU64(z[j], mem(q.a, 64*j))
	}
	parts, at := g.parts(), unpackedCodes
	for p := range parts {
		VMOVUPS(z[scale512+p], mem(q.a, at))
		at += 64
	}
	for p := range parts {
		if g.min == 0 {
			break
		}
		m := z[min512+(min512b-min512)*p]
		if g.min < 0 {
			t := q.temp()
			VPXORD(z[sum512+1], m, t)
			m = t
		}
		VMOVUPS(m, mem(q.a, at))
		at += 64
	}
	ADDQ(I32(uint32(unpackedBytes(g))), q.a)
}

// zeroPoint is what unpack takes away from the codes of a format.
func zeroPoint(format string) uint32 {
	switch format {
	case "Q4_0", "G4":
		return 8
	case "Q5_0":
		return 16
	case "Q8_0", "IQ4_NL", "IQ4_XS", "MXFP4", "G8":
		return 128
	case "Q6_K":
		return 32
	case "Q3_K":
		return 4
	}
	return 0
}

// A group of 16 rows of activations as quantTiles takes it: codes, then scales, then what minima multiply, all rows of each together.
const (
	nearScale = 512
	nearSum   = 576
	nearBytes = 704
)

// quantNear emits what copies so many groups of 16 rows, lda bytes apart, into that form. As they lie, rows whose distance is a power of two
// would share a set of the nearest cache.
func quantNear(g group512) {
	fn("quantNear"+g.suffix(), "func(groups int, a *byte, lda int, out *byte)")
	a, lda, out, n, from, to, rows, scales, t := reg.RSI, reg.RCX, reg.RDI, reg.RAX, reg.RBX, reg.RDX, reg.R8, reg.R9, reg.R10
	Load(Param("a"), a)
	Load(Param("lda"), lda)
	Load(Param("out"), out)
	LEAQ(mem(out, nearScale), scales)
	MOVQ(U32(16), rows)
	Label("row")
	Load(Param("groups"), n)
	MOVQ(a, from)
	MOVQ(out, to)
	Label("group")
	VMOVDQU(mem(from, 0), y[0])
	VMOVDQU(y[0], mem(to, 0))
	ADDQ(I32(groupBytes), from)
	ADDQ(I32(nearBytes), to)
	DECQ(n)
	JNE(LabelRef("group"))
	Load(Param("groups"), n)
	MOVQ(a, from)
	MOVQ(scales, to)
	Label("scale")
	MOVL(mem(from, groupScale), t.As32())
	MOVL(t.As32(), mem(to, 0))
	for p := range g.parts() {
		if g.min != 0 {
			MOVL(mem(from, g.sum()+4*p), t.As32())
			MOVL(t.As32(), mem(to, nearSum-nearScale+64*p))
		}
	}
	ADDQ(I32(groupBytes), from)
	ADDQ(I32(nearBytes), to)
	DECQ(n)
	JNE(LabelRef("scale"))
	ADDQ(lda, a)
	ADDQ(I32(32), out)
	ADDQ(Imm(4), scales)
	DECQ(rows)
	JNE(LabelRef("row"))
	ret()
}

// suffix is what sets a kernel's name apart.
func (g group512) suffix() (s string) {
	if g.halves {
		s += "Halves"
	}
	if g.min != 0 {
		s += "Min"
	}
	return s
}

// parts is how many scales there are.
func (g group512) parts() int {
	if g.halves {
		return 2
	}
	return 1
}

// sum is where a group has what the first minimum multiplies.
func (g group512) sum() int {
	if g.halves {
		return groupSums
	}
	return groupSum
}

// quantTiles emits the product of 16 rows of activations as quantNear laid them with groups of unpacked panels, skip bytes between them: C,
// whose last panel has last columns, continues where acc. TDPBSSD makes the sums of a group, or of its halves, at once; each then is
// scaled as the kernels of single rows do. buf takes the tiles of sums of two groups: those of the next are made first, since what a tile
// stored can't be read before it is in the cache. One group after the last is read, and not used.
func quantTiles(g group512) {
	fn("quantTiles"+g.suffix(), "func(config *[64]byte, panels, groups int, a, b *byte, skip int, c *float32, ldc, last int, acc bool, buf *int32)")
	const aTile, bTile = 4, 6
	parts := g.parts()
	groups, buf, b, line, a, c, panels, t, before, nextA, nextB, aLine := reg.RAX, reg.RBX, reg.RDX, reg.RDI, reg.RSI, reg.R13, reg.R15, reg.R14, reg.R8, reg.R9, reg.R10, reg.R11
	Load(Param("config"), line)
	ldtilecfg(line)
	Load(Param("panels"), panels)
	Load(Param("b"), b)
	Load(Param("c"), c)
	Load(Param("buf"), buf)
	LEAQ(mem(buf, 1024*parts), before)
	MOVQ(U32(64), line)
	MOVQ(U32(32), aLine)
	KXNORW(reg.K1, reg.K1, reg.K1)
	Label("panel")
	CMPQ(panels, Imm(1))
	JNE(LabelRef("whole"))
	Load(Param("last"), t)
	kMask(t, groups, reg.K1)
	Label("whole")
	Load(Param("a"), a)
	eachRow := func(f func(r int, m Mem)) {
		Load(Param("ldc"), groups)
		SHLQ(Imm(2), groups)
		MOVQ(c, t)
		for r := range 16 {
			f(r, mem(t, 0))
			if r < 15 {
				ADDQ(groups, t)
			}
		}
	}
	for r := range 16 {
		VPXORD(z[r], z[r], z[r])
	}
	Load(Param("acc"), reg.R14B)
	TESTB(reg.R14B, reg.R14B)
	JZ(LabelRef("fresh"))
	eachRow(func(r int, m Mem) { VMOVUPS_Z(m, reg.K1, z[r]) })
	Label("fresh")
	Load(Param("groups"), groups)
	tiles := func(ahead int) {
		LEAQ(mem(a, ahead*nearBytes), nextA)
		LEAQ(mem(b, ahead*unpackedBytes(g)), nextB)
		for p := range parts {
			tileLoad(aTile+p, nextA, aLine, byte(16*p))
			if p > 0 {
				ADDQ(I32(256), nextB)
			}
			tileLoad(bTile+p, nextB, line, 0)
			tileZero(p)
			tileDotBytes(p, aTile+p, bTile+p)
		}
	}
	store := func(p int) {
		LEAQ(mem(buf, 1024*p), nextA)
		tileStore(p, nextA, line, 0)
	}
	tiles(0)
	for p := range parts {
		store(p)
	}
	Label("loop")
	XCHGQ(buf, before)
	tiles(1)
	const scale, min, free = 16, 18, 20
	at := unpackedCodes
	for p := range parts {
		VMOVUPS(mem(b, at), z[scale+p])
		at += 64
	}
	for p := range parts {
		if g.min != 0 {
			VMOVUPS(mem(b, at), z[min+p])
			at += 64
		}
	}
	n := 0
	for p := range parts {
		for r := range 16 {
			s, x := z[free+n%12], z[free+(n+1)%12]
			n += 2
			VMULPS_BCST(mem(a, nearScale+4*r), z[scale+p], s)
			VCVTDQ2PS(mem(before, 1024*p+64*r), x)
			VFMADD231PS(s, x, z[r])
			if r == 7 {
				store(p)
			}
			if g.min != 0 {
				VFMADD231PS_BCST(mem(a, nearSum+64*p+4*r), z[min+p], z[r])
			}
		}
	}
	ADDQ(I32(nearBytes), a)
	ADDQ(I32(uint32(unpackedBytes(g))), b)
	DECQ(groups)
	JNE(LabelRef("loop"))
	eachRow(func(r int, m Mem) { VMOVUPS(z[r], reg.K1, m) })
	ADDQ(line, c)
	Load(Param("skip"), t)
	ADDQ(t, b)
	DECQ(panels)
	JNE(LabelRef("panel"))
	tileRelease()
	ret()
}
