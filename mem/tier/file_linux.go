package tier

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives f its length and all of its blocks, or only the length on a file system that cannot allocate ahead.
func allocate(f *os.File, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return f.Truncate(n)
		}
		return err
	}
}
