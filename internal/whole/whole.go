// Package whole writes files that take their names only when every byte is on the disk.
//
//	Create ─▶ Write … Write ─▶ Commit: the files have their names, in the order given
//	   └──────────┴──────────▶ Abort: nothing is left
//
// Until Commit succeeds the bytes are in a file beside it, named with Suffix behind, which its writer has locked: one path has one writer at
// a time, and a second one gets ErrBusy. A process that dies leaves that file without its lock, and the next Create overwrites it. No link
// is followed there. A Dir is the same for a directory. Several files are renamed one by one: whoever writes a set gives last the file
// without which no reader takes the set for complete.
//
// It does not buffer, and does not judge what is written.
//
// Sources: rename(2), flock(2), fsync(2) on directories.
package whole

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Suffix is behind the name of what is being written. What has this name is taken for what a writer that died has left, and is overwritten:
// so it is one that nobody else uses. A plain .tmp was taken from users, down to the very directory that was to be converted.
const Suffix = ".loadline.tmp"

// File is a file that is being written.
type File struct {
	f     *os.File // nil once committed or aborted
	path  string
	bytes int64
}

// ErrBusy says that another writer has the path.
var ErrBusy = errors.New("it is being written by another process")

// Create begins a file.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(path+Suffix, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644) // not cut yet: it may be another's
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close())
	} else if !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s: not a regular file", f.Name()), f.Close())
	}
	if err := lock(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f: f, path: path}, nil
}

// lock takes what is being written for path for this writer, until f is closed.
func lock(f *os.File, path string) error {
	err := unix.EINTR
	for err == unix.EINTR {
		err = flock(f)
	}
	switch err {
	case 0, unix.ENOSYS, unix.ENOTSUP, unix.ENOLCK: // a file system without locks: the caller sees to it alone
	case unix.EWOULDBLOCK:
		return fmt.Errorf("%s: %w", path, ErrBusy)
	default:
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	ours, e := f.Stat()
	if e != nil {
		return e
	}
	if now, e := os.Stat(f.Name()); e != nil || !os.SameFile(ours, now) { // another finished it after f was opened
		return fmt.Errorf("%s: %w", path, ErrBusy)
	}
	return nil
}

// flock returns 0 or why there is no lock.
func flock(f *os.File) unix.Errno {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	var no unix.Errno
	if err != nil && !errors.As(err, &no) {
		return unix.EIO
	}
	return no
}

// Path is the name that the file will have.
func (w *File) Path() string { return w.path }

// Bytes is how many have been written.
func (w *File) Bytes() int64 { return w.bytes }

// Write appends p.
func (w *File) Write(p []byte) (int, error) {
	if w.f == nil {
		return 0, fs.ErrClosed
	}
	n, err := w.f.Write(p)
	w.bytes += int64(n)
	return n, err
}

// complete makes the bytes last.
func (w *File) complete() error {
	if w.f == nil {
		return fs.ErrClosed
	}
	st, err := w.f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != w.bytes {
		return fmt.Errorf("%s has %d bytes, want %d", w.f.Name(), st.Size(), w.bytes)
	}
	return w.f.Sync()
}

// Commit gives files of one directory their names, in place of files that had them; when it returns nil, all are on the disk. If
// anything fails before the first has its name, none is left.
func Commit(files ...*File) error {
	for _, w := range files {
		if err := w.complete(); err != nil {
			for _, w := range files {
				w.Abort() // the first error says more
			}
			return err
		}
	}
	for i, w := range files {
		if err := os.Rename(w.path+Suffix, w.path); err != nil {
			for _, w := range files[i:] {
				w.Abort()
			}
			return err
		}
		w.f.Close() // only now, for the lock goes with it; the bytes are on the disk
		w.f = nil
	}
	if len(files) == 0 {
		return nil
	}
	return syncDir(filepath.Dir(files[0].path))
}

// Abort gives the file up and leaves nothing. It does nothing after Commit.
func (w *File) Abort() error {
	if w.f == nil {
		return nil
	}
	err := os.Remove(w.f.Name())
	w.f.Close() // after it, for the lock goes too; its error is of no interest
	w.f = nil
	return err
}

// syncDir makes a rename in the directory last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
