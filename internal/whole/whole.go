// Package whole writes files that take their names only when every byte is on the disk.
//
//	Create ─▶ Write … Write ─▶ Commit: the files have their names, in the order given
//	   └──────────┴──────────▶ Abort: nothing is left
//
// Until Commit succeeds the bytes are in a file beside it, named with .tmp behind, so one path has one writer at a time. A process that
// dies leaves that file, and the next Create overwrites it. Several files are renamed one by one: whoever writes a set gives last the file
// without which no reader takes the set for complete.
//
// It does not buffer, and does not judge what is written.
//
// Sources: rename(2), fsync(2) on directories.
package whole

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// suffix is behind the name of a file that is being written.
const suffix = ".tmp"

// File is a file that is being written.
type File struct {
	f     *os.File // nil once committed or aborted
	path  string
	bytes int64
}

// Create begins a file.
func Create(path string) (*File, error) {
	f, err := os.OpenFile(path+suffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return &File{f: f, path: path}, nil
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
	if err := w.f.Sync(); err != nil {
		return err
	}
	return w.f.Close()
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
		if err := os.Rename(w.path+suffix, w.path); err != nil {
			for _, w := range files[i:] {
				w.Abort()
			}
			return err
		}
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
	name := w.f.Name()
	w.f.Close() // closed already, or of no interest: the file goes
	w.f = nil
	return os.Remove(name)
}

// syncDir makes a rename in the directory last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
