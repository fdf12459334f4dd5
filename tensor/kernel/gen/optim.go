package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func optim() {
	// k: gradient scale, beta1, 1-beta1, beta2, 1-beta2, root, eps, decay, step.
	each("adamWStepAVX2", "func(w, m, v, g []float32, k *[9]float32)", []string{"w", "m", "v", "g"},
		func() {
			Load(Param("k"), reg.RDX)
			for i := range 9 {
				VBROADCASTSS(mem(reg.RDX, 4*i), y[6+i])
			}
		},
		func(a access, p []Mem) {
			a.load(p[3], y[0])
			a.load(p[1], y[1])
			a.load(p[2], y[2])
			a.load(p[0], y[3])
			VMULPS(y[6], y[0], y[0]) // g
			VMULPS(y[7], y[1], y[1])
			VMULPS(y[8], y[0], y[4])
			VADDPS(y[4], y[1], y[1]) // m
			a.store(y[1], p[1])
			VMULPS(y[9], y[2], y[2])
			VMULPS(y[10], y[0], y[4])
			VMULPS(y[0], y[4], y[4])
			VADDPS(y[4], y[2], y[2]) // v
			a.store(y[2], p[2])
			VSQRTPS(y[2], y[2])
			VMULPS(y[11], y[2], y[2])
			VADDPS(y[12], y[2], y[2])
			VMULPS(y[14], y[1], y[1])
			VDIVPS(y[2], y[1], y[1])
			VMULPS(y[13], y[3], y[3])
			VSUBPS(y[1], y[3], y[3])
			a.store(y[3], p[0])
		})

	// The two halves of a head are pointers 0, 1 (out) and 2, 3 (x).
	fn("ropeAVX2", "func(out, x, cos, sin []float32, sign float32)")
	Load(Param("out").Base(), pointers[0])
	Load(Param("x").Base(), pointers[2])
	Load(Param("cos").Base(), pointers[4])
	Load(Param("sin").Base(), pointers[5])
	Load(Param("cos").Len(), reg.RCX)
	LEAQ(Mem{Base: pointers[0], Index: reg.RCX, Scale: 4}, pointers[1])
	LEAQ(Mem{Base: pointers[2], Index: reg.RCX, Scale: 4}, pointers[3])
	broadcast("sign", y[8])
	eachLoop(6, func(a access, p []Mem) {
		a.load(p[2], y[0])
		a.load(p[3], y[1])
		a.load(p[4], y[2])
		a.load(p[5], y[3])
		VMULPS(y[8], y[3], y[3])
		VMULPS(y[2], y[0], y[4])
		VMULPS(y[3], y[1], y[5])
		VSUBPS(y[5], y[4], y[4])
		VMULPS(y[2], y[1], y[5])
		VMULPS(y[3], y[0], y[6])
		VADDPS(y[6], y[5], y[5])
		a.store(y[4], p[0])
		a.store(y[5], p[1])
	})
	ret()
}
