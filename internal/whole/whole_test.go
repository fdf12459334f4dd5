package whole

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
	wantDir(t, dir, "a=old", "a.loadline.tmp=new", "b.loadline.tmp=two")
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

func TestOneWriterAtATime(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	a := create(t, dir, "a", "first")
	if _, err := Create(path); !errors.Is(err, ErrBusy) {
		t.Errorf("a second writer: got %v, want ErrBusy", err)
	}
	wantDir(t, dir, "a.loadline.tmp=first")
	if err := Commit(a); err != nil {
		t.Fatal(err)
	}
	if err := create(t, dir, "a", "again").Abort(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+Suffix, []byte("of one that died, and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Commit(create(t, dir, "a", "third")); err != nil {
		t.Fatal(err)
	}
	wantDir(t, dir, "a=third")
}

// A writer may open the file just before the one that has it gives it its name: it must not cut it then.
func TestLockOfWhatIsFinished(t *testing.T) {
	dir := t.TempDir()
	a := create(t, dir, "a", "first")
	late, err := os.OpenFile(filepath.Join(dir, "a"+Suffix), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if err := Commit(a); err != nil {
		t.Fatal(err)
	}
	if err := lock(late, a.path); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want ErrBusy", err)
	}
}

func TestDir(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "d")
	if err := os.MkdirAll(filepath.Join(path+Suffix, "left", "over"), 0o700); err != nil { // of one that died
		t.Fatal(err)
	}
	d, err := CreateDir(path + string(filepath.Separator))
	if err != nil {
		t.Fatal(err)
	}
	wantDir(t, d.Path())
	if err := os.WriteFile(filepath.Join(d.Path(), "x"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateDir(path); !errors.Is(err, ErrBusy) {
		t.Errorf("a second writer: got %v, want ErrBusy", err)
	}
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	wantDir(t, path, "x=1")
	if err := d.Abort(); err != nil {
		t.Errorf("Abort after Commit: %v", err)
	}
	if d, err = CreateDir(path); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(); err == nil {
		t.Error("took the place of a directory that is not empty")
	}
	wantDir(t, path, "x=1")
	if list, err := os.ReadDir(parent); err != nil || len(list) != 1 {
		t.Errorf("got %v, %v, want only d", list, err)
	}
}

// TestWhatIsInTheWay has a link or a pipe of this name where the file would be written: nothing is written through it, and nobody waits.
func TestWhatIsInTheWay(t *testing.T) {
	for kind, put := range map[string]func(path, mine string) error{
		"link": func(path, mine string) error { return os.Symlink(mine, path) },
		"pipe": func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	} {
		dir, mine := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(mine, "x"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(put(filepath.Join(dir, "a"+Suffix), filepath.Join(mine, "x")), put(filepath.Join(dir, "d"+Suffix), mine)); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(filepath.Join(dir, "a")); err == nil {
			t.Errorf("%s: a file: got no error", kind)
		}
		if _, err := CreateDir(filepath.Join(dir, "d")); err == nil {
			t.Errorf("%s: a directory: got no error", kind)
		}
		wantDir(t, mine, "x=mine")
	}
}
