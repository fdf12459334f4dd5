package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Of a quantised group of activations: where its parts are. quant.go of the package draws it.
const (
	groupBytes = 64
	groupScale = 32
	groupSum   = 36
	groupLow   = 40
	groupHigh  = 44
	groupAll   = 48
	groupSums  = 52
)

// quantRows is the most rows of activations of a micro-kernel; there is one for each power of two up to it.
const quantRows = 8

// quantFormats are those of integer codes.
var quantFormats = []string{"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "G4", "G8"}

// quantised emits micro-kernels over panels of 16 rows, and the rounding of activations.
func quantised(wide bool) {
	if wide {
		set = "VNNI"
		quantize512()
		for _, f := range quantFormats {
			for rows := 1; rows <= quantRows; rows *= 2 {
				newQuant512(f, rows)
			}
		}
		quantHalves(wide)
		return
	}
	set = "AVX2"
	quantize2()
	for _, f := range quantFormats {
		for rows := 1; rows <= quantRows2; rows *= 2 {
			newQuant2(f, rows)
		}
	}
	quantHalves(wide)
}

// quantLoop begins a micro-kernel and holds what it is called with.
type quantLoop struct {
	blocks, b, a, far, lda, c, ldc reg.GPPhysical
	rows                           int
}

func newQuantLoop(format string, rows int) *quantLoop {
	q := &quantLoop{reg.RAX, reg.RBX, reg.RCX, reg.R8, reg.RDX, reg.RSI, reg.RDI, rows}
	if rows == 0 {
		if format == "G4" || format == "G8" {
			fn("unpack"+format, "func(blocks, steps int, b, out *byte)")
		} else {
			fn("unpack"+format, "func(blocks int, b, out *byte)")
		}
		Load(Param("blocks"), q.blocks)
		Load(Param("b"), q.b)
		Load(Param("out"), q.a)
		return q
	}
	if format == "G4" || format == "G8" {
		fn(fmt.Sprintf("quant%sx%d", format, rows), "func(blocks, steps int, b, a *byte, lda int, c *float32, ldc, cols int)")
		Load(Param("blocks"), q.blocks)
	} else if format == "F16" || format == "BF16" {
		fn(fmt.Sprintf("quant%sx%d", format, rows), "func(k int, b *byte, a *float32, lda int, c *float32, ldc, cols int)")
		Load(Param("k"), q.blocks)
	} else {
		fn(fmt.Sprintf("quant%sx%d", format, rows), "func(blocks int, b, a *byte, lda int, c *float32, ldc, cols int)")
		Load(Param("blocks"), q.blocks)
	}
	Load(Param("b"), q.b)
	Load(Param("a"), q.a)
	Load(Param("lda"), q.lda)
	Load(Param("c"), q.c)
	Load(Param("ldc"), q.ldc)
	SHLQ(Imm(2), q.ldc)
	if rows > 5 {
		LEAQ(Mem{Base: q.lda, Index: q.lda, Scale: 4}, q.far)
		ADDQ(q.a, q.far)
	}
	if rows > 3 {
		LEAQ(Mem{Base: q.lda, Index: q.lda, Scale: 2}, reg.R9)
	}
	return q
}

// row is a byte of the group of row r.
func (q *quantLoop) row(r, disp int) Mem {
	switch {
	case r >= 5: // far is row 5
		if r == 5 {
			return Mem{Base: q.far, Disp: disp}
		}
		return Mem{Base: q.far, Index: q.lda, Scale: uint8(r - 5), Disp: disp}
	case r == 3:
		return Mem{Base: q.a, Index: reg.R9, Scale: 1, Disp: disp}
	case r == 0:
		return Mem{Base: q.a, Disp: disp}
	}
	return Mem{Base: q.a, Index: q.lda, Scale: uint8(r), Disp: disp}
}

// next goes to the next group.
func (q *quantLoop) next() {
	ADDQ(I32(groupBytes), q.a)
	if q.rows > 5 {
		ADDQ(I32(groupBytes), q.far)
	}
}

// outputs calls f with where each row of C begins.
func (q *quantLoop) outputs(f func(r int, out Mem)) {
	for r := range q.rows {
		f(r, mem(q.c, 0))
		if r < q.rows-1 {
			ADDQ(q.ldc, q.c)
		}
	}
}

// splat fills a register with a constant, by way of R10.
func splat(word uint32, r reg.VecPhysical) {
	MOVL(U32(word), reg.R10L)
	if isWide(r) {
		VPBROADCASTD(reg.R10L, r)
		return
	}
	VMOVD(reg.R10L, r.AsX())
	VPBROADCASTD(r.AsX(), r)
}

func isWide(r reg.VecPhysical) bool { return r.Size() == 64 }

// dotBytes is VPDPBUSD with a broadcast dword of signed bytes: dst += codes · signed.
func dotBytes(signed Mem, codes, dst reg.VecPhysical) {
	Instruction(&ir.Instruction{Opcode: "VPDPBUSD", Suffixes: []string{"BCST"}, Operands: []Op{signed, codes, dst}})
}

// The values of four-bit codes that are looked up, plus 128.
var (
	valuesIQ4  = [16]uint8{1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}
	valuesE2M1 = [16]uint8{128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116}
)

// tables are those of quantValues that are made.
var tables = map[string]Mem{}

// quantValues is a table of 16 bytes.
func quantValues(name string, values [16]uint8) Mem {
	if m, ok := tables[name]; ok {
		return m
	}
	m := GLOBL(strings.ToLower(set)+"_quant_"+name, RODATA|NOPTR)
	for i := range 4 {
		DATA(4*i, U32(uint32(values[4*i])|uint32(values[4*i+1])<<8|uint32(values[4*i+2])<<16|uint32(values[4*i+3])<<24))
	}
	tables[name] = m
	return m
}
