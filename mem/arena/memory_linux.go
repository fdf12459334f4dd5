package arena

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"loadline/mem"
)

// adviseHuge asks for huge pages or forbids them. A kernel built without them answers EINVAL, and needs neither.
func adviseHuge(b []byte, huge bool) error {
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	if err := unix.Madvise(b, advice); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// memoryFile returns a memfd of n bytes whose length is sealed, so that no process can cut it under another's mapping. It is not in
// /dev/shm, which containers often limit to 64 MiB.
func memoryFile(n mem.Bytes) (*os.File, error) {
	fd, err := unix.MemfdCreate("arena", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "arena")
	if err := f.Truncate(int64(n)); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
