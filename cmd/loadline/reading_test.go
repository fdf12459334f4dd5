package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// told is a writer that tells of its first write.
type told struct {
	text  bytes.Buffer
	first chan struct{}
}

func (w *told) Write(p []byte) (int, error) {
	if w.text.Len() == 0 {
		close(w.first)
	}
	return w.text.Write(p)
}

// TestWatch reads a file: where it takes long, it is told how much is read, at what rate, and when it will be over; with --quiet nothing is.
func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 4<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, err := newGauge(f)
	if err != nil {
		t.Fatal(err)
	}
	w := &told{first: make(chan struct{})}
	looks := 0
	stop := (&app{err: w}).watch("tokenizing x", func() (done, all int64) {
		if looks++; looks < 4 {
			io.CopyN(io.Discard, g, 1<<10) // it is long enough
		}
		return g.read()
	})
	<-w.first
	stop()
	if text := w.text.String(); !regexp.MustCompile(`^tokenizing x  3 KiB / 4 KiB  .*/s  ETA .*s\n$`).MatchString(text) {
		t.Errorf("got %q", text)
	}
	quiet := &app{err: &w.text, quiet: true}
	quiet.watch("x", func() (done, all int64) {
		t.Error("looked at")
		return 0, 0
	})()
	if rest, err := io.ReadAll(g); err != nil || len(rest) != 1<<10 || g.done.Load() != 4<<10 {
		t.Errorf("got %d bytes more, %v", len(rest), err)
	}
}

// TestLearning: that a tokenizer's text is read is told once, whatever becomes of it.
func TestLearning(t *testing.T) {
	for _, calls := range []int{0, 1, 3} {
		var w bytes.Buffer
		ended := 0
		o, stop := (&app{err: &w}).learning(func() { ended++ })
		for i := range calls {
			for begin := time.Now(); i == 2 && time.Since(begin) < watchEvery; {
			}
			o.Progress(256+i, 258)
		}
		stop()
		if ended != 1 {
			t.Errorf("%d calls: ended %d times, want once", calls, ended)
		}
		if got := strings.HasPrefix(w.String(), "token 258/258  "); got != (calls == 3) {
			t.Errorf("%d calls: got %q", calls, w.String())
		}
	}
}
