package tier

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"loadline/mem"
)

func TestStores(t *testing.T) {
	l := mem.NewLedger(mem.Limits{})
	dir := t.TempDir()
	path := filepath.Join(dir, "kept")
	kept, err := CreateFile(l, mem.OptimState, path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	temporary, err := TempFile(l, mem.Activations, dir, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if want := (mem.Usage{mem.Disk: {mem.OptimState: 1000, mem.Activations: 1000}}); l.InUse() != want {
		t.Errorf("ledger: got %v, want %v", l.InUse(), want)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 1000 || kept.Bytes() != 1000 {
		t.Errorf("created file: got %v, %v", info, err)
	}
	for name, s := range map[string]Store{"memory": NewMemStore(make([]byte, 1000)), "file": kept, "temporary file": temporary} {
		if n, err := s.WriteAt([]byte("cargo"), 990); n != 5 || err != nil {
			t.Errorf("%s: write: got %d, %v", name, n, err)
		}
		got := make([]byte, 10)
		if n, err := s.ReadAt(got, 990); n != 10 || err != nil || string(got) != "cargo\x00\x00\x00\x00\x00" {
			t.Errorf("%s: read: got %d, %v, %q", name, n, err, got)
		}
		for _, off := range []int64{-1, 991, 1001, 1 << 62} {
			if _, err := s.ReadAt(got, off); err == nil {
				t.Errorf("%s: read at %d: got no error", name, off)
			}
			if _, err := s.WriteAt(got, off); err == nil {
				t.Errorf("%s: write at %d: got no error", name, off)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l.InUse() != (mem.Usage{}) {
		t.Errorf("after Close: got %v booked", l.InUse())
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "kept" {
		t.Errorf("after Close: got %v, %v, want the kept file alone", left, err)
	}

	again, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := again.ReadAt(got, 990); err != nil || string(got) != "cargo" || again.Bytes() != 1000 || l.InUse() != (mem.Usage{}) {
		t.Errorf("opened: got %q, %v", got, err)
	}
	if _, err := again.WriteAt(got, 0); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("write to a file opened to read: got %v, want an error naming it", err)
	}
	// Cut behind our back.
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := again.ReadAt(got, 990); !errors.Is(err, ErrShort) || !strings.Contains(err.Error(), path) {
		t.Errorf("read of a cut file: got %v, want ErrShort and the path", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestFilesThatCannotBe(t *testing.T) {
	l := mem.NewLedger(mem.Limits{Tier: [mem.NumTiers]mem.Bytes{mem.Disk: 1 << 40}})
	missing := filepath.Join(t.TempDir(), "missing", "file")
	_, createErr := CreateFile(l, mem.Weights, missing, 1000)
	_, tempErr := TempFile(l, mem.Weights, filepath.Dir(missing), 1000)
	_, openErr := OpenFile(missing)
	for _, err := range []error{createErr, tempErr, openErr} {
		if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "tier: ") || strings.Count(err.Error(), "missing") != 1 {
			t.Errorf("got %v, want the path, once", err)
		}
	}
	var over *mem.OverBudgetError
	if _, err := CreateFile(l, mem.Weights, missing, 2<<40); !errors.As(err, &over) {
		t.Errorf("past the limit: got %v, want an *mem.OverBudgetError", err)
	}
	if l.InUse() != (mem.Usage{}) {
		t.Errorf("got %v booked, want nothing", l.InUse())
	}
}

func TestDiskErrorIsOneClearLine(t *testing.T) {
	err := diskError("out/offload", 512*mem.MiB, &os.PathError{Op: "write", Path: "out/offload", Err: syscall.ENOSPC})
	if want := `tier: file "out/offload": the disk is full: want 512 MiB: no space left on device`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error("it does not wrap ENOSPC")
	}
}
