package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

func nothing() {}

// vector emits the elementwise kernels without fused operations: exact against the generic ones.
func vector() {
	type p = []operand.Mem
	each("add", "func(out, x, y []float32)", []string{"out", "x", "y"}, nothing, func(a access, p p) {
		a.load(p[1], v[0])
		a.load(p[2], v[1])
		VADDPS(v[1], v[0], v[0])
		a.store(v[0], p[0])
	})
	each("mul", "func(out, x, y []float32)", []string{"out", "x", "y"}, nothing, func(a access, p p) {
		a.load(p[1], v[0])
		a.load(p[2], v[1])
		VMULPS(v[1], v[0], v[0])
		a.store(v[0], p[0])
	})
	each("axpy", "func(y []float32, a float32, x []float32)", []string{"y", "x"},
		func() { broadcast("a", v[8]) }, func(a access, p p) {
			a.load(p[1], v[0])
			a.load(p[0], v[1])
			VMULPS(v[8], v[0], v[0])
			VADDPS(v[0], v[1], v[1])
			a.store(v[1], p[0])
		})
	each("scale", "func(out []float32, a float32, x []float32)", []string{"out", "x"},
		func() { broadcast("a", v[8]) }, func(a access, p p) {
			a.load(p[1], v[0])
			VMULPS(v[8], v[0], v[0])
			a.store(v[0], p[0])
		})
	each("normMul", "func(out, x, w []float32, s float32)", []string{"out", "x", "w"},
		func() { broadcast("s", v[8]) }, func(a access, p p) {
			a.load(p[1], v[0])
			a.load(p[2], v[1])
			VMULPS(v[8], v[0], v[0])
			VMULPS(v[1], v[0], v[0])
			a.store(v[0], p[0])
		})
	each("normSub", "func(dx, dy, x, w []float32, r, k float32)", []string{"dx", "dy", "x", "w"},
		func() { broadcast("r", v[8]); broadcast("k", v[9]) }, func(a access, p p) {
			a.load(p[1], v[0])
			a.load(p[2], v[1])
			a.load(p[3], v[2])
			VMULPS(v[2], v[0], v[0])
			VMULPS(v[9], v[1], v[1])
			VSUBPS(v[1], v[0], v[0])
			VMULPS(v[8], v[0], v[0])
			a.store(v[0], p[0])
		})
	each("mulAdd", "func(dw, dy, x []float32, r float32)", []string{"dw", "dy", "x"},
		func() { broadcast("r", v[8]) }, func(a access, p p) {
			a.load(p[1], v[0])
			a.load(p[2], v[1])
			a.load(p[0], v[2])
			VMULPS(v[1], v[0], v[0])
			VMULPS(v[8], v[0], v[0])
			VADDPS(v[0], v[2], v[2])
			a.store(v[2], p[0])
		})
	each("subMul", "func(dx, dy, y []float32, d float32)", []string{"dx", "dy", "y"},
		func() { broadcast("d", v[8]) }, func(a access, p p) {
			a.load(p[1], v[0])
			a.load(p[2], v[1])
			VSUBPS(v[8], v[0], v[0])
			VMULPS(v[1], v[0], v[0])
			a.store(v[0], p[0])
		})
}
