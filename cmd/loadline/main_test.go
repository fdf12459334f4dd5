package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadline/cost"
	"loadline/data/corpus"
)

// Tests run real processes: the test binary starts itself again and is loadline then. Ranks and the rows of demo, which start this
// program again, come the same way.
const beLoadline = "LOADLINE_TEST_BE_LOADLINE"

var update = flag.Bool("update", false, "rewrite golden files")

func TestMain(m *testing.M) {
	if os.Getenv(beLoadline) != "" {
		main()
	}
	os.Setenv(machineVar, cost.Laptop2().Name) // so that what is planned does not depend on the speed of the machine that tests
	os.Exit(m.Run())
}

// command is loadline with arguments.
func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), beLoadline+"=1")
	return c
}

// result is what a process said and how it ended.
type result struct {
	out, err string
	code     int
}

// loadline runs a command line to its end.
func loadline(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, command(args...))
}

func finish(t *testing.T, c *exec.Cmd) result {
	t.Helper()
	var out, err bytes.Buffer
	if c.Stdout == nil {
		c.Stdout = &out
	}
	c.Stderr = &err
	if e := c.Run(); c.ProcessState == nil {
		t.Fatal(e)
	}
	return result{out.String(), err.String(), c.ProcessState.ExitCode()}
}

// document runs a command line with --json and reads its document; it has to end with code.
func document(t *testing.T, doc any, code int, args ...string) result {
	t.Helper()
	r := loadline(t, append(args, "--json")...)
	if r.code != code {
		t.Fatalf("loadline %s: got exit code %d, want %d; stderr:\n%s", strings.Join(args, " "), r.code, code, r.err)
	}
	d := json.NewDecoder(strings.NewReader(r.out))
	if err := d.Decode(doc); err != nil {
		t.Fatalf("loadline %s: document %q: %v", strings.Join(args, " "), r.out, err)
	}
	if d.More() {
		t.Fatalf("loadline %s: want one document, got %q", strings.Join(args, " "), r.out)
	}
	return r
}

// text writes n bytes of the embedded text to a file and returns its path.
func text(t *testing.T, n int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.txt")
	p, err := io.ReadAll(io.LimitReader(corpus.Text(), n))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, p, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// small are the flags of a run of few milliseconds a step, without --out where out is empty.
func small(t *testing.T, out string, more ...string) []string {
	if out != "" {
		more = append([]string{"--out", out}, more...)
	}
	return append([]string{"train", "--preset", "llama-tiny", "--data", text(t, 40_000), "--batch", "2", "--seq", "32", "--memory", "96MiB", "--quiet"}, more...)
}
