//go:build !amd64 || purego

package kernel

func (s Set) quant() *quantTable { return &genericQuant }
