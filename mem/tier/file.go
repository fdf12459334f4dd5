package tier

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"loadline/internal/regular"
	"loadline/mem"
)

// ErrShort says that a file ends before what it held when it was opened: something else has cut it.
var ErrShort = fmt.Errorf("the file has been cut: %w", io.EOF)

// FileStore is a Store in a file, read by pread and written by pwrite. Errors name the file. It is safe for concurrent use where
// offsets do not overlap.
type FileStore struct {
	file        *os.File
	path        string
	bytes       mem.Bytes
	reservation *mem.Reservation // nil for a file that was there before
}

// CreateFile books n bytes of the disk tier and creates a file of that length with all of its blocks allocated, so that a disk that
// is too small says so now. It replaces what was at path. The file stays after Close.
func CreateFile(l *mem.Ledger, p mem.Purpose, path string, n mem.Bytes) (*FileStore, error) {
	return create(l, p, n, path, func() (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644) })
}

// TempFile is CreateFile for a file in dir that is gone after Close. Its name is removed at once, so that a killed process leaves
// nothing behind.
func TempFile(l *mem.Ledger, p mem.Purpose, dir string, n mem.Bytes) (*FileStore, error) {
	f, err := create(l, p, n, dir, func() (*os.File, error) { return os.CreateTemp(dir, "offload-*.tmp") })
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.path); err != nil {
		f.Close()
		return nil, fmt.Errorf("tier: %w", err)
	}
	return f, nil
}

// OpenFile opens a file that exists, to read only. It books nothing.
func OpenFile(path string) (*FileStore, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("tier: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("tier: %w", err)
	}
	return &FileStore{file: f, path: path, bytes: mem.Bytes(info.Size())}, nil
}

// create books, opens and allocates; path is what an error of opening names.
func create(l *mem.Ledger, p mem.Purpose, n mem.Bytes, path string, open func() (*os.File, error)) (*FileStore, error) {
	r, err := l.Reserve(mem.Disk, p, n)
	if err != nil {
		return nil, err
	}
	f, err := open()
	if err != nil {
		r.Release()
		return nil, diskError(path, n, err)
	}
	if n > 0 {
		if err := allocate(f, int64(n)); err != nil {
			f.Close()
			os.Remove(f.Name())
			r.Release()
			return nil, diskError(f.Name(), n, err)
		}
	}
	return &FileStore{file: f, path: f.Name(), bytes: n, reservation: r}, nil
}

// Path returns the file's name, which for a temporary file exists no more.
func (f *FileStore) Path() string { return f.path }

// Bytes returns the file's length.
func (f *FileStore) Bytes() mem.Bytes { return f.bytes }

// ReadAt reads all of p.
func (f *FileStore) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(p, off); err != nil {
		return 0, err
	}
	n, err := f.file.ReadAt(p, off)
	if n < len(p) {
		if errors.Is(err, io.EOF) {
			err = ErrShort
		}
		return n, fmt.Errorf("tier: file %q: read %d of %d bytes at offset %d: %w", f.path, n, len(p), off, err)
	}
	return n, nil
}

// WriteAt writes all of p.
func (f *FileStore) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check(p, off); err != nil {
		return 0, err
	}
	n, err := f.file.WriteAt(p, off)
	if err != nil {
		return n, diskError(f.path, mem.Bytes(len(p)), err)
	}
	return n, nil
}

// Close closes the file and releases its bytes in the ledger.
func (f *FileStore) Close() error {
	err := f.file.Close()
	if f.reservation != nil {
		f.reservation.Release()
	}
	if err != nil {
		return fmt.Errorf("tier: %w", err)
	}
	return nil
}

// check keeps the store to the length that was booked.
func (f *FileStore) check(p []byte, off int64) error {
	if off < 0 || off > int64(f.bytes) || int64(len(p)) > int64(f.bytes)-off {
		return fmt.Errorf("tier: file %q of %v: want %d bytes at offset %d, which is past its end", f.path, f.bytes, len(p), off)
	}
	return nil
}

// diskError says which file wanted how much, and whether the disk is full. It wraps err.
func diskError(path string, n mem.Bytes, err error) error {
	full := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		full = "the disk is full: "
	}
	var of *os.PathError
	if errors.As(err, &of) {
		err = of.Err // the path is named once
	}
	return fmt.Errorf("tier: file %q: %swant %v: %w", path, full, n, err)
}
