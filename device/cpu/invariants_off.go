//go:build !invariants

package cpu

const invariants = false

func poison([][]float32) {}

func poisonArena([]byte) {}
