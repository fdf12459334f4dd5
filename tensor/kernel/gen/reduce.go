package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reduceLoop runs body over groups of eight elements of RCX at the first n pointers; group g, at most
// groups, counts within one turn of the loop, so that each has its own accumulators.
func reduceLoop(n, groups int, body func(a access, g int, p []Mem)) {
	idx := reg.RAX
	at := func(g int) []Mem {
		p := make([]Mem, n)
		for i := range p {
			p[i] = Mem{Base: pointers[i], Index: idx, Scale: 4, Disp: 32 * g}
		}
		return p
	}
	XORQ(idx, idx)
	SUBQ(Imm(uint64(8*groups)), reg.RCX)
	JL(LabelRef("tail"))
	Label("loop")
	for g := range groups {
		body(access{}, g, at(g))
	}
	ADDQ(Imm(uint64(8*groups)), idx)
	CMPQ(idx, reg.RCX)
	JLE(LabelRef("loop"))
	Label("tail")
	ADDQ(Imm(uint64(8*groups)), reg.RCX)
	SUBQ(idx, reg.RCX)
	for g := range groups {
		CMPQ(reg.RCX, Imm(8))
		JL(LabelRef(fmt.Sprintf("masked%d", g)))
		if g < groups-1 {
			body(access{}, g, at(g))
			SUBQ(Imm(8), reg.RCX)
		}
	}
	for g := range groups {
		Label(fmt.Sprintf("masked%d", g))
		TESTQ(reg.RCX, reg.RCX)
		JZ(LabelRef("fold"))
		loadMask(reg.RCX, reg.RDX, mask)
		body(access{masked: true}, g, at(g))
		if g < groups-1 {
			JMP(LabelRef("fold"))
		}
	}
	Label("fold")
}

// foldDoubles leaves the sum of the lanes of y0 to y3 in X0, in halves.
func foldDoubles() {
	VADDPD(y[2], y[0], y[0])
	VADDPD(y[3], y[1], y[1])
	VADDPD(y[1], y[0], y[0])
	VEXTRACTF128(Imm(1), y[0], reg.X1)
	VADDPD(reg.X1, reg.X0, reg.X0)
	VPERMILPD(Imm(1), reg.X0, reg.X1)
	VADDSD(reg.X1, reg.X0, reg.X0)
}

// doubles widens eight floats to lo and hi; v and lo may be one register.
func doubles(v, lo, hi reg.VecPhysical) {
	VEXTRACTF128(Imm(1), v, x(hi))
	VCVTPS2PD(x(hi), hi)
	VCVTPS2PD(x(v), lo)
}

// sumKernel emits a float64 reduction over slices in 16 lanes; body turns the widened operands in
// y[4+2i], y[5+2i] into terms in y4, y5 or adds them itself.
func sumKernel(name, sig string, slices []string, body func(lo, hi reg.VecPhysical)) {
	fn(name, sig)
	for i, s := range slices {
		Load(Param(s).Base(), pointers[i])
	}
	Load(Param(slices[0]).Len(), reg.RCX)
	for i := range 4 {
		zero(y[i])
	}
	reduceLoop(len(slices), 2, func(a access, g int, p []Mem) {
		for i := range p {
			a.load(p[i], y[4+2*i])
			doubles(y[4+2*i], y[4+2*i], y[5+2*i])
		}
		body(y[2*g], y[2*g+1])
	})
	foldDoubles()
	Store(reg.X0, ReturnIndex(0))
	ret()
}

func reduce() {
	sumKernel("sumAVX2", "func(x []float32) float64", []string{"x"}, func(lo, hi reg.VecPhysical) {
		VADDPD(y[4], lo, lo)
		VADDPD(y[5], hi, hi)
	})
	sumKernel("sumSquaresAVX2", "func(x []float32) float64", []string{"x"}, func(lo, hi reg.VecPhysical) {
		VFMADD231PD(y[4], y[4], lo) // the product is exact, so fusing changes nothing
		VFMADD231PD(y[5], y[5], hi)
	})
	sumKernel("sumMulAVX2", "func(x, y []float32) float64", []string{"x", "y"}, func(lo, hi reg.VecPhysical) {
		VFMADD231PD(y[4], y[6], lo)
		VFMADD231PD(y[5], y[7], hi)
	})
	sumKernel("sumMul3AVX2", "func(x, y, z []float32) float64", []string{"x", "y", "z"}, func(lo, hi reg.VecPhysical) {
		VMULPD(y[6], y[4], y[4])
		VMULPD(y[7], y[5], y[5])
		VMULPD(y[8], y[4], y[4])
		VMULPD(y[9], y[5], y[5])
		VADDPD(y[4], lo, lo)
		VADDPD(y[5], hi, hi)
	})
	dot()
	maximum()
}

func dot() {
	fn("dotAVX2", "func(x, y []float32) float32")
	Load(Param("x").Base(), pointers[0])
	Load(Param("y").Base(), pointers[1])
	Load(Param("x").Len(), reg.RCX)
	for i := range 4 {
		zero(y[i])
	}
	reduceLoop(2, 4, func(a access, g int, p []Mem) {
		a.load(p[0], y[4+g])
		if a.masked {
			a.load(p[1], y[8])
			VFMADD231PS(y[8], y[4+g], y[g])
			return
		}
		VFMADD231PS(p[1], y[4+g], y[g])
	})
	VADDPS(y[2], y[0], y[0])
	VADDPS(y[3], y[1], y[1])
	VADDPS(y[1], y[0], y[0])
	VEXTRACTF128(Imm(1), y[0], reg.X1)
	VADDPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x0E), reg.X0, reg.X1)
	VADDPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x01), reg.X0, reg.X1)
	VADDSS(reg.X1, reg.X0, reg.X0)
	Store(reg.X0, ReturnIndex(0))
	ret()
}

// maximum keeps the largest in y0, y1 and whether any was NaN in y2.
func maximum() {
	fn("maxAVX2", "func(x []float32) float32")
	Load(Param("x").Base(), pointers[0])
	Load(Param("x").Len(), reg.RCX)
	VMOVUPS(consts["minusInf"], y[0])
	VMOVUPS(y[0], y[1])
	VMOVUPS(y[0], y[5])
	zero(y[2])
	reduceLoop(1, 2, func(a access, g int, p []Mem) {
		a.load(p[0], y[3])
		if a.masked {
			VBLENDVPS(mask, y[3], y[5], y[3])
		}
		VCMPPS(Imm(3), y[3], y[3], y[4]) // unordered
		VMAXPS(y[3], y[g], y[g])
		VORPS(y[4], y[2], y[2])
	})
	VMAXPS(y[1], y[0], y[0])
	VEXTRACTF128(Imm(1), y[0], reg.X1)
	VMAXPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x0E), reg.X0, reg.X1)
	VMAXPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x01), reg.X0, reg.X1)
	VMAXSS(reg.X1, reg.X0, reg.X0)
	VMOVMSKPS(y[2], reg.EAX)
	TESTL(reg.EAX, reg.EAX)
	JZ(LabelRef("done"))
	VPCMPEQD(reg.X0, reg.X0, reg.X0) // all ones is a NaN
	Label("done")
	Store(reg.X0, ReturnIndex(0))
	ret()
}
