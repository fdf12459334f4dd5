package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
)

func nothing() {}

// vector emits the elementwise kernels without fused operations: exact against the generic ones.
func vector() {
	type p = []operand.Mem
	each("addAVX2", "func(out, x, y []float32)", []string{"out", "x", "y"}, nothing, func(a access, p p) {
		a.load(p[1], y[0])
		a.load(p[2], y[1])
		VADDPS(y[1], y[0], y[0])
		a.store(y[0], p[0])
	})
	each("mulAVX2", "func(out, x, y []float32)", []string{"out", "x", "y"}, nothing, func(a access, p p) {
		a.load(p[1], y[0])
		a.load(p[2], y[1])
		VMULPS(y[1], y[0], y[0])
		a.store(y[0], p[0])
	})
	each("axpyAVX2", "func(y []float32, a float32, x []float32)", []string{"y", "x"},
		func() { broadcast("a", y[8]) }, func(a access, p p) {
			a.load(p[1], y[0])
			a.load(p[0], y[1])
			VMULPS(y[8], y[0], y[0])
			VADDPS(y[0], y[1], y[1])
			a.store(y[1], p[0])
		})
	each("scaleAVX2", "func(out []float32, a float32, x []float32)", []string{"out", "x"},
		func() { broadcast("a", y[8]) }, func(a access, p p) {
			a.load(p[1], y[0])
			VMULPS(y[8], y[0], y[0])
			a.store(y[0], p[0])
		})
	each("normMulAVX2", "func(out, x, w []float32, s float32)", []string{"out", "x", "w"},
		func() { broadcast("s", y[8]) }, func(a access, p p) {
			a.load(p[1], y[0])
			a.load(p[2], y[1])
			VMULPS(y[8], y[0], y[0])
			VMULPS(y[1], y[0], y[0])
			a.store(y[0], p[0])
		})
	each("normSubAVX2", "func(dx, dy, x, w []float32, r, k float32)", []string{"dx", "dy", "x", "w"},
		func() { broadcast("r", y[8]); broadcast("k", y[9]) }, func(a access, p p) {
			a.load(p[1], y[0])
			a.load(p[2], y[1])
			a.load(p[3], y[2])
			VMULPS(y[2], y[0], y[0])
			VMULPS(y[9], y[1], y[1])
			VSUBPS(y[1], y[0], y[0])
			VMULPS(y[8], y[0], y[0])
			a.store(y[0], p[0])
		})
	each("mulAddAVX2", "func(dw, dy, x []float32, r float32)", []string{"dw", "dy", "x"},
		func() { broadcast("r", y[8]) }, func(a access, p p) {
			a.load(p[1], y[0])
			a.load(p[2], y[1])
			a.load(p[0], y[2])
			VMULPS(y[1], y[0], y[0])
			VMULPS(y[8], y[0], y[0])
			VADDPS(y[0], y[2], y[2])
			a.store(y[2], p[0])
		})
	each("subMulAVX2", "func(dx, dy, y []float32, d float32)", []string{"dx", "dy", "y"},
		func() { broadcast("d", y[8]) }, func(a access, p p) {
			a.load(p[1], y[0])
			a.load(p[2], y[1])
			VSUBPS(y[8], y[0], y[0])
			VMULPS(y[1], y[0], y[0])
			a.store(y[0], p[0])
		})
}
