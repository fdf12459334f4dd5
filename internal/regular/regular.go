// Package regular opens files that have to be regular ones: their length is known, and reading them ends and never waits.
//
// Paths come from users. A directory in a file's place gives an odd error when it is read, a named pipe blocks the process when it
// is opened, a device such as /dev/zero never ends, and a length read from the file system means nothing for any of them. Open
// refuses them with one plain error, so that no other package has to ask.
//
// It does not judge what is in a file.
//
// Sources: open(2) on O_NONBLOCK and named pipes.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNot says that a path is there and names something other than a regular file.
var ErrNot = errors.New("not a regular file")

// Open opens a regular file to read.
func Open(path string) (*os.File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := check(path, st); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // were it a pipe by now, it would still not wait
	if err != nil {
		return nil, err
	}
	if st, err = f.Stat(); err == nil {
		err = check(path, st)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadAll returns what is in a regular file of at most limit bytes.
func ReadAll(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	p, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(p)) > limit {
		return nil, fmt.Errorf("%s: want at most %d bytes", path, limit)
	}
	return p, nil
}

func check(path string, st fs.FileInfo) error {
	what := "is special"
	switch m := st.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		what = "is a directory"
	case m&fs.ModeNamedPipe != 0:
		what = "is a pipe"
	case m&fs.ModeDevice != 0:
		what = "is a device"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%s, %w", what, ErrNot)}
}
