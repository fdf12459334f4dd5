package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlanWrites checks that what plan writes goes into regular files alone: it waits for no pipe and follows no link that it was not given.
func TestPlanWrites(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(unix.Mkfifo(at("pipe"), 0o644), os.Mkdir(at("piped"), 0o755), os.Mkdir(at("linked"), 0o755), unix.Mkfifo(at("piped/loadline.yaml"), 0o644),
		os.Symlink(at("victim"), at("linked/loadline.yaml")), os.Symlink(at("report"), at("link"))); err != nil {
		t.Fatal(err)
	}
	const line = "plan llama-3.1-8b --hardware 8xH100 --task train "
	for _, x := range []struct {
		flags     string
		code      int
		says, try string
	}{
		{"--html " + at("pipe"), codeUsage, "is a pipe", "can be written"},
		{"--html " + dir, codeUsage, "is a directory", "can be written"},
		{"--write-config " + at("piped"), codeUsage, "is no regular file", "another directory"},
		{"--write-config " + at("linked"), codeUsage, "is no regular file", "another directory"},
		{"--html " + at("link"), codeDone, "", ""},
		{"--write-config " + at("new"), codeDone, "", ""},
		{"--write-config " + at("new"), codeDone, "", ""}, // the same again
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(line+x.flags), strings.NewReader(""), &out, &errs)
		if said := errs.String(); code != x.code || !strings.Contains(said, x.says) || !strings.Contains(said, x.try) {
			t.Errorf("%s: got exit code %d and %q, want %d, %q and %q", x.flags, code, said, x.code, x.says, x.try)
		}
	}
	if _, err := os.Stat(at("victim")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a link named: got error %v, want %v", err, fs.ErrNotExist)
	}
	if st, err := os.Stat(at("report")); err != nil || st.Size() < 1000 {
		t.Errorf("a report through a link that was given: got %v, %v", st, err)
	}
}

// TestPlanBelowDriver checks that nothing fits a card which the driver alone fills, not even what needs none of it.
func TestPlanBelowDriver(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var d plannerDocument
	document(t, &d, codeDoesNotFit, "plan", "llama-3.1-8b", "--hardware", "RTX-4090", "--memory", "1B")
	d.check(t, false)
}

// TestPlain checks that text from elsewhere moves no cursor.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{"héllo 世界 × 2": "héllo 世界 × 2", "a\x1b[31m\nb": `a\x1b[31m\nb`, "a\xffb": `a\xffb`, "": ""} {
		if got := plain(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
