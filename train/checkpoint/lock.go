package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock is the right to write into a Dir. The kernel takes it back when the process ends, however it ends.
type Lock struct{ f *os.File }

// LockedError says that another process writes into a directory.
type LockedError struct{ Path string }

// Error returns one line.
func (e *LockedError) Error() string {
	return fmt.Sprintf("checkpoint: another training writes into %s: stop it, or choose another directory", e.Path)
}

// lock takes the lock file at path.
func lock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return &Lock{f}, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &LockedError{filepath.Dir(path)}
	} else {
		err = fmt.Errorf("checkpoint: lock %s: %w", path, err)
	}
	return nil, errors.Join(err, f.Close())
}

// Close gives the lock back.
func (l *Lock) Close() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("checkpoint: unlock: %w", err)
	}
	return nil
}
