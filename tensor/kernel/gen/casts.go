package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func castConstants() {
	word("unit", 1)
	word("bias", 0x7fff)
	word("quiet", 0x400000)
	word("high", 0xffff0000)
	word("low", 0xffff)
	word("nan", 0x7fc00000)
	word("philoxM", 0xD256D193)
	word("philoxW", 0x9E3779B9)
	index := GLOBL(setName("counters"), RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(uint64(i)))
	}
	consts["counters"] = index
}

// roundNearest leaves in the high halves of a the bf16 nearest to its floats, ties to even; a NaN becomes
// quiet. Temporaries t, q and m (or K3).
func roundNearest(a, t, q, m reg.VecPhysical) {
	VPSRLD(Imm(16), a, t)
	if wide() {
		VPANDD(consts["unit"], t, t)
	} else {
		VPAND(consts["unit"], t, t)
	}
	VPADDD(consts["bias"], t, t)
	roundAdd(a, t, q, m)
}

// roundAdd adds t to the bits of a, but where a is NaN makes it quiet.
func roundAdd(a, t, q, m reg.VecPhysical) {
	if wide() {
		VCMPPS(Imm(3), a, a, reg.K3) // unordered
		VPADDD(t, a, t)
		VPORD(consts["quiet"], a, reg.K3, t)
		VMOVAPS(t, a)
		return
	}
	VCMPPS(Imm(3), a, a, m)
	VORPS(consts["quiet"], a, q)
	VPADDD(t, a, a)
	VBLENDVPS(m, q, a, a)
}

// storeHigh writes the high halves of a and b, adjacent elements, to p: 8 and 8, or 16 and 16.
func storeHigh(a, b reg.VecPhysical, p reg.Register) {
	VPSRLD(Imm(16), a, a)
	VPSRLD(Imm(16), b, b)
	if wide() {
		VPMOVDW(a, mem(p, 0))
		VPMOVDW(b, mem(p, 32))
		return
	}
	VPACKUSDW(b, a, a)
	VPERMQ(Imm(0xD8), a, a)
	VMOVDQU(a, mem(p, 0))
}

// whole emits a loop over step elements of two slices at a time; their length is a multiple of step.
func whole(name, sig string, outBytes, inBytes, step int, setup, body func(out, in reg.Register)) {
	fn(name, sig)
	out, in := pointers[0], pointers[1]
	Load(Param("out").Base(), out)
	Load(Param("x").Base(), in)
	Load(Param("x").Len(), reg.RCX)
	if setup != nil {
		setup(out, in)
	}
	SUBQ(Imm(uint64(step)), reg.RCX)
	JL(LabelRef("done"))
	Label("loop")
	body(out, in)
	ADDQ(Imm(uint64(outBytes*step)), out)
	ADDQ(Imm(uint64(inBytes*step)), in)
	SUBQ(Imm(uint64(step)), reg.RCX)
	JGE(LabelRef("loop"))
	Label("done")
	ret()
}

// casts emits the conversions between float32 and bf16. They take multiples of 16 or 32 elements; Go code
// does what is left, since integers round the same way everywhere.
func casts() {
	n := lanes
	whole("roundBF16", "func(out []uint16, x []float32)", 2, 4, 2*n, nil, func(out, in reg.Register) {
		VMOVUPS(mem(in, 0), v[0])
		VMOVUPS(mem(in, 4*n), v[1])
		roundNearest(v[0], v[2], v[3], v[4])
		roundNearest(v[1], v[5], v[6], v[7])
		storeHigh(v[0], v[1], out)
	})
	whole("widenBF16", "func(out []float32, x []uint16)", 4, 2, 2*n, nil, func(out, in reg.Register) {
		for i := range 2 {
			VPMOVZXWD(mem(in, 2*n*i), v[i])
			VPSLLD(Imm(16), v[i], v[i])
			VMOVUPS(v[i], mem(out, 4*n*i))
		}
	})
	halfFloats()
	widenPairs()
	if !wide() {
		each("roundedBF16", "func(out, x []float32)", []string{"out", "x"}, nothing, func(a access, p []Mem) {
			a.load(p[1], v[0])
			roundNearest(v[0], v[1], v[2], v[3])
			VANDPS(consts["high"], v[0], v[0])
			a.store(v[0], p[0])
		})
	}
	stochastic()
}

// halfFloats emits the conversions between float32 and f16. Every NaN rounds to one quiet NaN of its sign.
func halfFloats() {
	n := lanes
	whole("widenF16", "func(out []float32, x []uint16)", 4, 2, 2*n, nil, func(out, in reg.Register) {
		for i := range 2 {
			VCVTPH2PS(mem(in, 2*n*i), v[i])
			VMOVUPS(v[i], mem(out, 4*n*i))
		}
	})
	whole("roundF16", "func(out []uint16, x []float32)", 2, 4, 2*n, nil, func(out, in reg.Register) {
		for i := range 2 {
			a, t, m := v[3*i], v[3*i+1], v[3*i+2]
			VMOVUPS(mem(in, 4*n*i), a)
			if wide() {
				VCMPPS(Imm(3), a, a, reg.K3) // unordered
				VANDPS(consts["sign"], a, t)
				VORPS(consts["nan"], t, reg.K3, a)
			} else {
				VCMPPS(Imm(3), a, a, m)
				VANDPS(consts["sign"], a, t)
				VORPS(consts["nan"], t, t)
				VBLENDVPS(m, t, a, a)
			}
			VCVTPS2PH(Imm(0), a, mem(out, 2*n*i)) // to nearest even
		}
	})
}

// widenPairs turns steps of a panel of pairs into twice as many rows of floats.
func widenPairs() {
	fn("widenPairs", "func(steps int, src *uint32, dst *float32)")
	Load(Param("steps"), reg.RAX)
	Load(Param("src"), reg.RBX)
	Load(Param("dst"), reg.RDX)
	VMOVUPS(consts["high"], v[15])
	n := 4 * lanes
	Label("loop")
	for i := range 2 { // a row of either set is two registers
		VMOVUPS(mem(reg.RBX, n*i), v[i])
		VPSLLD(Imm(16), v[i], v[2+i])
		VANDPS(v[15], v[i], v[i])
		VMOVUPS(v[i], mem(reg.RDX, n*i))
		VMOVUPS(v[2+i], mem(reg.RDX, 2*n+n*i))
	}
	ADDQ(I32(2*n), reg.RBX)
	ADDQ(I32(4*n), reg.RDX)
	DECQ(reg.RAX)
	JNE(LabelRef("loop"))
	ret()
}

// stochastic adds 16 random bits to each float before its low half falls. Philox2x32-10 of a counter gives
// two dwords; the dwords of 8 counters in turn serve 16 elements with their low halves, then 16 with their
// high halves.
func stochastic() {
	key, ctr, m, w, eight := v[8], v[9], v[10], v[11], v[12]
	whole("stochasticBF16", "func(out []uint16, x []float32, key uint32, counter uint64)", 2, 4, 32,
		func(_, _ reg.Register) {
			Load(Param("key"), reg.EAX)
			VMOVQ(reg.RAX, reg.X8)
			VPBROADCASTQ(reg.X8, key)
			Load(Param("counter"), reg.RAX)
			VMOVQ(reg.RAX, reg.X9)
			VPBROADCASTQ(reg.X9, ctr)
			VPADDQ(consts["counters"], ctr, ctr)
			VMOVUPS(consts["philoxM"], m)
			VMOVUPS(consts["philoxW"], w)
			MOVQ(I32(lanes/2), reg.RAX)
			VMOVQ(reg.RAX, reg.X12)
			VPBROADCASTQ(reg.X12, eight)
		},
		func(out, in reg.Register) {
			groups := 16 / lanes
			for g := range groups {
				random := v[13+g]
				philox(ctr, key, m, w, random, v[0], v[1], v[2])
				VPADDQ(eight, ctr, ctr)
			}
			for h := range 2 {
				for g := range groups {
					a, t := v[g], v[2+g]
					VMOVUPS(mem(in, 64*h+4*lanes*g), a)
					switch {
					case h == 1:
						VPSRLD(Imm(16), v[13+g], t)
					case wide():
						VPANDD(consts["low"], v[13+g], t)
					default:
						VPAND(consts["low"], v[13+g], t)
					}
					roundAdd(a, t, v[4], v[5])
				}
				if wide() {
					VPSRLD(Imm(16), v[0], v[0])
					VPMOVDW(v[0], mem(out, 32*h))
					continue
				}
				VPSRLD(Imm(16), v[0], v[0])
				VPSRLD(Imm(16), v[1], v[1])
				VPACKUSDW(v[1], v[0], v[0])
				VPERMQ(Imm(0xD8), v[0], v[0])
				VMOVDQU(v[0], mem(out, 32*h))
			}
		})
}

// philox makes r the two output words, first word low, of Philox2x32-10 of the counters c under key.
func philox(c, key, m, w, r, x0, x1, k reg.VecPhysical) {
	VMOVAPS(c, x0)
	VPSRLQ(Imm(32), c, x1)
	VMOVAPS(key, k)
	for round := range 10 {
		if round > 0 {
			VPADDD(w, k, k)
		}
		VXORPS(k, x1, x1)
		VPMULUDQ(m, x0, r)
		VPSRLQ(Imm(32), r, x0)
		VXORPS(x1, x0, x0)
		VMOVAPS(r, x1)
	}
	VPSLLQ(Imm(32), x0, x0)
	VPSRLQ(Imm(32), x0, x0)
	VPSLLQ(Imm(32), x1, x1)
	VORPS(x1, x0, r)
}
