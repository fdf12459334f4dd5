package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemm emits micro-kernels of 1 to 6 rows by 16 columns over packed panels of B, with A by rows or by columns. The
// accumulators start from zero or from C, so each element is one chain of FMAs. Every four steps they ask for a line
// from next on, the panel of B that follows.
func gemm() {
	for _, kind := range []string{"Rows", "Cols"} {
		for rows := 1; rows <= 6; rows++ {
			micro(rows, kind)
		}
	}
}

// lhs is A in a micro-kernel: element (i,k) lies at 4i·lda+4k where byRow is set, else at 4i+4k·lda.
type lhs struct {
	byRow     bool
	rows      int
	base      []reg.GPPhysical // byRow, of each four rows
	lda, lda3 reg.GPPhysical
}

// lhsOf loads the parameters a and lda, the latter in elements.
func lhsOf(byRow bool, rows int) lhs {
	a := lhs{byRow, rows, []reg.GPPhysical{reg.RBX, reg.R10, reg.R11}, reg.R9, reg.R12}
	Load(Param("a"), a.base[0])
	Load(Param("lda"), a.lda)
	SHLQ(Imm(2), a.lda)
	if byRow {
		LEAQ(Mem{Base: a.lda, Index: a.lda, Scale: 2}, a.lda3)
		for i := 4; i < rows; i += 4 {
			LEAQ(Mem{Base: a.base[i/4-1], Index: a.lda, Scale: 4}, a.base[i/4])
		}
	}
	return a
}

// at is element (i,u), u counted from where the pointers are: by columns, the last even one.
func (a lhs) at(i, u int) Mem {
	switch {
	case !a.byRow && u%2 == 1:
		return Mem{Base: a.base[0], Index: a.lda, Scale: 1, Disp: 4 * i}
	case !a.byRow:
		return mem(a.base[0], 4*i)
	}
	m := Mem{Base: a.base[i/4], Disp: 4 * u}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = a.lda, 1
	case 2:
		m.Index, m.Scale = a.lda, 2
	case 3:
		m.Index, m.Scale = a.lda3, 1
	}
	return m
}

// stepped goes on after step u, ahead after a round of n steps, and one after a single step.
func (a lhs) stepped(u int) {
	if !a.byRow && u%2 == 1 {
		LEAQ(Mem{Base: a.base[0], Index: a.lda, Scale: 2}, a.base[0])
	}
}

func (a lhs) ahead(n int) {
	for i := 0; a.byRow && i < a.rows; i += 4 {
		ADDQ(Imm(uint64(4*n)), a.base[i/4])
	}
}

func (a lhs) one() {
	if !a.byRow {
		ADDQ(a.lda, a.base[0])
	}
	a.ahead(1)
}

func micro(rows int, kind string) {
	const unroll = 4
	fn(fmt.Sprintf("micro%s%d", kind, rows), "func(kc int, a *float32, lda int, b, c *float32, ldc int, acc bool, next *float32)")
	kc, b, c, ldc, t, next := reg.RAX, reg.RCX, reg.RDX, reg.RSI, reg.RDI, reg.R8
	Load(Param("kc"), kc)
	a := lhsOf(kind == "Rows", rows)
	Load(Param("b"), b)
	Load(Param("c"), c)
	Load(Param("ldc"), ldc)
	Load(Param("next"), next)
	SHLQ(Imm(2), ldc)
	startTile(rows, c, ldc, t)
	step := func(u int) {
		VMOVUPS(mem(b, 64*u), y[12])
		VMOVUPS(mem(b, 64*u+32), y[13])
		for r := range rows {
			v := y[14+r%2]
			VBROADCASTSS(a.at(r, u), v)
			VFMADD231PS(y[12], v, y[2*r])
			VFMADD231PS(y[13], v, y[2*r+1])
		}
	}
	MOVQ(kc, t)
	SHRQ(Imm(2), t)
	JZ(LabelRef("tail"))
	Label("loop")
	PREFETCHT0(mem(next, 0))
	ADDQ(Imm(64), next)
	for u := range unroll {
		step(u)
		a.stepped(u)
	}
	a.ahead(unroll)
	ADDQ(I32(64*unroll), b)
	DECQ(t)
	JNE(LabelRef("loop"))
	Label("tail")
	ANDQ(Imm(unroll-1), kc)
	JZ(LabelRef("done"))
	Label("one")
	step(0)
	a.one()
	ADDQ(Imm(64), b)
	DECQ(kc)
	JNE(LabelRef("one"))
	Label("done")
	eachTileRow(rows, c, ldc, t, func(r int, lo, hi Mem) {
		VMOVUPS(y[2*r], lo)
		VMOVUPS(y[2*r+1], hi)
	})
	ret()
}

// eachTileRow gives f the two halves of each row of the tile at c, rows ldc bytes apart; t ends at the last.
func eachTileRow(rows int, c, ldc, t reg.GPPhysical, f func(r int, lo, hi Mem)) {
	MOVQ(c, t)
	for r := range rows {
		f(r, mem(t, 0), mem(t, 32))
		if r < rows-1 {
			ADDQ(ldc, t)
		}
	}
}

// startTile makes the accumulators C where the parameter acc is set, else zero.
func startTile(rows int, c, ldc, t reg.GPPhysical) {
	Load(Param("acc"), reg.DIB)
	TESTB(reg.DIB, reg.DIB)
	JZ(LabelRef("fresh"))
	eachTileRow(rows, c, ldc, t, func(r int, lo, hi Mem) {
		VMOVUPS(lo, y[2*r])
		VMOVUPS(hi, y[2*r+1])
	})
	JMP(LabelRef("start"))
	Label("fresh")
	eachTileRow(rows, c, ldc, t, func(r int, lo, hi Mem) {
		PREFETCHT0(lo)
		hi.Disp = 60
		PREFETCHT0(hi)
		zero(y[2*r])
		zero(y[2*r+1])
	})
	Label("start")
	if rows == 6 { // the tile below is next: it may start from its C
		for range 6 {
			ADDQ(ldc, t)
			PREFETCHT0(mem(t, 0))
			PREFETCHT0(mem(t, 60))
		}
	}
}
