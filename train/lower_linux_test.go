package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/mem"
	"loadline/train/checkpoint"
)

// A lower tier that fails ends the run with one line, once, and what was saved before is whole.
func TestLowerTierFails(t *testing.T) {
	o := options(tiny())
	o.OffloadOptimizer, o.Steps = true, 4
	out := t.TempDir()
	tr, err := open(planned(t, o, setup{}), nil, setup{out: &checkpoint.Dir{Path: out}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Step(); err != nil {
		t.Fatal(err)
	}
	path, err := tr.Save()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, out+"/offload-") {
			if err := os.Truncate(fd, 4096); err != nil {
				t.Fatal(err)
			}
			cut++
		}
	}
	if cut != 1 {
		t.Fatalf("%d files of the lower tier, want 1", cut)
	}
	_, err = tr.Step()
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "offload-") || !strings.Contains(err.Error(), "read ") {
		t.Fatalf("got %v, want one line about reading the file", err)
	}
	if _, again := tr.Step(); again != err {
		t.Errorf("the step after: got %v", again)
	}
	if _, again := tr.Save(); again != err {
		t.Errorf("a save after: got %v", again)
	}
	if err := tr.Close(); err != nil {
		t.Errorf("Close says it again: %v", err)
	}
	if u := tr.env.Ledger.InUse(); u != (mem.Usage{}) {
		t.Errorf("after Close: the ledger holds %v", u)
	}
	o.OffloadOptimizer = false
	if got := train(t, o, setup{out: &checkpoint.Dir{Path: out}, resume: path}); len(got.losses) != 4 {
		t.Errorf("resumed: %d losses", len(got.losses))
	}
}
