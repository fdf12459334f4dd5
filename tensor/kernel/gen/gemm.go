package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gemm emits micro-kernels of 1 to 6 rows by 16 columns over packed panels (6 floats of A and 16 of B a
// step). The accumulators start from zero or from C, so each element is one chain of FMAs. Every four steps
// they ask for a line from next on, the panel of B that follows.
func gemm() {
	for rows := 1; rows <= 6; rows++ {
		micro(rows)
	}
}

func micro(rows int) {
	const unroll = 4
	fn(fmt.Sprintf("micro%d", rows), "func(kc int, a, b, c *float32, ldc int, acc bool, next *float32)")
	kc, a, b, c, ldc, t, next := reg.RAX, reg.RBX, reg.RCX, reg.RDX, reg.RSI, reg.RDI, reg.R8
	Load(Param("kc"), kc)
	Load(Param("a"), a)
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
			VBROADCASTSS(mem(a, 24*u+4*r), v)
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
	}
	ADDQ(Imm(24*unroll), a)
	ADDQ(I32(64*unroll), b)
	DECQ(t)
	JNE(LabelRef("loop"))
	Label("tail")
	ANDQ(Imm(unroll-1), kc)
	JZ(LabelRef("done"))
	Label("one")
	step(0)
	ADDQ(Imm(24), a)
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
