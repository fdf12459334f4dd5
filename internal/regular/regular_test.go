package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	loop, nowhere := filepath.Join(dir, "loop"), filepath.Join(dir, "nowhere")
	for _, err := range []error{
		os.WriteFile(file, []byte("four"), 0o644), unix.Mkfifo(pipe, 0o644), os.Symlink("file", link), os.Symlink("loop", loop),
		os.Symlink("missing", nowhere),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{file, nil}, {link, nil}, {dir, ErrNot}, {pipe, ErrNot}, {"/dev/null", ErrNot}, {"/dev/zero", ErrNot},
		{nowhere, fs.ErrNotExist}, {filepath.Join(dir, "missing"), fs.ErrNotExist}, {loop, unix.ELOOP}, {filepath.Join(file, "x"), unix.ENOTDIR},
	} {
		f, err := Open(c.path)
		if err == nil {
			f.Close()
		}
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got error %v, want %v", c.path, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: got error %v, want one that names it", c.path, err)
		}
	}
}

func TestReadAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("four"), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadAll(path, 4); err != nil || string(p) != "four" {
		t.Errorf("got %q and error %v, want the file", p, err)
	}
	if p, err := ReadAll(path, 3); err == nil || p != nil {
		t.Errorf("got %q and error %v, want an error about its length", p, err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	file, pipe, link := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("what was there is longer"), 0o600), unix.Mkfifo(pipe, 0o644), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, "/dev/null"} {
		if err := WriteFile(path, []byte("x")); !errors.Is(err, ErrNot) {
			t.Errorf("%s: got error %v, want %v", path, err, ErrNot)
		}
	}
	if err := WriteFile(filepath.Join(dir, "missing", "x"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got error %v", err)
	}
	for _, path := range []string{filepath.Join(dir, "new"), link} {
		if err := WriteFile(path, []byte("four")); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "four" {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 || st.Size() != 4 {
		t.Errorf("through a link: got %v, %v", st, err)
	}
}

// TestWriteFileFails: what could not be written to its end leaves nothing, be it named by a link.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.Symlink("to", link); err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	small := old
	small.Cur = 100
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &old)
	for _, path := range []string{file, link} {
		if err := WriteFile(path, make([]byte, 1000)); !errors.Is(err, unix.EFBIG) {
			t.Errorf("%s: got %v, want a file too large", path, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("got %v left, %v, want the link alone", left, err)
	}
}
