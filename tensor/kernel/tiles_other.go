//go:build !linux && amd64 && !purego

package kernel

// tilesPermitted returns false: elsewhere than on Linux it is not known how to ask.
func tilesPermitted() bool { return false }
