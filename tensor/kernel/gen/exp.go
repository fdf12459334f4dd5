package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expv makes v its exponential, with temporaries t, p, q and y14. exp(x) = 2ⁿ·exp(r), r = x - n·ln 2; the
// scaling is by two powers of two, so that it overflows to +Inf, and NaN stays. Results below 2⁻¹²⁶ are
// zero: denormals cost a microcode assist each, and softmax meets many keys far below the largest.
// Cody and Waite, "Software Manual for the Elementary Functions", 1980.
func expv(v, t, p, q reg.VecPhysical) {
	small := y[14]
	VMOVUPS(consts["expHi"], t)
	VMINPS(v, t, v) // a NaN in the first operand here, Intel's second source, is the result
	VMOVUPS(consts["expLo"], t)
	VCMPPS(Imm(1), t, v, small) // v < lo
	VMAXPS(v, t, v)
	VMOVUPS(consts["magic"], t)
	VFMADD231PS(consts["log2e"], v, t) // the low bits of t are n
	VSUBPS(consts["magic"], t, p)      // n as a float
	VFNMADD231PS(consts["ln2hi"], p, v)
	VFNMADD231PS(consts["ln2lo"], p, v)
	VMOVUPS(consts["e6"], p)
	for _, c := range []string{"e5", "e4", "e3", "e2", "one", "one"} {
		VFMADD213PS(consts[c], v, p)
	}
	VPSUBD(consts["magic"], t, t)
	VPSRAD(Imm(1), t, q)
	VPSUBD(q, t, t)
	VPSLLD(Imm(23), q, q)
	VPSLLD(Imm(23), t, t)
	VPADDD(consts["one"], q, q)
	VPADDD(consts["one"], t, t)
	VMULPS(q, p, p)
	VMULPS(t, p, v)
	VANDNPS(v, small, v)
}

// onePlusExpMinus makes d = 1 + exp(-g).
func onePlusExpMinus(g, d, t, p, q reg.VecPhysical) {
	VXORPS(consts["sign"], g, d)
	expv(d, t, p, q)
	VADDPS(consts["one"], d, d)
}

func exps() {
	each("expAVX2", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], y[0])
		expv(y[0], y[1], y[2], y[3])
		a.store(y[0], p[0])
	})
	expShift()
	each("siluAVX2", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], y[0])
		onePlusExpMinus(y[0], y[1], y[2], y[3], y[4])
		VDIVPS(y[1], y[0], y[0])
		a.store(y[0], p[0])
	})
	each("swiGLUAVX2", "func(out, gate, up []float32)", []string{"out", "gate", "up"}, nothing, func(a access, p []Mem) {
		a.load(p[1], y[0])
		a.load(p[2], y[5])
		onePlusExpMinus(y[0], y[1], y[2], y[3], y[4])
		VDIVPS(y[1], y[0], y[0])
		VMULPS(y[5], y[0], y[0])
		a.store(y[0], p[0])
	})
	each("swiGLUGradAVX2", "func(dgate, dup, dout, gate, up []float32)",
		[]string{"dgate", "dup", "dout", "gate", "up"}, func() { VMOVUPS(consts["one"], y[8]) },
		func(a access, p []Mem) {
			a.load(p[2], y[5])
			a.load(p[3], y[0])
			a.load(p[4], y[6])
			onePlusExpMinus(y[0], y[1], y[2], y[3], y[4])
			VDIVPS(y[1], y[8], y[1]) // s
			VSUBPS(y[1], y[8], y[2])
			VFMADD213PS(y[8], y[0], y[2]) // 1 + g(1-s)
			VMULPS(y[1], y[5], y[1])      // dout s
			VMULPS(y[1], y[0], y[0])      // dup
			VMULPS(y[1], y[6], y[6])
			VMULPS(y[2], y[6], y[6]) // dgate
			a.store(y[6], p[0])
			a.store(y[0], p[1])
		})
	each("geluAVX2", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], y[0])
		phi()
		VMULPS(y[2], y[0], y[0])
		a.store(y[0], p[0])
	})
	each("geluGradAVX2", "func(dx, dy, x []float32)", []string{"dx", "dy", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[2], y[0])
		a.load(p[1], y[6])
		phi()
		VMULPS(consts["rootTau"], y[1], y[1])
		VFMADD213PS(y[2], y[0], y[1])
		VMULPS(y[1], y[6], y[6])
		a.store(y[6], p[0])
	})
	each("geluTanhAVX2", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], y[0])
		VMULPS(y[0], y[0], y[1])
		VMOVUPS(consts["one"], y[2])
		VFMADD231PS(consts["geluA"], y[1], y[2])
		VMULPS(consts["gelu2C"], y[0], y[1])
		VMULPS(y[2], y[1], y[5])
		onePlusExpMinus(y[5], y[1], y[2], y[3], y[4])
		VDIVPS(y[1], y[0], y[0])
		a.store(y[0], p[0])
	})
	each("geluTanhGradAVX2", "func(dx, dy, x []float32)", []string{"dx", "dy", "x"},
		func() {
			VMOVUPS(consts["one"], y[8])
			VMOVUPS(consts["geluHi"], y[9])
			VMOVUPS(consts["geluLo"], y[10])
			VMOVUPS(consts["gelu2C"], y[11])
			VMOVUPS(consts["geluA"], y[12])
			VMOVUPS(consts["gelu3A"], y[13])
		},
		func(a access, p []Mem) {
			a.load(p[2], y[0])
			a.load(p[1], y[7])
			VMINPS(y[0], y[9], y[0]) // beyond 10 the factor is 1 or 0; within, exp(-2u) is finite
			VMAXPS(y[0], y[10], y[0])
			VMULPS(y[0], y[0], y[1])
			VMOVUPS(y[8], y[5])
			VFMADD231PS(y[12], y[1], y[5])
			VMOVUPS(y[8], y[6])
			VFMADD231PS(y[13], y[1], y[6])
			VMULPS(y[11], y[0], y[0])
			VMULPS(y[0], y[5], y[5]) // 2u
			VMULPS(y[0], y[6], y[6]) // d
			VXORPS(consts["sign"], y[5], y[5])
			expv(y[5], y[2], y[3], y[4])
			VADDPS(y[8], y[5], y[1])
			VDIVPS(y[1], y[8], y[1])      // q
			VMULPS(y[1], y[5], y[2])      // 1-q, without its cancellation
			VFMADD213PS(y[8], y[6], y[2]) // 1 + (1-q)d
			VMULPS(y[1], y[7], y[7])
			VMULPS(y[2], y[7], y[7])
			a.store(y[7], p[0])
		})
}

// phi makes, of x in y0, y1 = exp(-x²/2) and y2 = the normal distribution function, by erfc(z) =
// exp(-z²)·t·P(t), t = 1/(1+pz), |err| <= 1.5e-7: Abramowitz and Stegun, 7.1.26. Clobbers y3 to y5.
func phi() {
	VMULPS(y[0], y[0], y[1])
	VMULPS(consts["minusHalf"], y[1], y[1])
	expv(y[1], y[2], y[3], y[4])
	VMOVUPS(consts["sign"], y[2])
	VANDNPS(y[0], y[2], y[3]) // |x|
	VMOVUPS(consts["one"], y[2])
	VFMADD132PS(consts["erfP"], y[2], y[3])
	VDIVPS(y[3], y[2], y[3]) // t
	VMOVUPS(consts["erf5"], y[4])
	for _, c := range []string{"erf4", "erf3", "erf2", "erf1"} {
		VFMADD213PS(consts[c], y[3], y[4])
	}
	VMULPS(y[3], y[4], y[4])
	VMULPS(y[1], y[4], y[4]) // the tail beyond |x|
	VSUBPS(y[4], y[2], y[2])
	VBLENDVPS(y[0], y[4], y[2], y[2])
}

// expShift is exp(x-shift) with the sum of the results in 16 float64 lanes.
func expShift() {
	fn("expShiftAVX2", "func(out, x []float32, shift float32) float64")
	Load(Param("out").Base(), pointers[0])
	Load(Param("x").Base(), pointers[1])
	Load(Param("x").Len(), reg.RCX)
	broadcast("shift", y[12])
	for i := range 4 {
		zero(y[i])
	}
	reduceLoop(2, 2, func(a access, g int, p []Mem) {
		a.load(p[1], y[4])
		VSUBPS(y[12], y[4], y[4])
		expv(y[4], y[5], y[6], y[7])
		a.store(y[4], p[0])
		if a.masked {
			VANDPS(mask, y[4], y[4])
		}
		doubles(y[4], y[4], y[5])
		VADDPD(y[4], y[2*g], y[2*g])
		VADDPD(y[5], y[2*g+1], y[2*g+1])
	})
	foldDoubles()
	Store(reg.X0, ReturnIndex(0))
	ret()
}
