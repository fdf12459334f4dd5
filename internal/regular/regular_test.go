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
