package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loadline/train/checkpoint"
)

// running is a process whose events the test follows.
type running struct {
	*exec.Cmd
	out, err bytes.Buffer
	events   *bufio.Scanner
	ended    chan error
}

// start starts loadline with its events on a pipe.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	r := &running{Cmd: command(append(args, "--events", fmt.Sprintf("/dev/fd/%d", eventsFD))...), events: bufio.NewScanner(from), ended: make(chan error, 1)}
	r.ExtraFiles = []*os.File{to}
	r.Stdout, r.Stderr = &r.out, &r.err
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.Wait() }()
	return r
}

// until reads events up to the step, and reports whether it came.
func (r *running) until(t *testing.T, step int64) bool {
	t.Helper()
	for r.events.Scan() {
		var e struct {
			Event string
			Step  int64
		}
		if err := json.Unmarshal(r.events.Bytes(), &e); err != nil {
			t.Fatalf("event %q: %v", r.events.Text(), err)
		}
		if e.Event == "step" && e.Step >= step {
			return true
		}
	}
	return false
}

// wait waits for the end, reading what events are left, and returns the exit code; one that does not come within the time is killed.
func (r *running) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	go func() {
		for r.events.Scan() {
		}
	}()
	select {
	case <-r.ended:
	case <-time.After(within):
		r.Process.Kill()
		t.Fatalf("loadline did not end within %v; stderr:\n%s", within, r.err.String())
	}
	return r.ProcessState.ExitCode()
}

// twoLines checks that stderr ends with an error of one line and what to do in one.
func twoLines(t *testing.T, stderr string, says ...string) {
	t.Helper()
	noPackages(t, stderr)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	n := len(lines)
	if strings.Count(stderr, "loadline: ") != 1 || n < 2 || !strings.HasPrefix(lines[n-2], "loadline: ") || !strings.HasPrefix(lines[n-1], "  try: ") {
		t.Errorf("want one line that says what went wrong and one that says what to do, got\n%s", stderr)
		return
	}
	for _, s := range says {
		if !strings.Contains(lines[n-2], s) {
			t.Errorf("got %q, want %q in it", lines[n-2], s)
		}
	}
}

// TestKill kills a run at random moments and resumes it: the losses have the bits of a run that nobody killed.
func TestKill(t *testing.T) {
	const steps, kills = 40, 5
	more := []string{"--steps", fmt.Sprint(steps), "--save-every", "4", "--recompute", "full"}
	args := small(t, filepath.Join(t.TempDir(), "whole"), more...)
	var want trainDocument
	document(t, &want, codeDone, args...)

	out := filepath.Join(t.TempDir(), "killed")
	args[slices.Index(args, "--out")+1] = out
	args = append(args, "--resume", out)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for k := range kills {
		r := start(t, args...)
		at := int64(1 + k*steps/kills + rng.IntN(steps/kills))
		if !r.until(t, at) {
			t.Fatalf("step %d did not come: %s", at, r.err.String())
		}
		if rng.IntN(2) == 0 { // somewhere in the next steps or a save
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
		if err := r.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		r.wait(t, 10*time.Second)
	}
	var got trainDocument
	document(t, &got, codeDone, args...)
	if !slices.Equal(got.Losses, want.Losses) {
		t.Errorf("got losses %v, want %v", got.Losses, want.Losses)
	}
	for _, name := range dirNames(t, out) {
		if strings.HasPrefix(name, ".tmp") || strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
	}
}

// TestInterrupt stops a run by a signal: it saves, says so and ends with 0; resumed, it goes on as if nothing had been.
func TestInterrupt(t *testing.T) {
	for _, ranks := range []string{"1", "2"} {
		out := filepath.Join(t.TempDir(), "run")
		args := small(t, out, "--steps", "100000", "--schedule", "constant", "--ranks", ranks, "--threads", "1", "--json")
		r := start(t, args...)
		if !r.until(t, 3) {
			t.Fatalf("%s ranks: no step: %s", ranks, r.err.String())
		}
		if err := r.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(t, 20*time.Second); code != codeDone {
			t.Fatalf("%s ranks: got exit code %d, want 0: %s", ranks, code, r.err.String())
		}
		var d trainDocument
		if err := json.Unmarshal(r.out.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if !d.Interrupted || d.Steps < 3 || int64(len(d.Losses)) != d.Steps || !exists(filepath.Join(out, fmt.Sprintf("step-%d", d.Steps))) {
			t.Errorf("%s ranks: interrupted %v after %d steps with %d losses", ranks, d.Interrupted, d.Steps, len(d.Losses))
		}
		var again trainDocument
		args[slices.Index(args, "100000")] = fmt.Sprint(d.Steps + 1)
		document(t, &again, codeDone, append(args[:len(args)-1], "--resume", out)...)
		if int64(len(again.Losses)) != d.Steps+1 || !slices.Equal(again.Losses[:d.Steps], d.Losses) {
			t.Errorf("%s ranks: resumed: got %d losses, want the %d and one more", ranks, len(again.Losses), d.Steps)
		}
	}
}

// TestRanks trains on two ranks, and compares with one: the sums of a batch may be in another order.
func TestRanks(t *testing.T) {
	var one, two trainDocument
	document(t, &one, codeDone, small(t, filepath.Join(t.TempDir(), "a"), "--steps", "3", "--batch", "4")...)
	args := small(t, filepath.Join(t.TempDir(), "b"), "--steps", "3", "--ranks", "2", "--threads", "1")
	r := document(t, &two, codeDone, append(args, "--zero", "1")...)
	checkMemory(t, "2 ranks", two.memoryReport)
	if two.Ranks != 2 || len(two.Losses) != 3 || two.ByPurpose["comm_buffers"].Ledger == 0 {
		t.Errorf("got %+v", two)
	}
	if !strings.Contains(r.err, "2 ranks: 2 × ") {
		t.Errorf("the plan does not say what the ranks take together:\n%s", r.err)
	}
	for i, l := range two.Losses {
		if d := l - one.Losses[i]; d > 1e-4 || d < -1e-4 {
			t.Errorf("step %d: loss %v on two ranks, %v on one", i+1, l, one.Losses[i])
		}
	}
	args[slices.Index(args, "--out")+1] = filepath.Join(t.TempDir(), "c")
	var plain trainDocument
	document(t, &plain, codeDone, args...)
	if !slices.Equal(plain.Losses, two.Losses) {
		t.Errorf("ZeRO stage 0: got losses %v, stage 1 %v: want the same bits", plain.Losses, two.Losses)
	}
}

// TestKilledRank kills one rank: the run ends with an error that names it, and no process stays.
func TestKilledRank(t *testing.T) {
	r := start(t, small(t, filepath.Join(t.TempDir(), "run"), "--steps", "100000", "--ranks", "2", "--threads", "1")...)
	if !r.until(t, 2) {
		t.Fatalf("no step: %s", r.err.String())
	}
	ranks := children(t, r.Process.Pid)
	if len(ranks) != 2 {
		t.Fatalf("got processes %v, want two ranks", ranks)
	}
	if err := syscall.Kill(ranks[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t, 5*time.Second); code != codeFailed {
		t.Errorf("got exit code %d, want 1", code)
	}
	twoLines(t, r.err.String(), "rank ", "killed")
	for _, pid := range ranks {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d is left", pid)
		}
	}
}

// children lists the children of a process, oldest first.
func children(t *testing.T, pid int) []int {
	t.Helper()
	out, err := exec.Command("ps", "-eo", "pid=,ppid=").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for line := range strings.Lines(string(out)) {
		var p, parent int
		if n, _ := fmt.Sscan(line, &p, &parent); n == 2 && parent == pid {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// TestFaults checks what the world can do to a run: one clear line each, exit code 1, and no directory that stands in the way.
func TestFaults(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.txt")
	short := filepath.Join(t.TempDir(), "short.txt")
	lines := filepath.Join(t.TempDir(), "lines.jsonl")
	for path, s := range map[string]string{empty: "", short: "Too short.", lines: `{"content": "Too short."}`} {
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		more []string
		says string
	}{
		{[]string{"--data", t.TempDir()}, "is a directory"},
		{[]string{"--data", empty}, "is empty"},
		{[]string{"--data", lines}, `line 1: there is no field "text": its fields are "content"`},
		{[]string{"--data", lines, "--data-field", "content"}, "tokens, a window of 32 needs 33"},
		{[]string{"--data", short, "--data-field", "content"}, "it is plain text"},
		{[]string{"--data", "../../data/parquet/testdata/latin.parquet"}, "row 2: it is not UTF-8"},
		{[]string{"--data", "../../data/parquet/testdata/plain.parquet", "--data-field", "content"}, `there is no column "content"`},
		{[]string{"--data", short}, "tokens, a window of 32 needs 33"},
		{[]string{"--val-data", short}, "tokens, a window of 32 needs 33"},
		{[]string{"--lr", "1e12", "--clip", "0", "--warmup", "0", "--optimizer", "sgd"}, "is NaN"},
		{[]string{"--lr", "1e12", "--clip", "0", "--warmup", "0", "--optimizer", "sgd", "--ranks", "2"}, "is NaN"},
	} {
		out := filepath.Join(t.TempDir(), "run")
		r := loadline(t, small(t, out, append(x.more, "--steps", "30", "--save-every", "0")...)...)
		if r.code != codeFailed {
			t.Errorf("%v: got exit code %d, want 1: %s", x.more, r.code, r.err)
		}
		twoLines(t, r.err, x.says)
		if exists(out) {
			t.Errorf("%v: --out is left", x.more)
		}
	}
}

// TestDocuments trains on JSON lines and evaluates on Parquet; the field has its name for both.
func TestDocuments(t *testing.T) {
	lines := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(lines, []byte(strings.Repeat(`{"id": 1, "text": "So shaken as we are, so wan with care,\nfind we a time"}`+"\n", 50)), 0o644); err != nil {
		t.Fatal(err)
	}
	var d trainDocument
	document(t, &d, codeDone, small(t, filepath.Join(t.TempDir(), "run"), "--steps", "2", "--data", lines, "--val-data", "../../data/parquet/testdata/snappy.parquet", "--data-field", "text")...)
	if len(d.Losses) != 2 || len(d.ValLosses) == 0 {
		t.Errorf("got losses %v and %v, want two and one", d.Losses, d.ValLosses)
	}
}

// TestDamaged resumes from a checkpoint in which a bit has turned.
func TestDamaged(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	args := small(t, out, "--steps", "2")
	document(t, &trainDocument{}, codeDone, args...)
	path := filepath.Join(out, "step-2", "model.safetensors")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], 100_000); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], 100_000); err != nil {
		t.Fatal(err)
	}
	r := loadline(t, append(args, "--resume", out, "--steps", "3")...)
	if r.code != codeFailed {
		t.Errorf("got exit code %d, want 1", r.code)
	}
	twoLines(t, r.err, "damaged", "checksum")
}

// TestResumeAdvice resumes with other settings than the checkpoint was made with, and does what is advised.
func TestResumeAdvice(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	args := small(t, out, "--steps", "1")
	document(t, &trainDocument{}, codeDone, args...)
	args = append(args, "--resume", out)
	for more, try := range map[string]string{"--seq 16": "--seq 32, ", "--seed 7": "--seed 1, ", "--optimizer lion": "--optimizer adamw, "} {
		line := append(slices.Clone(args), strings.Fields(more)...)
		r := loadline(t, line...)
		if r.code != codeFailed || !strings.Contains(r.err, "\n  try: "+try) {
			t.Errorf("%s: got exit code %d and %s, want %q", more, r.code, r.err, try)
			continue
		}
		if r := loadline(t, append(line, strings.Fields(strings.TrimSuffix(try, ", "))...)...); r.code != codeDone {
			t.Errorf("%s: as advised, %s: got exit code %d and %s", more, try, r.code, r.err)
		}
	}
	for _, x := range []struct {
		d    checkpoint.Disagreement
		want string
	}{
		{checkpoint.Disagreement{Name: "precision", Have: "bf16 without masters", Want: "bf16"}, "--precision bf16 --master none, or start anew with another --out"},
		{checkpoint.Disagreement{Name: "precision", Have: "bf16", Want: "bf16 without masters"}, "--precision bf16 --master fp32, or start anew with another --out"},
		{checkpoint.Disagreement{Name: "optimizer", Have: "sgd, momentum 0.9, nesterov", Want: "adamw"}, "--optimizer sgd --momentum 0.9 --nesterov=true, or start anew with another --out"},
		{checkpoint.Disagreement{Name: "sequences a step", Have: "16", Want: "8"}, "--batch, --accumulate and --ranks with a product of 16, or start anew with another --out"},
		{checkpoint.Disagreement{Name: "loss scale", Want: "{}"}, "use the settings that the checkpoint was made with, or start anew with another --out"},
	} {
		if got := resumeAdvice(&x.d); got != x.want {
			t.Errorf("%+v: got %q, want %q", x.d, got, x.want)
		}
	}
}

// TestLocked starts a second run in the directory of one that goes on.
func TestLocked(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	args := small(t, out, "--steps", "100000")
	r := start(t, args...)
	if !r.until(t, 1) {
		t.Fatalf("no step: %s", r.err.String())
	}
	second := loadline(t, append(args, "--resume", out)...)
	if second.code != codeFailed {
		t.Errorf("got exit code %d, want 1", second.code)
	}
	twoLines(t, second.err, "another training writes into")
	if err := r.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := r.wait(t, 20*time.Second); code != codeDone {
		t.Errorf("the first run: got exit code %d: %s", code, r.err.String())
	}
}
