package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"loadline/internal/regular"
	"loadline/internal/whole"
)

// replaceFile makes a regular file hold body: a new one, or one that is there, which a link may name. What was there stays until all of body is
// on the disk, and if that fails. A new file that could not be written is gone again.
func replaceFile(path string, body []byte) error {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return checkRegular(path)
	}
	path = linked(path)
	err := wholeFile(path, bytesOf(body))
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EBUSY) {
		return overwrite(path, body) // nothing can be beside it, or take its name, such as that of one file bound into a container
	}
	return err
}

// linked follows links from a path to what they name, which need not be there.
func linked(path string) string {
	for range 40 { // as the kernel does
		to, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + string(filepath.Separator) + to // not cleaned: .. is of where a directory's link leads
		}
		path = to
	}
	return path
}

// wholeFile makes a file of what write writes, under its name only when it is whole. One that has the name keeps its mode.
func wholeFile(path string, write func(io.Writer) error) error {
	w, err := whole.Create(path)
	if err != nil {
		return err
	}
	if err = write(w); err == nil {
		if st, e := os.Stat(path); e == nil {
			err = os.Chmod(path+whole.Suffix, st.Mode().Perm())
		}
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return whole.Commit(w)
}

// bytesOf writes body.
func bytesOf(body []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(body)
		return err
	}
}

// maxOverwritten bounds what is kept in memory while it is overwritten.
const maxOverwritten = 256 << 20

// overwrite is replaceFile without a file beside it: what was there is kept in memory, and put back into its own blocks of the disk.
func overwrite(path string, body []byte) (err error) {
	old, missing := regular.ReadAll(path, maxOverwritten)
	if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
		return missing
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	fill := func(p []byte) error {
		_, err := f.WriteAt(p, 0)
		if err == nil {
			err = f.Truncate(int64(len(p)))
		}
		return err
	}
	if err = fill(body); err == nil {
		err = f.Sync()
	}
	switch {
	case err == nil:
	case missing != nil:
		os.Remove(path) // why it stays, if it does, says less than err
	default:
		if e := fill(old); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: what was there could not be put back: %w", path, e))
		}
	}
	return errors.Join(err, f.Close())
}

// profileFile is where a CPU profile goes: a file that gets it when it is whole, or a pipe or a device.
type profileFile struct {
	path  string
	f     *os.File     // the pipe or the device
	whole bytes.Buffer // for a file: pprof has more in memory than this
}

// maxProfile bounds what is kept of a profile until it is whole.
const maxProfile = 64 << 20

// openProfile opens what --cpuprofile names, which checkOutputs has looked at, before the work; nil without it. Of a file nothing changes yet.
func openProfile(path string) (*profileFile, error) {
	if path == "" {
		return nil, nil
	}
	if st, err := os.Stat(path); err != nil || st.Mode().IsRegular() {
		return &profileFile{path: path}, nil
	}
	f, err := openStream(path, os.O_TRUNC)
	if err == nil {
		err = takes(f)
	}
	if err != nil {
		return nil, unopened("--cpuprofile", err)
	}
	return &profileFile{path: path, f: f}, nil
}

// Write implements io.Writer.
func (p *profileFile) Write(b []byte) (int, error) {
	if p.f != nil {
		return p.f.Write(b)
	}
	if p.whole.Len()+len(b) > maxProfile {
		return 0, fmt.Errorf("the profile takes more than %d MiB", maxProfile>>20)
	}
	return p.whole.Write(b)
}

// commit puts the profile where it goes.
func (p *profileFile) commit() error {
	if p.f != nil {
		return p.f.Close()
	}
	return replaceFile(p.path, p.whole.Bytes())
}

// discard gives up what was not committed.
func (p *profileFile) discard() {
	if p != nil && p.f != nil {
		p.f.Close() // of what is over it does nothing
	}
}

// takes tells why nothing can be written to a file that is open, if that can be told without writing.
func takes(f *os.File) error {
	if _, err := unix.Write(int(f.Fd()), nil); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		return errors.Join(&fs.PathError{Op: "write", Path: f.Name(), Err: err}, f.Close())
	}
	return nil
}
