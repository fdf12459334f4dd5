//go:build !linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"loadline/mem"
)

// availableMemory is the machine's memory: systems without /proc do not tell what of it is free without cgo.
func availableMemory() (mem.Bytes, string, error) {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, "", fmt.Errorf("memory: hw.memsize: %w", err)
	}
	m, from := smallest(mem.Bytes(n), nil)
	if from == "MemAvailable" {
		from = "the machine's memory"
	}
	return m, from, nil
}
