package whole

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// create begins the file name in dir with some text.
func create(t *testing.T, dir, name, text string) *File {
	t.Helper()
	w, err := Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Write([]byte(text)); err != nil || n != len(text) {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
	return w
}

// wantDir compares the files of a directory, as name=content.
func wantDir(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		p, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Name()+"="+string(p))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	if err := Commit(create(t, dir, "a", "old")); err != nil {
		t.Fatal(err)
	}
	a, b := create(t, dir, "a", "new"), create(t, dir, "b", "two")
	wantDir(t, dir, "a=old", "a.tmp=new", "b.tmp=two")
	if err := Commit(a, b); err != nil {
		t.Fatal(err)
	}
	wantDir(t, dir, "a=new", "b=two")
	if _, err := a.Write([]byte("x")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Commit: %v", err)
	}
	if err := Commit(a); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Commit: %v", err)
	}
	if err := a.Abort(); err != nil {
		t.Errorf("Abort after Commit: %v", err)
	}
	wantDir(t, dir, "a=new", "b=two")
}

func TestCommitLeavesNothingBehind(t *testing.T) {
	for name, spoil := range map[string]func(a, b *File) error{
		"cut":     func(_, b *File) error { return os.Truncate(b.f.Name(), 1) },
		"closed":  func(_, b *File) error { return b.f.Close() },
		"aborted": func(_, b *File) error { return b.Abort() },
		"renamed away": func(a, _ *File) error {
			return os.Mkdir(a.path, 0o700) // a file cannot take the place of a directory
		},
	} {
		dir := t.TempDir()
		a, b := create(t, dir, "a", "one"), create(t, dir, "b", "two")
		if err := spoil(a, b); err != nil {
			t.Fatal(err)
		}
		if err := Commit(a, b); err == nil {
			t.Errorf("%s: got no error", name)
		}
		os.Remove(a.path)
		wantDir(t, dir)
	}
}

func TestCreateRefuses(t *testing.T) {
	if _, err := Create(filepath.Join(t.TempDir(), "none", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
