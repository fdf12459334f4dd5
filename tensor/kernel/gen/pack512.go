package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// source is what a pack routine reads and what it writes. In a pair of bf16 the earlier step is the high half.
type source int

const (
	floats  source = iota // float32, as it is
	halves                // bf16 to pairs
	rounded               // float32 to pairs
	widened               // bf16 to float32
	nearest               // float32 to float32 with the values of bf16
	parted                // float32 to pairs of each of its three parts
)

// reads is the type of an element read, and its bytes.
func (s source) reads() (string, int) {
	if s == halves || s == widened {
		return "*uint16", 2
	}
	return "*float32", 4
}

func (s source) pairs() bool { return s == halves || s == rounded }

func (s source) writes() string {
	if s.pairs() {
		return "*uint32"
	}
	return "*float32"
}

func pack512() {
	transpose("packAWideRows", widened, tile512)
	transpose("packANearRows", nearest, tile512)
	transpose("packAPairRows", halves, tile512)
	transpose("packARoundRows", rounded, tile512)
	packACols512("packAWideCols", widened)
	packACols512("packANearCols", nearest)
	packPairs512("packAPairCols", halves, tile512, 1)
	packPairs512("packARoundCols", rounded, tile512, 1)
	transpose("packBCols", floats, 16)
	transpose("packBPairCols", halves, 16)
	transpose("packBRoundCols", rounded, 16)
	copyRows512()
	packBPanels512()
	packBRows512()
	packPairs512("packBPairRows", halves, 32, 1)
	packPairs512("packBPairRows4", halves, 32, 4)
	packPairs512("packBRoundRows", rounded, 32, 1)
	packPairs512("packBRoundRows2", rounded, 32, 2)
}

// transpose turns lines (1 to width) of kc adjacent elements, ld bytes apart, into steps of a packed panel:
// a step is one dword of every line. Absent lines repeat the last; where kc is odd the last pair ends with
// zero. Panels of A have 12 dwords a step; of B's 32 a call fills 16.
func transpose(name string, src source, width int) {
	read, size := src.reads()
	fn(name, "func(kc int, src "+read+", ld, lines int, dst "+src.writes()+")")
	kc, s, ld, lines, d, p, t, none, left := reg.RAX, reg.RBX, reg.RCX, reg.RSI, reg.RDX, reg.R8, reg.RDI, reg.R9, reg.R10
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("lines"), lines)
	Load(Param("dst"), d)
	XORQ(none, none)
	stride := 128
	if width == tile512 {
		stride = 4 * tile512
		MOVL(U32(1<<tile512-1), reg.R11L)
		KMOVW(reg.R11L, reg.K4)
	}
	elems := 16 // in a block of 16 steps
	if src.pairs() {
		elems = 32
	}
	block := func(masked bool) {
		load := func(disp int, k reg.OpmaskPhysical, r reg.VecPhysical) {
			switch {
			case src == widened && masked:
				VPMOVZXWD_Z(mem(p, disp), k, r)
			case src == widened:
				VPMOVZXWD(mem(p, disp), r)
			case src == halves && masked:
				VMOVDQU16_Z(mem(p, disp), k, r)
			case masked:
				VMOVUPS_Z(mem(p, disp), k, r)
			default:
				VMOVUPS(mem(p, disp), r)
			}
		}
		MOVQ(s, p)
		for r := range width {
			t0, t1, t2 := z[16+3*(r%4)], z[17+3*(r%4)], z[18+3*(r%4)]
			load(0, reg.K1, z[r])
			switch src {
			case halves:
				VPROLD(Imm(16), z[r], z[r])
			case widened:
				VPSLLD(Imm(16), z[r], z[r])
			case nearest:
				roundNearest(z[r], t0, t1, t2)
				VPANDD(consts["high"], z[r], z[r])
			case rounded:
				load(64, reg.K2, t0)
				VSHUFPS(Imm(0xDD), t0, z[r], t1) // odd elements
				VSHUFPS(Imm(0x88), t0, z[r], z[r])
				joinRounded(z[r], t1, t0, t2)
			}
			if r < width-1 {
				MOVQ(ld, t)
				CMPQ(lines, Imm(uint64(r+1)))
				CMOVQLE(none, t)
				ADDQ(t, p)
			}
		}
		// put stores dword 4·part+e of every line. Joined pairs lie in another order: see VSHUFPS above.
		put := func(r reg.VecPhysical, part, e int) {
			step := 4*part + e
			if src == rounded {
				step = 2*part + e%2 + e/2*8
			}
			after := ""
			if masked && step > 0 {
				after = fmt.Sprintf("after%d", step)
				CMPQ(left, Imm(uint64(step)))
				JLE(LabelRef(after))
			}
			if width == 16 {
				VMOVUPS(r, mem(d, stride*step))
			} else {
				VMOVUPS(r, reg.K4, mem(d, stride*step))
			}
			if after != "" {
				Label(after)
			}
		}
		turn(width, put)
	}
	SUBQ(Imm(uint64(elems)), kc)
	JL(LabelRef("tail"))
	Label("loop")
	block(false)
	ADDQ(I32(elems*size), s)
	ADDQ(I32(16*stride), d)
	SUBQ(Imm(uint64(elems)), kc)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(Imm(uint64(elems)), kc)
	JZ(LabelRef("done"))
	kMask(kc, t, reg.K1)
	if src == rounded {
		KSHIFTRD(Imm(16), reg.K1, reg.K2)
	}
	MOVQ(kc, left)
	if src.pairs() {
		INCQ(left)
		SHRQ(Imm(1), left)
	}
	block(true)
	Label("done")
	ret()
}

// turn transposes the dwords of the lines in z0 to z15 (12 or 16 of them) and gives put registers with dword
// 4·part+e of every line.
func turn(width int, put func(r reg.VecPhysical, part, e int)) {
	// In each 128-bit part: pairs of lines, fours of lines; then parts change places.
	for i := 0; i < width; i += 2 {
		VUNPCKLPS(z[i+1], z[i], z[16+i])
		VUNPCKHPS(z[i+1], z[i], z[17+i])
	}
	for i := 0; i < width; i += 4 {
		VUNPCKLPD(z[18+i], z[16+i], z[i])
		VUNPCKHPD(z[18+i], z[16+i], z[i+1])
		VUNPCKLPD(z[19+i], z[17+i], z[i+2])
		VUNPCKHPD(z[19+i], z[17+i], z[i+3])
	}
	for e := range 4 {
		last := 8 + e
		if width == 16 {
			last = 12 + e
		}
		u := z[16+4*e:]
		VSHUFF32X4(Imm(0x88), z[4+e], z[e], u[0])
		VSHUFF32X4(Imm(0x88), z[last], z[8+e], u[1])
		VSHUFF32X4(Imm(0xDD), z[4+e], z[e], u[2])
		VSHUFF32X4(Imm(0xDD), z[last], z[8+e], u[3])
		VSHUFF32X4(Imm(0x88), u[1], u[0], z[e])
		put(z[e], 0, e)
		VSHUFF32X4(Imm(0x88), u[3], u[2], z[e])
		put(z[e], 1, e)
		VSHUFF32X4(Imm(0xDD), u[1], u[0], z[e])
		put(z[e], 2, e)
		VSHUFF32X4(Imm(0xDD), u[3], u[2], z[e])
		put(z[e], 3, e)
	}
}

// packACols512 stores kc steps, ld bytes apart, of rows (1 to 12) adjacent elements; absent rows are zeros.
func packACols512(name string, src source) {
	read, _ := src.reads()
	fn(name, "func(kc int, src "+read+", ld, rows int, dst *float32)")
	Load(Param("kc"), reg.RAX)
	Load(Param("src"), reg.RBX)
	Load(Param("ld"), reg.RCX)
	Load(Param("rows"), reg.RSI)
	Load(Param("dst"), reg.RDX)
	kMask(reg.RSI, reg.RDI, reg.K1)
	MOVL(U32(1<<tile512-1), reg.R11L)
	KMOVW(reg.R11L, reg.K4)
	Label("loop")
	switch src {
	case widened:
		VPMOVZXWD_Z(mem(reg.RBX, 0), reg.K1, z[0])
		VPSLLD(Imm(16), z[0], z[0])
	case nearest:
		VMOVUPS_Z(mem(reg.RBX, 0), reg.K1, z[0])
		roundNearest(z[0], z[1], z[2], z[3])
		VPANDD(consts["high"], z[0], z[0])
	default:
		VMOVUPS_Z(mem(reg.RBX, 0), reg.K1, z[0])
	}
	VMOVUPS(z[0], reg.K4, mem(reg.RDX, 0))
	ADDQ(reg.RCX, reg.RBX)
	ADDQ(Imm(4*tile512), reg.RDX)
	DECQ(reg.RAX)
	JNE(LabelRef("loop"))
	ret()
}

// columns512 loads the parameters of a routine that copies kc rows, ld bytes apart, into n panels, stride
// bytes apart: pointers to them, and where n is 1 masks of cols (1 to 32) columns in K1 and K2.
func columns512(n int) (kc, s, ld reg.GPPhysical, d []reg.GPPhysical) {
	kc, s, ld, d = reg.RAX, reg.RBX, reg.RCX, pointers
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("dst"), d[0])
	if n > 1 {
		Load(Param("stride"), reg.RSI)
		for i := 1; i < n; i++ {
			LEAQ(Mem{Base: d[i-1], Index: reg.RSI, Scale: 1}, d[i])
		}
		return kc, s, ld, d
	}
	Load(Param("cols"), reg.RSI)
	MOVQ(I32(-1), reg.RDI)
	BZHIQ(reg.RSI, reg.RDI, reg.RDI)
	KMOVW(reg.EDI, reg.K1)
	SHRQ(Imm(16), reg.RDI)
	KMOVW(reg.EDI, reg.K2)
	return kc, s, ld, d
}

// copyRows512 copies n rows of cols floats, ld bytes apart, to rows that are to bytes apart. It asks for rows ahead: the next
// may lie on another page, where nothing fetches it by itself.
func copyRows512() {
	fn("copyRows", "func(n int, src *float32, ld, cols int, dst *float32, to int)")
	n, s, ld, d, to, i, cols, t := reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.RDI, reg.R8, reg.R9
	Load(Param("n"), n)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("cols"), cols)
	Load(Param("dst"), d)
	Load(Param("to"), to)
	MOVQ(cols, i)
	ANDQ(Imm(15), i)
	kMask(i, t, reg.K1)
	ANDQ(I8(-16), cols)
	SHLQ(Imm(2), cols)
	Label("row")
	XORQ(i, i)
	LEAQ(Mem{Base: s, Index: ld, Scale: 4}, t)
	CMPQ(i, cols)
	JGE(LabelRef("tail"))
	Label("loop")
	PREFETCHT0(Mem{Base: t, Index: i, Scale: 1})
	VMOVUPS(Mem{Base: s, Index: i, Scale: 1}, z[0])
	VMOVUPS(z[0], Mem{Base: d, Index: i, Scale: 1})
	ADDQ(Imm(64), i)
	CMPQ(i, cols)
	JL(LabelRef("loop"))
	Label("tail")
	PREFETCHT0(Mem{Base: t, Index: i, Scale: 1})
	VMOVUPS_Z(Mem{Base: s, Index: i, Scale: 1}, reg.K1, z[0])
	VMOVUPS(z[0], reg.K1, Mem{Base: d, Index: i, Scale: 1})
	ADDQ(ld, s)
	ADDQ(to, d)
	DECQ(n)
	JNE(LabelRef("row"))
	ret()
}

// packBPanels512 copies kc rows into n panels of 32 columns, stride bytes apart: row after row, since neighbours in memory come
// faster than lines from many pages. It asks for what lies four rows ahead.
func packBPanels512() {
	fn("packBPanels", "func(kc int, src *float32, ld, n int, dst *float32, stride int)")
	kc, s, ld, n, d, stride := reg.RAX, reg.RBX, reg.RCX, reg.RSI, reg.RDX, reg.RDI
	from, to, left := reg.R8, reg.R9, reg.R10
	Load(Param("kc"), kc)
	Load(Param("src"), s)
	Load(Param("ld"), ld)
	Load(Param("n"), n)
	Load(Param("dst"), d)
	Load(Param("stride"), stride)
	Label("row")
	MOVQ(s, from)
	MOVQ(d, to)
	MOVQ(n, left)
	Label("loop")
	PREFETCHT0(Mem{Base: from, Index: ld, Scale: 4})
	PREFETCHT0(Mem{Base: from, Index: ld, Scale: 4, Disp: 64})
	VMOVUPS(mem(from, 0), z[0])
	VMOVUPS(mem(from, 64), z[1])
	VMOVUPS(z[0], mem(to, 0))
	VMOVUPS(z[1], mem(to, 64))
	SUBQ(I8(-128), from)
	ADDQ(stride, to)
	DECQ(left)
	JNE(LabelRef("loop"))
	ADDQ(ld, s)
	SUBQ(I8(-128), d)
	DECQ(kc)
	JNE(LabelRef("row"))
	ret()
}

// packBRows512 copies kc rows of at most 32 columns into a panel.
func packBRows512() {
	fn("packBRows", "func(kc int, src *float32, ld, cols int, dst *float32)")
	kc, s, ld, d := columns512(1)
	Label("loop")
	VMOVUPS_Z(mem(s, 0), reg.K1, z[0])
	VMOVUPS_Z(mem(s, 64), reg.K2, z[1])
	VMOVUPS(z[0], mem(d[0], 0))
	VMOVUPS(z[1], mem(d[0], 64))
	SUBQ(I8(-128), d[0])
	ADDQ(ld, s)
	DECQ(kc)
	JNE(LabelRef("loop"))
	ret()
}

// packPairs512 joins kc rows, ld bytes apart, into steps of pairs in n panels of width columns (for A, its
// rows); where kc is odd the last row is joined with zeros. With one panel, cols of them exist; the others
// are zeros.
func packPairs512(name string, src source, width, n int) {
	read, size := src.reads()
	if n == 1 {
		fn(name, "func(kc int, src "+read+", ld, cols int, dst *uint32)")
	} else {
		fn(name, "func(kc int, src "+read+", ld int, dst *uint32, stride int)")
	}
	kc, s, ld, d := columns512(n)
	step, groups := 4*width, 2
	if width == tile512 {
		groups = 1
		MOVL(U32(1<<tile512-1), reg.R11L)
		KMOVW(reg.R11L, reg.K4)
	}
	next := reg.RDI
	join := func(last bool) {
		if !last {
			LEAQ(Mem{Base: s, Index: ld, Scale: 1}, next)
		}
		for i := range n {
			for g := range groups {
				disp := 16 * size * (groups*i + g)
				k := []reg.OpmaskPhysical{reg.K1, reg.K2}[g]
				load := func(m Mem, r reg.VecPhysical) {
					switch {
					case src == halves && n == 1:
						VPMOVZXWD_Z(m, k, r)
					case src == halves:
						VPMOVZXWD(m, r)
					case n == 1:
						VMOVUPS_Z(m, k, r)
					default:
						VMOVUPS(m, r)
					}
				}
				at := 4 * ((groups*i + g) % 8)
				hi, lo := z[at], z[at+1]
				load(mem(s, disp), hi)
				if last {
					zero(lo)
				} else {
					load(mem(next, disp), lo)
				}
				if src == rounded {
					joinRounded(hi, lo, z[at+2], z[at+3])
				} else {
					VPSLLD(Imm(16), hi, hi)
					VPORD(lo, hi, hi)
				}
				if width == tile512 {
					VMOVUPS(hi, reg.K4, mem(d[i], 0))
				} else {
					VMOVUPS(hi, mem(d[i], 64*g))
				}
			}
			if n > 1 && !last {
				PREFETCHT0(Mem{Base: s, Index: ld, Scale: 8, Disp: 32 * size * i})
				PREFETCHT0(Mem{Base: next, Index: ld, Scale: 8, Disp: 32 * size * i})
			}
			ADDQ(I32(step), d[i])
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

// joinRounded rounds the floats of hi and lo to bf16 and joins them in hi.
func joinRounded(hi, lo, t, q reg.VecPhysical) {
	roundNearest(hi, t, q, q)
	roundNearest(lo, t, q, q)
	VPANDD(consts["high"], hi, hi)
	VPSRLD(Imm(16), lo, lo)
	VPORD(lo, hi, hi)
}
