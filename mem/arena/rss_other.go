//go:build !linux

package arena

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"loadline/mem"
)

// VmHWM returns the most memory that has been resident in this process, as getrusage tells it.
func VmHWM() (mem.Bytes, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("arena: getrusage: %w", err)
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return mem.Bytes(usage.Maxrss), nil // bytes there, KiB on the BSDs
	}
	return mem.Bytes(usage.Maxrss) * mem.KiB, nil
}

// VmRSS returns an upper bound of the memory that is resident now: its highest value so far. Systems without /proc tell no more
// without cgo.
func VmRSS() (mem.Bytes, error) { return VmHWM() }
