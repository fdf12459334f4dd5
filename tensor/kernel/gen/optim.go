package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func optim() {
	// k: gradient scale, beta1, 1-beta1, beta2, 1-beta2, root, eps, decay, step.
	each("adamWStep", "func(w, m, v, g []float32, k *[9]float32)", []string{"w", "m", "v", "g"},
		func() {
			Load(Param("k"), reg.RDX)
			for i := range 9 {
				VBROADCASTSS(mem(reg.RDX, 4*i), v[6+i])
			}
		},
		func(a access, p []Mem) {
			a.load(p[3], v[0])
			a.load(p[1], v[1])
			a.load(p[2], v[2])
			a.load(p[0], v[3])
			VMULPS(v[6], v[0], v[0]) // g
			VMULPS(v[7], v[1], v[1])
			VMULPS(v[8], v[0], v[4])
			VADDPS(v[4], v[1], v[1]) // m
			a.store(v[1], p[1])
			VMULPS(v[9], v[2], v[2])
			VMULPS(v[10], v[0], v[4])
			VMULPS(v[0], v[4], v[4])
			VADDPS(v[4], v[2], v[2]) // v
			a.store(v[2], p[2])
			VSQRTPS(v[2], v[2])
			VMULPS(v[11], v[2], v[2])
			VADDPS(v[12], v[2], v[2])
			VMULPS(v[14], v[1], v[1])
			VDIVPS(v[2], v[1], v[1])
			VMULPS(v[13], v[3], v[3])
			VSUBPS(v[1], v[3], v[3])
			a.store(v[3], p[0])
		})

	// The two halves of a head are pointers 0, 1 (out) and 2, 3 (x).
	fn("rope", "func(out, x, cos, sin []float32, sign float32)")
	Load(Param("out").Base(), pointers[0])
	Load(Param("x").Base(), pointers[2])
	Load(Param("cos").Base(), pointers[4])
	Load(Param("sin").Base(), pointers[5])
	Load(Param("cos").Len(), reg.RCX)
	LEAQ(Mem{Base: pointers[0], Index: reg.RCX, Scale: 4}, pointers[1])
	LEAQ(Mem{Base: pointers[2], Index: reg.RCX, Scale: 4}, pointers[3])
	broadcast("sign", v[8])
	eachLoop(6, func(a access, p []Mem) {
		a.load(p[2], v[0])
		a.load(p[3], v[1])
		a.load(p[4], v[2])
		a.load(p[5], v[3])
		VMULPS(v[8], v[3], v[3])
		VMULPS(v[2], v[0], v[4])
		VMULPS(v[3], v[1], v[5])
		VSUBPS(v[5], v[4], v[4])
		VMULPS(v[2], v[1], v[5])
		VMULPS(v[3], v[0], v[6])
		VADDPS(v[6], v[5], v[5])
		a.store(v[4], p[0])
		a.store(v[5], p[1])
	})
	ret()
}
