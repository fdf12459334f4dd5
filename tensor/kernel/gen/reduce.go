package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// reduceLoop runs body over groups of a register of elements of RCX at the first n pointers; group g, at most
// groups, counts within one turn of the loop, so that each has its own accumulators.
func reduceLoop(n, groups int, body func(a access, g int, p []Mem)) {
	idx := reg.RAX
	at := func(g int) []Mem {
		p := make([]Mem, n)
		for i := range p {
			p[i] = Mem{Base: pointers[i], Index: idx, Scale: 4, Disp: 4 * lanes * g}
		}
		return p
	}
	XORQ(idx, idx)
	SUBQ(Imm(uint64(lanes*groups)), reg.RCX)
	JL(LabelRef("tail"))
	Label("loop")
	for g := range groups {
		body(access{}, g, at(g))
	}
	ADDQ(Imm(uint64(lanes*groups)), idx)
	CMPQ(idx, reg.RCX)
	JLE(LabelRef("loop"))
	Label("tail")
	ADDQ(Imm(uint64(lanes*groups)), reg.RCX)
	SUBQ(idx, reg.RCX)
	for g := range groups {
		CMPQ(reg.RCX, Imm(uint64(lanes)))
		JL(LabelRef(fmt.Sprintf("masked%d", g)))
		if g < groups-1 {
			body(access{}, g, at(g))
			SUBQ(Imm(uint64(lanes)), reg.RCX)
		}
	}
	for g := range groups {
		Label(fmt.Sprintf("masked%d", g))
		TESTQ(reg.RCX, reg.RCX)
		JZ(LabelRef("fold"))
		tailMask(reg.RCX, reg.RDX)
		body(access{masked: true}, g, at(g))
		if g < groups-1 {
			JMP(LabelRef("fold"))
		}
	}
	Label("fold")
}

// foldDoubles leaves the sum of the 16 lanes, in v0 up, in X0: added in halves.
func foldDoubles() {
	if wide() {
		VADDPD(v[1], v[0], v[0])
		VEXTRACTF64X4(Imm(1), v[0], reg.Y1)
		VADDPD(reg.Y1, reg.Y0, reg.Y0)
	} else {
		VADDPD(v[2], v[0], v[0])
		VADDPD(v[3], v[1], v[1])
		VADDPD(v[1], v[0], v[0])
	}
	VEXTRACTF128(Imm(1), reg.Y0, reg.X1)
	VADDPD(reg.X1, reg.X0, reg.X0)
	VPERMILPD(Imm(1), reg.X0, reg.X1)
	VADDSD(reg.X1, reg.X0, reg.X0)
}

// doubles widens a register of floats to lo and hi; a and lo may be one register.
func doubles(a, lo, hi reg.VecPhysical) {
	if wide() {
		VEXTRACTF64X4(Imm(1), a, half(hi))
		VCVTPS2PD(half(hi), hi)
		VCVTPS2PD(half(a), lo)
		return
	}
	VEXTRACTF128(Imm(1), a, x(hi))
	VCVTPS2PD(x(hi), hi)
	VCVTPS2PD(x(a), lo)
}

// sumKernel emits a float64 reduction over slices in 16 lanes; body turns the widened operands in
// v[4+2i], v[5+2i] into terms in v4, v5 or adds them itself.
func sumKernel(name, sig string, slices []string, body func(lo, hi reg.VecPhysical)) {
	fn(name, sig)
	for i, s := range slices {
		Load(Param(s).Base(), pointers[i])
	}
	Load(Param(slices[0]).Len(), reg.RCX)
	sums := 16 / lanes
	for i := range 2 * sums {
		zero(v[i])
	}
	reduceLoop(len(slices), sums, func(a access, g int, p []Mem) {
		for i := range p {
			a.load(p[i], v[4+2*i])
			doubles(v[4+2*i], v[4+2*i], v[5+2*i])
		}
		body(v[2*g], v[2*g+1])
	})
	foldDoubles()
	Store(reg.X0, ReturnIndex(0))
	ret()
}

func reduce() {
	sumKernel("sum", "func(x []float32) float64", []string{"x"}, func(lo, hi reg.VecPhysical) {
		VADDPD(v[4], lo, lo)
		VADDPD(v[5], hi, hi)
	})
	sumKernel("sumSquares", "func(x []float32) float64", []string{"x"}, func(lo, hi reg.VecPhysical) {
		VFMADD231PD(v[4], v[4], lo) // the product is exact, so fusing changes nothing
		VFMADD231PD(v[5], v[5], hi)
	})
	sumKernel("sumMul", "func(x, y []float32) float64", []string{"x", "y"}, func(lo, hi reg.VecPhysical) {
		VFMADD231PD(v[4], v[6], lo)
		VFMADD231PD(v[5], v[7], hi)
	})
	sumKernel("sumMul3", "func(x, y, z []float32) float64", []string{"x", "y", "z"}, func(lo, hi reg.VecPhysical) {
		VMULPD(v[6], v[4], v[4])
		VMULPD(v[7], v[5], v[5])
		VMULPD(v[8], v[4], v[4])
		VMULPD(v[9], v[5], v[5])
		VADDPD(v[4], lo, lo)
		VADDPD(v[5], hi, hi)
	})
	dot()
	maximum()
}

func dot() {
	fn("dot", "func(x, y []float32) float32")
	Load(Param("x").Base(), pointers[0])
	Load(Param("y").Base(), pointers[1])
	Load(Param("x").Len(), reg.RCX)
	groups := 32 / lanes
	for i := range groups {
		zero(v[i])
	}
	reduceLoop(2, groups, func(a access, g int, p []Mem) {
		a.load(p[0], v[4+g])
		if a.masked {
			a.load(p[1], v[8])
			VFMADD231PS(v[8], v[4+g], v[g])
			return
		}
		VFMADD231PS(p[1], v[4+g], v[g])
	})
	if wide() {
		VADDPS(v[1], v[0], v[0])
		VEXTRACTF64X4(Imm(1), v[0], reg.Y1)
		VADDPS(reg.Y1, reg.Y0, reg.Y0)
	} else {
		VADDPS(v[2], v[0], v[0])
		VADDPS(v[3], v[1], v[1])
		VADDPS(v[1], v[0], v[0])
	}
	VEXTRACTF128(Imm(1), reg.Y0, reg.X1)
	VADDPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x0E), reg.X0, reg.X1)
	VADDPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x01), reg.X0, reg.X1)
	VADDSS(reg.X1, reg.X0, reg.X0)
	Store(reg.X0, ReturnIndex(0))
	ret()
}

// maximum keeps the largest in v0, v1 and whether any was NaN in v2, or K3.
func maximum() {
	fn("max", "func(x []float32) float32")
	Load(Param("x").Base(), pointers[0])
	Load(Param("x").Len(), reg.RCX)
	VMOVUPS(consts["minusInf"], v[0])
	VMOVUPS(v[0], v[1])
	VMOVUPS(v[0], v[5])
	if wide() {
		KXORW(reg.K3, reg.K3, reg.K3)
	} else {
		zero(v[2])
	}
	reduceLoop(1, 2, func(a access, g int, p []Mem) {
		if wide() {
			if a.masked {
				VMOVAPS(v[5], v[3])
				VMOVUPS(p[0], reg.K1, v[3])
			} else {
				a.load(p[0], v[3])
			}
			VCMPPS(Imm(3), v[3], v[3], reg.K2) // unordered
			KORW(reg.K2, reg.K3, reg.K3)
		} else {
			a.load(p[0], v[3])
			if a.masked {
				VBLENDVPS(mask, v[3], v[5], v[3])
			}
			VCMPPS(Imm(3), v[3], v[3], v[4])
			VORPS(v[4], v[2], v[2])
		}
		VMAXPS(v[3], v[g], v[g])
	})
	VMAXPS(v[1], v[0], v[0])
	if wide() {
		VEXTRACTF64X4(Imm(1), v[0], reg.Y1)
		VMAXPS(reg.Y1, reg.Y0, reg.Y0)
	}
	VEXTRACTF128(Imm(1), reg.Y0, reg.X1)
	VMAXPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x0E), reg.X0, reg.X1)
	VMAXPS(reg.X1, reg.X0, reg.X0)
	VPERMILPS(Imm(0x01), reg.X0, reg.X1)
	VMAXSS(reg.X1, reg.X0, reg.X0)
	if wide() {
		KMOVW(reg.K3, reg.EAX)
	} else {
		VMOVMSKPS(v[2], reg.EAX)
	}
	TESTL(reg.EAX, reg.EAX)
	JZ(LabelRef("done"))
	VPCMPEQD(reg.X0, reg.X0, reg.X0) // all ones is a NaN
	Label("done")
	Store(reg.X0, ReturnIndex(0))
	ret()
}
