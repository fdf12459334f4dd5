//go:build !purego

package kernel

import "golang.org/x/sys/unix"

// tilesPermitted asks the system to save AMX's tiles for this process, as often as one likes: Linux says no where
// it, or XCR0, does not know them. Linux's Documentation/arch/x86/xstate.rst. A signal's frame then has the tiles
// too, some 11 KiB, which fits the 32 KiB stack that Go gives its handlers.
func tilesPermitted() bool {
	const reqXCompPerm, xTileData = 0x1023, 18
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, reqXCompPerm, xTileData, 0)
	return err == 0
}
