package whole

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is a directory that is being written.
type Dir struct {
	f    *os.File // holds the lock; nil once committed or aborted
	path string
}

// CreateDir begins a directory, which is empty. Its parent is there.
func CreateDir(path string) (*Dir, error) {
	path = filepath.Clean(path)
	if err := os.Mkdir(path+Suffix, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	f, err := os.OpenFile(path+Suffix, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := lock(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	list, err := f.ReadDir(-1) // what one that died has left
	for _, e := range list {
		err = errors.Join(err, os.RemoveAll(filepath.Join(f.Name(), e.Name())))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Dir{f: f, path: path}, nil
}

// Path is where the directory is while it is being written.
func (d *Dir) Path() string { return d.path + Suffix }

// Commit gives the directory its name, which nothing may have but an empty directory. If it fails, nothing is left.
func (d *Dir) Commit() error {
	if d.f == nil {
		return os.ErrClosed
	}
	err := os.Rename(d.Path(), d.path)
	if err != nil {
		return errors.Join(err, d.Abort())
	}
	d.f.Close() // its error is of no interest: nothing was written to it
	d.f = nil
	return syncDir(filepath.Dir(d.path))
}

// Abort gives the directory up and leaves nothing. It does nothing after Commit.
func (d *Dir) Abort() error {
	if d.f == nil {
		return nil
	}
	err := os.RemoveAll(d.Path())
	d.f.Close()
	d.f = nil
	if err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return nil
}
