//go:build !amd64 || purego

package kernel

func fastBF16() bool { return false }
