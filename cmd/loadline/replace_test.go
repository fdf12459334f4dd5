package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"loadline/internal/regular"
	"loadline/internal/whole"
)

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	long := at(strings.Repeat("x", 250)) // there is no room for a name beside it
	if err := errors.Join(os.WriteFile(at("file"), []byte("what was there is longer"), 0o600), unix.Mkfifo(at("pipe"), 0o644), os.Symlink("file", at("link")),
		os.Symlink("to", at("nowhere")), os.WriteFile(at("only-written"), []byte("old"), 0o200)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{at("pipe"), dir, "/dev/null"} {
		if err := replaceFile(path, []byte("x")); !errors.Is(err, regular.ErrNot) {
			t.Errorf("%s: got error %v, want %v", path, err, regular.ErrNot)
		}
	}
	if err := replaceFile(at("missing/x"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got error %v", err)
	}
	for _, path := range []string{at("new"), at("link"), at("nowhere"), at("only-written"), long, long} {
		if err := replaceFile(path, []byte("four")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at("only-written"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "four" {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	if st, err := os.Stat(at("file")); err != nil || st.Mode().Perm() != 0o600 || st.Size() != 4 {
		t.Errorf("through a link: got %v, %v", st, err)
	}
	if to, err := os.Readlink(at("link")); err != nil || to != "file" {
		t.Errorf("the link: got %q, %v", to, err)
	}
}

// TestReplaceFileFails: what could not be written to its end leaves nothing, be it named by a link, and what was there stays.
func TestReplaceFileFails(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	long := strings.Repeat("x", 250)
	old := map[string]string{"old": "what was there", long: strings.Repeat("the same where nothing can be beside it ", 2)}
	for name, text := range old {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("to", at("link")); err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	small := was
	small.Cur = 8 << 20 // more than what the testing package writes meanwhile
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_FSIZE, &was)
	for _, name := range []string{"file", "link", "old", long, long[1:]} {
		if err := replaceFile(at(name), make([]byte, 9<<20)); !errors.Is(err, unix.EFBIG) {
			t.Errorf("%s: got %v, want a file too large", name, err)
		}
	}
	for name, text := range old {
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != text {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, text)
		}
	}
	if left := dirNames(t, dir); len(left) != 3 {
		t.Errorf("got %v left, want what was there", left)
	}
}

// TestProfileFiles: of two profiles of one name at once the last has it, that there is one changes nothing before, and its mode stays.
func TestProfileFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "profile")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []*profileFile
	for _, text := range []string{"one", "two"} {
		p, err := openProfile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer p.discard()
		if _, err := p.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	for i, want := range []string{"old", "one", "two"} {
		if i > 0 {
			if err := all[i-1].commit(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if left := dirNames(t, dir); err != nil || string(got) != want || len(left) != 1 {
			t.Errorf("%d committed: got %q, %v, and in the directory %v, want %q alone", i, got, err, left, want)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want that of the old one", st.Mode(), err)
	}
	if _, err := all[0].Write(make([]byte, maxProfile)); err == nil {
		t.Error("a profile without a bound: got no error")
	}
}

// TestProfileFile: a profile takes the place of one that is there only when it is whole.
func TestProfileFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "profile")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, fails := range []bool{true, false} {
		p, err := openProfile(path)
		if err != nil {
			t.Fatal(err)
		}
		failure := errors.New("no")
		if !fails {
			failure = nil
		}
		if err := profiled(p, func() error { return failure }); !errors.Is(err, failure) {
			t.Errorf("got %v, want %v", err, failure)
		}
		p.discard()
		got, err := os.ReadFile(path)
		if err != nil || fails != (string(got) == "old") || !fails && len(got) == 0 {
			t.Errorf("fails %v: got %d bytes, %v", fails, len(got), err)
		}
		if exists(path + whole.Suffix) {
			t.Error("what was written first is left")
		}
	}
}
