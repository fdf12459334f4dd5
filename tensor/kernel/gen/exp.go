package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expv makes a its exponential, with temporaries t, p, q and v14 (or K2). exp(x) = 2ⁿ·exp(r), r = x - n·ln 2; the
// scaling is by two powers of two, so that it overflows to +Inf, and NaN stays. Results below 2⁻¹²⁶ are
// zero: denormals cost a microcode assist each, and softmax meets many keys far below the largest.
// Cody and Waite, "Software Manual for the Elementary Functions", 1980.
func expv(a, t, p, q reg.VecPhysical) {
	small := v[14]
	VMOVUPS(consts["expHi"], t)
	VMINPS(a, t, a) // a NaN in the first operand here, Intel's second source, is the result
	VMOVUPS(consts["expLo"], t)
	if wide() {
		VCMPPS(Imm(5), t, a, reg.K2) // not below
	} else {
		VCMPPS(Imm(1), t, a, small) // below
	}
	VMAXPS(a, t, a)
	VMOVUPS(consts["magic"], t)
	VFMADD231PS(consts["log2e"], a, t) // the low bits of t are n
	VSUBPS(consts["magic"], t, p)      // n as a float
	VFNMADD231PS(consts["ln2hi"], p, a)
	VFNMADD231PS(consts["ln2lo"], p, a)
	VMOVUPS(consts["e6"], p)
	for _, c := range []string{"e5", "e4", "e3", "e2", "one", "one"} {
		VFMADD213PS(consts[c], a, p)
	}
	VPSUBD(consts["magic"], t, t)
	VPSRAD(Imm(1), t, q)
	VPSUBD(q, t, t)
	VPSLLD(Imm(23), q, q)
	VPSLLD(Imm(23), t, t)
	VPADDD(consts["one"], q, q)
	VPADDD(consts["one"], t, t)
	VMULPS(q, p, p)
	if wide() {
		VMULPS_Z(t, p, reg.K2, a)
		return
	}
	VMULPS(t, p, a)
	VANDNPS(a, small, a)
}

// onePlusExpMinus makes d = 1 + exp(-g).
func onePlusExpMinus(g, d, t, p, q reg.VecPhysical) {
	VXORPS(consts["sign"], g, d)
	expv(d, t, p, q)
	VADDPS(consts["one"], d, d)
}

func exps() {
	each("exp", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], v[0])
		expv(v[0], v[1], v[2], v[3])
		a.store(v[0], p[0])
	})
	expShift()
	each("silu", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], v[0])
		onePlusExpMinus(v[0], v[1], v[2], v[3], v[4])
		VDIVPS(v[1], v[0], v[0])
		a.store(v[0], p[0])
	})
	each("swiGLU", "func(out, gate, up []float32)", []string{"out", "gate", "up"}, nothing, func(a access, p []Mem) {
		a.load(p[1], v[0])
		a.load(p[2], v[5])
		onePlusExpMinus(v[0], v[1], v[2], v[3], v[4])
		VDIVPS(v[1], v[0], v[0])
		VMULPS(v[5], v[0], v[0])
		a.store(v[0], p[0])
	})
	each("swiGLUGrad", "func(dgate, dup, dout, gate, up []float32)",
		[]string{"dgate", "dup", "dout", "gate", "up"}, func() { VMOVUPS(consts["one"], v[8]) },
		func(a access, p []Mem) {
			a.load(p[2], v[5])
			a.load(p[3], v[0])
			a.load(p[4], v[6])
			onePlusExpMinus(v[0], v[1], v[2], v[3], v[4])
			VDIVPS(v[1], v[8], v[1]) // s
			VSUBPS(v[1], v[8], v[2])
			VFMADD213PS(v[8], v[0], v[2]) // 1 + g(1-s)
			VMULPS(v[1], v[5], v[1])      // dout s
			VMULPS(v[1], v[0], v[0])      // dup
			VMULPS(v[1], v[6], v[6])
			VMULPS(v[2], v[6], v[6]) // dgate
			a.store(v[6], p[0])
			a.store(v[0], p[1])
		})
	each("gelu", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], v[0])
		phi()
		VMULPS(v[2], v[0], v[0])
		a.store(v[0], p[0])
	})
	each("geluGrad", "func(dx, dy, x []float32)", []string{"dx", "dy", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[2], v[0])
		a.load(p[1], v[6])
		phi()
		VMULPS(consts["rootTau"], v[1], v[1])
		VFMADD213PS(v[2], v[0], v[1])
		VMULPS(v[1], v[6], v[6])
		a.store(v[6], p[0])
	})
	each("geluTanh", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
		a.load(p[1], v[0])
		VMULPS(v[0], v[0], v[1])
		VMOVUPS(consts["one"], v[2])
		VFMADD231PS(consts["geluA"], v[1], v[2])
		VMULPS(consts["gelu2C"], v[0], v[1])
		VMULPS(v[2], v[1], v[5])
		onePlusExpMinus(v[5], v[1], v[2], v[3], v[4])
		VDIVPS(v[1], v[0], v[0])
		a.store(v[0], p[0])
	})
	each("geluTanhGrad", "func(dx, dy, x []float32)", []string{"dx", "dy", "x"},
		func() {
			VMOVUPS(consts["one"], v[8])
			VMOVUPS(consts["geluHi"], v[9])
			VMOVUPS(consts["geluLo"], v[10])
			VMOVUPS(consts["gelu2C"], v[11])
			VMOVUPS(consts["geluA"], v[12])
			VMOVUPS(consts["gelu3A"], v[13])
		},
		func(a access, p []Mem) {
			a.load(p[2], v[0])
			a.load(p[1], v[7])
			VMINPS(v[0], v[9], v[0]) // beyond 10 the factor is 1 or 0; within, exp(-2u) is finite
			VMAXPS(v[0], v[10], v[0])
			VMULPS(v[0], v[0], v[1])
			VMOVUPS(v[8], v[5])
			VFMADD231PS(v[12], v[1], v[5])
			VMOVUPS(v[8], v[6])
			VFMADD231PS(v[13], v[1], v[6])
			VMULPS(v[11], v[0], v[0])
			VMULPS(v[0], v[5], v[5]) // 2u
			VMULPS(v[0], v[6], v[6]) // d
			VXORPS(consts["sign"], v[5], v[5])
			expv(v[5], v[2], v[3], v[4])
			VADDPS(v[8], v[5], v[1])
			VDIVPS(v[1], v[8], v[1])      // q
			VMULPS(v[1], v[5], v[2])      // 1-q, without its cancellation
			VFMADD213PS(v[8], v[6], v[2]) // 1 + (1-q)d
			VMULPS(v[1], v[7], v[7])
			VMULPS(v[2], v[7], v[7])
			a.store(v[7], p[0])
		})
}

// phi makes, of x in y0, y1 = exp(-x²/2) and y2 = the normal distribution function, by erfc(z) =
// exp(-z²)·t·P(t), t = 1/(1+pz), |err| <= 1.5e-7: Abramowitz and Stegun, 7.1.26. Clobbers y3 to y5.
func phi() {
	VMULPS(v[0], v[0], v[1])
	VMULPS(consts["minusHalf"], v[1], v[1])
	expv(v[1], v[2], v[3], v[4])
	VMOVUPS(consts["sign"], v[2])
	VANDNPS(v[0], v[2], v[3]) // |x|
	VMOVUPS(consts["one"], v[2])
	VFMADD132PS(consts["erfP"], v[2], v[3])
	VDIVPS(v[3], v[2], v[3]) // t
	VMOVUPS(consts["erf5"], v[4])
	for _, c := range []string{"erf4", "erf3", "erf2", "erf1"} {
		VFMADD213PS(consts[c], v[3], v[4])
	}
	VMULPS(v[3], v[4], v[4])
	VMULPS(v[1], v[4], v[4]) // the tail beyond |x|
	VSUBPS(v[4], v[2], v[2])
	if wide() {
		VPMOVD2M(v[0], reg.K2)
		VBLENDMPS(v[4], v[2], reg.K2, v[2])
	} else {
		VBLENDVPS(v[0], v[4], v[2], v[2])
	}
}

// expShift is exp(x-shift) with the sum of the results in 16 float64 lanes.
func expShift() {
	fn("expShift", "func(out, x []float32, shift float32) float64")
	Load(Param("out").Base(), pointers[0])
	Load(Param("x").Base(), pointers[1])
	Load(Param("x").Len(), reg.RCX)
	broadcast("shift", v[12])
	sums := 16 / lanes // groups in a turn
	for i := range 2 * sums {
		zero(v[i])
	}
	reduceLoop(2, sums, func(a access, g int, p []Mem) {
		a.load(p[1], v[4])
		VSUBPS(v[12], v[4], v[4])
		expv(v[4], v[5], v[6], v[7])
		a.store(v[4], p[0])
		switch {
		case !a.masked:
		case wide():
			VMOVAPS_Z(v[4], reg.K1, v[4])
		default:
			VANDPS(mask, v[4], v[4])
		}
		doubles(v[4], v[4], v[5])
		VADDPD(v[4], v[2*g], v[2*g])
		VADDPD(v[5], v[2*g+1], v[2*g+1])
	})
	foldDoubles()
	Store(reg.X0, ReturnIndex(0))
	ret()
}
