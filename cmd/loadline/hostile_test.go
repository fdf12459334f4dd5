package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"loadline/model/tokenizer"
	"loadline/train/checkpoint"
)

// TestErrorDocument checks that --json gives one document on stdout also where the command line is wrong before --json is read.
func TestErrorDocument(t *testing.T) {
	for _, line := range []string{
		"train --steps x --json", "train --no-such-flag --json", "train --json --steps x", "train --json --preset nope", "plan --lr --json=true",
		"train --preset llama-tiny --ranks 1000000000000000 --json", "train --preset llama-tiny --threads 1000000000 --json",
		"train --preset llama-tiny --accumulate 1000000000000000 --json", "train --preset llama-tiny --recompute head --json",
		"train --preset llama-tiny --lr 1e39 --json", "train --preset llama-tiny --clip 1e-46 --json", "nope --json",
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(line), strings.NewReader(""), &out, &errs)
		var d struct {
			Error string
			Try   string
			Code  int `json:"exit_code"`
		}
		err := json.Unmarshal(out.Bytes(), &d)
		if err != nil || code != codeUsage || d.Code != codeUsage || d.Error == "" || d.Try == "" {
			t.Errorf("%s: got exit code %d and %q on stdout, want 2 and a document: %v", line, code, out.String(), err)
		}
		twoLines(t, errs.String(), d.Error)
	}
	var out, errs bytes.Buffer
	if run([]string{"train", "--steps", "x", "--", "--json"}, strings.NewReader(""), &out, &errs); out.Len() > 0 {
		t.Errorf("--json behind --: got %q on stdout, want nothing", out.String())
	}
}

// TestFaultOfProgram checks that a panic is an error like any other.
func TestFaultOfProgram(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{json: true, out: &out, err: &errs}
	code := 0
	func() {
		defer a.recover(&code)
		var none []int
		_ = none[code]
	}()
	if code != codeFailed || !json.Valid(out.Bytes()) || !strings.Contains(errs.String(), "fault of loadline: runtime error") || !strings.Contains(errs.String(), "hostile_test.go") {
		t.Errorf("got exit code %d, document %s, stderr %s, want 1, a document and the stack", code, out.String(), errs.String())
	}
}

// TestDocumentOfNoNumber has a document that JSON has no words for: there is one all the same, about that.
func TestDocumentOfNoNumber(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{json: true, out: &out, err: &errs}
	err := a.fail(a.document(map[string]float64{"speed": math.NaN()}))
	if exitCode(err) != codeFailed || !json.Valid(out.Bytes()) || !strings.Contains(out.String(), "NaN") {
		t.Errorf("got exit code %d, document %q", exitCode(err), out.String())
	}
}

// TestHostileFiles puts a pipe, and a file of a terabyte, in the place of each file of a checkpoint. Every verb that reads it ends soon,
// with one clear line.
func TestHostileFiles(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	document(t, &trainDocument{}, codeDone, small(t, out, "--steps", "1")...)
	dir := filepath.Join(out, "step-1")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(path string) error{
		"pipe": func(path string) error { return unix.Mkfifo(path, 0o644) },
		"sparse": func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(1 << 40)
		},
	}
	for _, name := range []string{checkpoint.ConfigName, checkpoint.ModelName, checkpoint.TokenizerName, checkpoint.TrainerName, checkpoint.StateName(0)} {
		for kind, put := range kinds {
			path := filepath.Join(dir, name)
			if err := os.Rename(path, path+".kept"); err != nil {
				t.Fatal(err)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"inspect", dir},
				{"tokenize", "--model", dir, text},
				{"generate", "--model", dir, "--prompt", "To", "--max-tokens", "1", "--memory", "96MiB"},
				small(t, out, "--resume", out, "--steps", "2"),
			} {
				if !reads(args[0], name) {
					continue
				}
				began := time.Now()
				r := loadline(t, append(args, "--json")...)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s %s of %s: took %v", args[0], kind, name, took)
				}
				if !json.Valid([]byte(r.out)) {
					t.Errorf("%s %s of %s: stdout is no document: %q", args[0], kind, name, r.out)
				}
				if r.code != codeFailed {
					t.Errorf("%s %s of %s: got exit code %d, want 1: %s", args[0], kind, name, r.code, r.err)
				}
				twoLines(t, r.err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".kept", path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// reads tells whether a verb cannot do without a file.
func reads(verb, name string) bool {
	switch verb {
	case "inspect":
		return name != checkpoint.StateName(0)
	case "tokenize":
		return name == checkpoint.TokenizerName
	case "generate":
		return name != checkpoint.StateName(0) && name != checkpoint.TrainerName
	}
	return true
}

// lastLines is the end of a text.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestInterruptedEarly interrupts a run while it reads its text: it ends soon, and leaves nothing in the way.
func TestInterruptedEarly(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, bytes.Repeat([]byte("To be, or not to be, that is the question. "), 2<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "run")
	c := command(small(t, out, "--data", text, "--quiet=false", "--json")...)
	var doc bytes.Buffer
	c.Stdout = &doc
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var errs []byte
	for p := make([]byte, 1024); !bytes.Contains(errs, []byte("training a tokenizer")); {
		n, err := said.Read(p)
		if errs = append(errs, p[:n]...); err != nil {
			t.Fatalf("%v: %s", err, errs)
		}
	}
	began := time.Now()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(said)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); c.ProcessState.ExitCode() != codeFailed {
		t.Errorf("got %v, want exit code 1", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to end", took)
	}
	twoLines(t, lastLines(string(rest), 2), "interrupted before the first step")
	if !json.Valid(doc.Bytes()) || exists(out) {
		t.Errorf("got document %q, --out left %v, want a document and nothing left", doc.String(), exists(out))
	}
}

// alive reports whether a process runs.
func alive(pid int) bool {
	p, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(p, []byte(") Z "))
}

// TestInterruptedTwice interrupts a step that would go on for ever, twice.
func TestInterruptedTwice(t *testing.T) {
	for _, ranks := range []string{"1", "2"} {
		out := filepath.Join(t.TempDir(), "run")
		r := start(t, small(t, out, "--accumulate", "1000000", "--ranks", ranks, "--json")...)
		for range 2 { // begin, start
			if !r.events.Scan() {
				t.Fatalf("no event: %s", r.err.String())
			}
		}
		kids := children(t, r.Process.Pid)
		for range 2 {
			if err := r.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // two at once are one
		}
		if code := r.wait(t, 10*time.Second); code != codeFailed {
			t.Errorf("%s ranks: got exit code %d, want 1", ranks, code)
		}
		twoLines(t, lastLines(r.err.String(), 2), "interrupted twice")
		if !json.Valid(r.out.Bytes()) {
			t.Errorf("%s ranks: stdout is no document: %q", ranks, r.out.String())
		}
		for _, pid := range kids {
			for deadline := time.Now().Add(5 * time.Second); alive(pid); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Errorf("%s ranks: process %d is left", ranks, pid)
					break
				}
			}
		}
	}
}

// TestTokenizeFails checks that the document of ids, which is printed as it comes, is one document also when the text fails half-way.
func TestTokenizeFails(t *testing.T) {
	dir := t.TempDir()
	tok, err := tokenizer.Train(strings.NewReader("some text"), 300, tokenizer.TrainOptions{})
	if err == nil {
		err = tok.SaveFile(filepath.Join(dir, checkpoint.TokenizerName))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", strings.Repeat("some text ", 1<<18)} {
		var out, errs bytes.Buffer
		in := io.MultiReader(strings.NewReader(before), iotest.ErrReader(errors.New("bad disk")))
		code := run([]string{"tokenize", "--model", dir, "--json"}, in, &out, &errs)
		var d struct {
			IDs   []int32
			Error string
			Code  int `json:"exit_code"`
		}
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			t.Fatalf("%v: %s", err, lastLines(out.String(), 1))
		}
		if code != codeFailed || d.Code != codeFailed || !strings.Contains(d.Error, "bad disk") || (len(d.IDs) > 0) != (before != "") {
			t.Errorf("got exit code %d, %d ids, error %q", code, len(d.IDs), d.Error)
		}
		twoLines(t, errs.String(), "bad disk")
	}
	for _, before := range []string{"", "1 ", strings.Repeat("1 2 ", 1<<17)} {
		var out, errs bytes.Buffer
		in := io.MultiReader(strings.NewReader(before), iotest.ErrReader(errors.New("bad disk")))
		code := run([]string{"tokenize", "--model", dir, "--decode", "--json"}, in, &out, &errs)
		var d struct {
			Text, Error string
			Code        int `json:"exit_code"`
		}
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			t.Fatalf("%v: %s", err, lastLines(out.String(), 1))
		}
		if code != codeFailed || d.Code != codeFailed || !strings.Contains(d.Error, "bad disk") || (len(d.Text) > decodeBytes) != (len(before) > decodeBytes) {
			t.Errorf("--decode: got exit code %d, %d bytes, error %q", code, len(d.Text), d.Error)
		}
		twoLines(t, errs.String(), "bad disk")
	}
}

// TestHugeTokenizer gives a small model a tokenizer.json that takes more to read than the limit.
func TestHugeTokenizer(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	document(t, &trainDocument{}, codeDone, small(t, out, "--steps", "1")...)
	dir := filepath.Join(out, "step-1")
	path := filepath.Join(dir, checkpoint.TokenizerName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = append([]byte(`{"pad":"`+strings.Repeat("x", 8<<20)+`",`), text[1:]...)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "run")
	for _, args := range [][]string{
		{"generate", dir, "--prompt", "To", "--max-tokens", "1"}, {"plan", dir, "--context", "8"}, small(t, next, "--preset", "", "--model", dir),
	} {
		var d struct {
			Error string
			Code  int `json:"exit_code"`
		}
		document(t, &d, codeDoesNotFit, append(args, "--memory", "80MiB")...)
		if d.Code != codeDoesNotFit || !strings.Contains(d.Error, "takes up to 87.18 MiB, --memory is 80 MiB") || exists(next) {
			t.Errorf("%v: got exit code %d and %q", args, d.Code, d.Error)
		}
	}
	document(t, &generateDocument{}, codeDone, "generate", dir, "--prompt", "To", "--max-tokens", "1", "--memory", "128MiB")
}

// TestFullStdout runs verbs whose text for people goes to a full disk.
func TestFullStdout(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"plan", "--preset", "llama-tiny"}, {"train", "--preset", "list"}, {"train", "--help"}, {"plan", "--preset", "llama-tiny", "--json"}} {
		c := command(args...)
		c.Stdout = full
		r := finish(t, c)
		if r.code != codeFailed {
			t.Errorf("%v: got exit code %d, want 1", args, r.code)
		}
		twoLines(t, lastLines(r.err, 2), "no space left")
	}
}

// TestSweep checks that a resumed run removes what a killed one was writing, and nothing that is not its own.
func TestSweep(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	theirs := []string{"tokens-of-mine.txt", ".tmp-x", "notes"}
	ours := []string{".tokenizer.json.123", ".tokens-0123456789abcdef.55", "tokens-0123456789abcdef", "tokenizer.json.loadline.tmp", "chat_template.jinja.loadline.tmp", ".tmp-step-9/a", ".tmp-gone-step-1/a"}
	for _, name := range append(theirs, ours...) {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	document(t, &trainDocument{}, codeDone, small(t, out, "--resume", out, "--steps", "1")...)
	for _, name := range theirs {
		if !exists(filepath.Join(out, name)) {
			t.Errorf("%s of somebody else is gone", name)
		}
	}
	for _, name := range ours {
		if exists(filepath.Join(out, name)) {
			t.Errorf("%s is left", name)
		}
	}
}

// TestClaim starts runs at one moment that want the same directory: one gets it, and without --out each gets its own.
func TestClaim(t *testing.T) {
	dir := t.TempDir()
	const n = 4
	for _, named := range []bool{true, false} {
		codes := map[int]int{}
		var all []*running
		for range n {
			args := small(t, "", "--steps", "1")
			if named {
				args = append(args, "--out", "run")
			}
			r := &running{Cmd: command(args...), ended: make(chan error, 1)}
			r.Dir, r.Stderr = dir, &r.err
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		for _, r := range all {
			err := r.Wait()
			codes[r.ProcessState.ExitCode()]++
			if err != nil {
				twoLines(t, r.err.String(), "--out run exists")
			}
		}
		want := map[int]int{codeDone: 1, codeUsage: n - 1}
		if !named {
			want = map[int]int{codeDone: n}
		}
		if d := cmp.Diff(want, codes); d != "" {
			t.Errorf("--out given: %v; exit codes: -want +got\n%s", named, d)
		}
	}
}
