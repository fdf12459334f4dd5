//go:build !amd64 || purego

package kernel

func turnHalvesFast([]byte, []byte, int) int { return 0 }

func turnLanesFast([]byte, []byte, int, int, uint32) bool { return false }
