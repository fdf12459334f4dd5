package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantHalves emits products of float32 rows with panels of F16 and BF16: up to so many rows by a panel, and one row by four panels, whose
// chains of additions hide each other's latency.
func quantHalves(wide bool) {
	most := quantRows2
	if wide {
		most = quantRows
	}
	for _, format := range []string{"F16", "BF16"} {
		for rows := 1; rows <= most; rows *= 2 {
			newHalf(format, rows, wide)
		}
		newHalf4(format, wide)
		newHalfPanel(format, wide)
	}
}

// newHalfPanel widens k times 16 elements, which then are ld elements apart.
func newHalfPanel(format string, wide bool) {
	parts, v := width(wide)
	fn("widenPanel"+format, "func(k int, b *byte, out *float32, ld int)")
	k, b, out, ld := reg.RAX, reg.RBX, reg.RDI, reg.RDX
	Load(Param("k"), k)
	Load(Param("b"), b)
	Load(Param("out"), out)
	Load(Param("ld"), ld)
	SHLQ(Imm(2), ld)
	Label("loop")
	for h := range parts {
		widen(format, mem(b, 0), h, wide, v[h])
		VMOVUPS(v[h], mem(out, 32*h))
	}
	ADDQ(Imm(32), b)
	ADDQ(ld, out)
	DECQ(k)
	JNE(LabelRef("loop"))
	ret()
}

// widen loads part h of 16 binary16 or bf16.
func widen(format string, from Mem, h int, wide bool, to reg.VecPhysical) {
	if !wide {
		from = from.Offset(16 * h)
	}
	if format == "F16" {
		VCVTPH2PS(from, to)
		return
	}
	VPMOVZXWD(from, to)
	VPSLLD(Imm(16), to, to)
}

// width is the registers of a panel's 16 rows, and their file.
func width(wide bool) (int, []reg.VecPhysical) {
	if wide {
		return 1, z
	}
	return 2, y
}

func newHalf(format string, rows int, wide bool) {
	parts, v := width(wide)
	q := newQuantLoop(format, rows)
	for i := range parts * rows {
		zeroAny(v[i], wide)
	}
	w := v[len(v)-parts:]
	Label("loop")
	for h := range parts {
		widen(format, mem(q.b, 0), h, wide, w[h])
	}
	if rows == 1 {
		PREFETCHT0(mem(q.b, 2048))
	}
	for r := range rows {
		if wide {
			VFMADD231PS_BCST(q.row(r, 0), w[0], v[r])
			continue
		}
		a := v[len(v)-parts-1]
		VBROADCASTSS(q.row(r, 0), a)
		for h := range parts {
			VFMADD231PS(w[h], a, v[parts*r+h])
		}
	}
	ADDQ(Imm(32), q.b)
	ADDQ(Imm(4), q.a)
	if rows > 5 {
		ADDQ(Imm(4), q.far)
	}
	DECQ(q.blocks)
	JNE(LabelRef("loop"))
	Load(Param("cols"), reg.RAX)
	if wide {
		kMask(reg.RAX, reg.R10, reg.K1)
		q.outputs(func(r int, out Mem) { VMOVUPS(v[r], reg.K1, out) })
		ret()
		return
	}
	LEAQ(quantMasks(), reg.R11)
	NEGQ(reg.RAX)
	for h := range parts {
		VMOVDQU(Mem{Base: reg.R11, Index: reg.RAX, Scale: 4, Disp: 64 + 32*h}, w[h])
	}
	q.outputs(func(r int, out Mem) {
		for h := range parts {
			VMASKMOVPS(v[parts*r+h], w[h], out.Offset(32*h))
		}
	})
	ret()
}

func zeroAny(r reg.VecPhysical, wide bool) {
	if wide {
		VPXORD(r, r, r)
		return
	}
	VXORPS(r, r, r)
}

// newHalf4 is a row by four panels, stride bytes apart.
func newHalf4(format string, wide bool) {
	parts, v := width(wide)
	fn(fmt.Sprintf("quant%sx1by4", format), "func(k int, b *byte, stride int, a, c *float32)")
	k, b, stride, three, a, c := reg.RAX, reg.RBX, reg.RDX, reg.R9, reg.RCX, reg.RSI
	Load(Param("k"), k)
	Load(Param("b"), b)
	Load(Param("stride"), stride)
	Load(Param("a"), a)
	Load(Param("c"), c)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	for i := range 4 * parts {
		zeroAny(v[i], wide)
	}
	panels := []Mem{{Base: b}, {Base: b, Index: stride, Scale: 1}, {Base: b, Index: stride, Scale: 2}, {Base: b, Index: three, Scale: 1}}
	Label("loop")
	VBROADCASTSS(mem(a, 0), v[15])
	for p, from := range panels {
		PREFETCHT0(from.Offset(512)) // each panel is a stream of its own
		for h := range parts {
			widen(format, from, h, wide, v[8+h])
			VFMADD231PS(v[8+h], v[15], v[parts*p+h])
		}
	}
	ADDQ(Imm(32), b)
	ADDQ(Imm(4), a)
	DECQ(k)
	JNE(LabelRef("loop"))
	for i := range 4 * parts {
		VMOVUPS(v[i], mem(c, 64/parts*i))
	}
	ret()
}

// masks2 is quantMasks' once it is made.
var masks2 *Mem

// quantMasks is 16 words of ones, then 16 of zeros.
func quantMasks() Mem {
	if masks2 == nil {
		m := GLOBL("avx2_quant_masks", RODATA|NOPTR)
		for i := range 32 {
			w := uint32(0)
			if i < 16 {
				w = 0xffffffff
			}
			DATA(4*i, U32(w))
		}
		masks2 = &m
	}
	return *masks2
}
