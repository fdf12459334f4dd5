//go:build !amd64 || purego

package kernel

import "loadline/tensor/quant"

func (s Set) widenGroup(dst []float32, stride int, g quant.Group, src []byte) {
	widenGroupGeneric(dst, stride, g, src)
}
