package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullDisk trains onto disks that fill up. /dev/full is there for everybody; a file system of its own only for who may mount one.
func TestFullDisk(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	r := loadline(t, small(t, out, "--steps", "2", "--events", "/dev/full")...)
	if r.code != codeFailed {
		t.Errorf("events: got exit code %d, want 1", r.code)
	}
	twoLines(t, r.err, "--events", "no space left on device")
	if exists(out) || strings.Contains(r.err, "tokenizer") {
		t.Errorf("events: work began: %s", r.err)
	}

	r = loadline(t, "bench", "train", "--preset", "llama-tiny", "--batch", "1", "--seq", "16", "--steps", "1", "--memory", "96MiB", "--cpuprofile", "/dev/full")
	if r.code != codeFailed {
		t.Errorf("profile: got exit code %d, want 1", r.code)
	}
	twoLines(t, r.err, "--cpuprofile", "no space left on device")
	if strings.Contains(r.err, "GFLOP") || strings.Contains(r.out, "tokens/s") {
		t.Errorf("profile: work began: %s%s", r.out, r.err)
	}

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	c := command("plan", "--preset", "llama-tiny", "--batch", "1", "--seq", "16", "--memory", "96MiB", "--json")
	c.Stdout = full
	if r := finish(t, c); r.code != codeFailed {
		t.Errorf("document: got exit code %d, want 1", r.code)
	}

	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=14m"); err != nil {
		t.Logf("no file system to fill: %v; package checkpoint's tests fill one without", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	out = filepath.Join(disk, "run")
	for _, ranks := range []string{"1", "2"} {
		args := small(t, out, "--steps", "4", "--save-every", "1", "--keep", "0", "--ranks", ranks, "--threads", "1")
		r = loadline(t, args...)
		if r.code != codeFailed {
			t.Errorf("%s ranks: got exit code %d, want 1: %s", ranks, r.code, r.err)
		}
		twoLines(t, r.err, "no space left on device")
		if got := checkpoints(t, out); len(got) != 1 || got[0] != "step-1" {
			t.Errorf("%s ranks: got checkpoints %v, want step-1", ranks, got)
		}
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKernelOutputs names what the kernel has and nobody writes: access(2) says nothing against it, so it is tried, before any work.
func TestKernelOutputs(t *testing.T) {
	lines := []string{"convert main.go /proc/x --to gguf", "train --preset llama-tiny --offload optimizer --tier file:/proc=1GiB", "plan check main.go --learn --hardware H100 --profile /proc/x"}
	for _, o := range outputFlags() {
		line := strings.TrimPrefix(o.verb, "loadline ")
		switch o.flag {
		case "events":
			line = "inspect main.go"
		case "program":
			line = "plan --preset llama-tiny"
		case "html", "write-config":
			line = "plan llama-3.1-8b --hardware H100"
		case "write":
			line += " --only nothing"
			if o.what.directory {
				line = "plan score main.go"
			}
		case "out":
			if line += " --preset llama-tiny"; !o.what.directory {
				line = "pull https://127.0.0.1:1/x"
			}
		case "cpuprofile":
			line += " --model main.go"
		}
		lines = append(lines, line+" --"+o.flag+" /proc/x")
		if !o.what.directory && !o.what.replaces {
			lines = append(lines, line+" --"+o.flag+" /proc/cmdline")
		}
	}
	for _, line := range lines {
		var out, errs bytes.Buffer
		code := run(strings.Fields(line), strings.NewReader(""), &out, &errs)
		if code != codeUsage || out.Len() > 0 {
			t.Errorf("%s: got exit code %d and %q on stdout, want 2 and nothing", line, code, out.String())
		}
		twoLines(t, errs.String(), "/proc")
	}
}
