package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/collective"
	"loadline/model"
	"loadline/train/checkpoint"
)

// stopAfter runs until n steps are done and rank 0 is interrupted; it returns the path of the checkpoint.
func stopAfter(t testing.TB, o Options, s setup, n int64) string {
	t.Helper()
	job := planned(t, o, s)
	var path string
	for rank, err := range onRanks(t, o.Ranks, func(g collective.Group) error {
		tr, err := open(job, g, s)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done, err := tr.Run(ctx, Hooks{Step: func(r StepResult) {
			if r.Step == n && tr.group.Rank() == 0 {
				cancel()
			}
		}})
		if err == nil && (done || tr.StepsDone() != n) {
			err = fmt.Errorf("stopped after step %d (done %v), want %d", tr.StepsDone(), done, n)
		}
		if tr.group.Rank() == 0 {
			path = tr.Checkpoint()
		}
		return errors.Join(err, tr.Close())
	}) {
		if err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	return path
}

// A run that is stopped and resumed has the losses of one that is not, and leaves the same files, in every ZeRO stage, and when the stage
// changes between.
func TestResumeIsExact(t *testing.T) {
	for _, v := range []struct {
		c           model.Config
		ranks       int
		first, then int // stages
		accumulate  int
	}{{tiny(), 1, 0, 0, 2}, {tinyMoE(), 2, 0, 0, 1}, {tiny(), 2, 1, 1, 1}, {tiny(), 2, 2, 3, 1}, {tinyMoE(), 2, 3, 0, 1}, {tinyGPT2(), 2, 0, 3, 1}} {
		t.Run(fmt.Sprintf("%s ranks %d zero %d-%d", v.c.ModelType, v.ranks, v.first, v.then), func(t *testing.T) {
			o := options(v.c)
			o.Batch, o.Ranks, o.Zero, o.Accumulate, o.Dropout = 2, v.ranks, v.then, v.accumulate, 0.1
			o.EvalEvery = 2
			whole := t.TempDir()
			want := train(t, o, setup{out: &checkpoint.Dir{Path: whole}})
			if len(want.vals) != 3 {
				t.Fatalf("got %d evaluations, want 3", len(want.vals))
			}
			out := t.TempDir()
			o.Zero = v.first
			path := stopAfter(t, o, setup{out: &checkpoint.Dir{Path: out}}, 3)
			if want := filepath.Join(out, "step-3"); path != want {
				t.Fatalf("got checkpoint %q, want %q", path, want)
			}
			o.Zero = v.then
			got := train(t, o, setup{out: &checkpoint.Dir{Path: out}, resume: out})
			sameBits(t, "losses", got.losses, want.losses)
			if fmt.Sprint(got.vals) != fmt.Sprint(want.vals) {
				t.Errorf("got validation losses %v, want %v", got.vals, want.vals)
			}
			sameFiles(t, filepath.Join(out, "step-6"), filepath.Join(whole, "step-6"))
		})
	}
}

// sameFiles fails unless two directories hold the same bytes.
func sameFiles(t testing.TB, got, want string) {
	t.Helper()
	names, err := os.ReadDir(want)
	if err != nil {
		t.Fatal(err)
	}
	if others, err := os.ReadDir(got); err != nil || len(others) != len(names) {
		t.Fatalf("%s: got %d files (%v), want %d", got, len(others), err, len(names))
	}
	for _, n := range names {
		a, err := os.ReadFile(filepath.Join(got, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(want, n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between %s and %s", n.Name(), got, want)
		}
	}
}

// Resuming a finished run makes no step and knows all losses; a directory without a checkpoint begins.
func TestResumeAtTheEnds(t *testing.T) {
	o := options(tiny())
	o.Steps = 2
	out := t.TempDir()
	want := train(t, o, setup{out: &checkpoint.Dir{Path: out}, resume: out})
	got := train(t, o, setup{out: &checkpoint.Dir{Path: out}, resume: out})
	sameBits(t, "losses", got.losses, want.losses)
	if len(got.norms) != 0 || got.path != filepath.Join(out, "step-2") {
		t.Errorf("got %d steps and %s, want none and the checkpoint that was there", len(got.norms), got.path)
	}
	other := t.TempDir()
	got = train(t, o, setup{out: &checkpoint.Dir{Path: other}, resume: filepath.Join(out, "step-2")})
	if got.path != filepath.Join(other, "step-2") {
		t.Errorf("into another directory: got %s, want the checkpoint there too", got.path)
	}
	sameFiles(t, got.path, filepath.Join(out, "step-2"))
}

// A setting that would make another run is refused by name.
func TestResumeRefusesAnotherRun(t *testing.T) {
	o := options(tiny())
	o.Steps = 2
	out := t.TempDir()
	train(t, o, setup{out: &checkpoint.Dir{Path: out}})
	for name, change := range map[string]func(o *Options){
		"seq":              func(o *Options) { o.Seq = 8 },
		"sequences a step": func(o *Options) { o.Batch = 2 },
		"seed":             func(o *Options) { o.Seed = 9 },
		"model":            func(o *Options) { o.Config.IntermediateSize = 64 },
		"optimizer":        func(o *Options) { o.Optimizer = 1 },
		"precision":        func(o *Options) { o.Precision = "bf16" },
	} {
		o := o
		change(&o)
		_, err := open(planned(t, o, setup{}), nil, setup{resume: out})
		var d *checkpoint.Disagreement
		if !errors.As(err, &d) || d.Name != name {
			t.Errorf("%s: got %v, want a *Disagreement about it", name, err)
		}
	}
	if _, err := open(planned(t, o, setup{}), nil, setup{resume: filepath.Join(out, "nothing")}); err != nil {
		t.Errorf("a directory that is not there: got %v, want a beginning", err)
	}
}

// A fault at any change to the file system while saving leaves the old checkpoint or the new one, whole: with one failure nothing else is
// left, and with a kill, after which nothing more happens, what is left is removed by the next Open. Going on from there gives the losses
// of a run without faults.
func TestFaultsWhileSaving(t *testing.T) {
	o := options(tiny())
	o.Config.NumLayers = 1
	o.Steps, o.SaveEvery, o.Keep = 4, 2, 1
	want := train(t, o, setup{out: &checkpoint.Dir{Path: t.TempDir()}})
	base := t.TempDir()
	stopAfter(t, o, setup{out: &checkpoint.Dir{Path: base}}, 2)
	job := planned(t, o, setup{})
	broken := errors.New("no space left on device")
	kinds := map[string]bool{}
	for _, kill := range []bool{false, true} {
		for fault := 0; ; fault++ {
			path := t.TempDir()
			if err := os.CopyFS(path, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			out := &checkpoint.Dir{Path: path}
			ops, hit := 0, false
			out.Before = func(op, _ string) error {
				ops++
				if ops-1 == fault || kill && ops > fault {
					hit = true
					kinds[op] = true
					return broken
				}
				return nil
			}
			tr, err := open(job, nil, setup{out: out, resume: path})
			if err != nil {
				t.Fatal(err)
			}
			_, err = tr.Run(t.Context(), Hooks{})
			if cerr := tr.Close(); cerr != nil {
				t.Fatal(cerr)
			}
			if !hit {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if !errors.Is(err, broken) && !kill {
				t.Errorf("fault %d: got %v, want it said", fault, err)
			}
			if err != nil && strings.Count(err.Error(), broken.Error()) > 1 && !kill {
				t.Errorf("fault %d: said more than once: %v", fault, err)
			}
			checkDirectory(t, path, fmt.Sprintf("kill %v fault %d", kill, fault), kill)
			got := trainJob(t, job, setup{out: &checkpoint.Dir{Path: path}, resume: path})
			sameBits(t, fmt.Sprintf("kill %v fault %d", kill, fault), got.losses, want.losses)
		}
	}
	for _, op := range []string{"mkdir", "create", "write", "sync", "rename", "remove", "syncdir"} {
		if !kinds[op] {
			t.Errorf("no fault at %s", op)
		}
	}
}

// checkDirectory fails unless a directory of checkpoints is whole after Open.
func checkDirectory(t testing.TB, path, what string, kill bool) {
	t.Helper()
	if !kill {
		left, err := filepath.Glob(filepath.Join(path, ".tmp-step-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: left %v (%v)", what, left, err)
		}
	}
	d := &checkpoint.Dir{Path: path}
	l, err := d.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	names, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n.Name() != ".lock" && !strings.HasPrefix(n.Name(), "step-") {
			t.Errorf("%s: Open leaves %s", what, n.Name())
		}
	}
	all, err := d.List()
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: got %d checkpoints (%v), want at least one", what, len(all), err)
	}
	for _, e := range all {
		s, err := checkpoint.ReadState(e.Path)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := s.Verify(e.Path); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// A rank that cannot write makes the save fail on all ranks, in the stage where they need each other to gather weights too.
func TestFaultOnOneRank(t *testing.T) {
	o := options(tiny())
	o.Batch, o.Ranks, o.Zero, o.Steps = 2, 2, 3, 1
	job := planned(t, o, setup{})
	for failing := range 2 {
		path := t.TempDir()
		errs := onRanks(t, 2, func(g collective.Group) error {
			out := &checkpoint.Dir{Path: path}
			if g.Rank() == failing {
				out.Before = func(op, name string) error {
					if op == "write" {
						return errors.New("disk full")
					}
					return nil
				}
			}
			tr, err := open(job, g, setup{out: out})
			if err != nil {
				return err
			}
			_, err = tr.Run(t.Context(), Hooks{})
			return errors.Join(err, tr.Close())
		})
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "disk full") || strings.Contains(err.Error(), "\n") {
				t.Errorf("rank %d fails: rank %d got %v, want one line about it", failing, rank, err)
			}
		}
		if names, err := os.ReadDir(path); err != nil || len(names) != 0 {
			t.Errorf("rank %d fails: left %v (%v)", failing, names, err)
		}
	}
}

// Damage to any file of a checkpoint is one line that names it and the checkpoint before.
func TestDamagedCheckpoint(t *testing.T) {
	o := options(tiny())
	o.Steps, o.SaveEvery = 2, 1
	base := t.TempDir()
	train(t, o, setup{out: &checkpoint.Dir{Path: base}})
	job := planned(t, o, setup{})
	for name, damage := range map[string]func([]byte) []byte{
		"truncated": func(p []byte) []byte { return p[:len(p)-5] },
		"flipped":   func(p []byte) []byte { p[len(p)/2] ^= 1; return p },
		"empty":     func(p []byte) []byte { return nil },
	} {
		for _, file := range []string{checkpoint.ModelName, checkpoint.StateName(0), checkpoint.ConfigName, checkpoint.TrainerName} {
			if name == "flipped" && file == checkpoint.TrainerName {
				continue // it holds the checksums, and is checked by its grammar
			}
			path := t.TempDir()
			if err := os.CopyFS(path, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(path, "step-2", file)
			p, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, damage(p), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err = open(job, nil, setup{resume: path})
			var d *checkpoint.DamagedError
			if !errors.As(err, &d) || filepath.Base(d.Path) != "step-2" || filepath.Base(d.Previous) != "step-1" {
				t.Errorf("%s %s: got %v, want a *DamagedError about step-2 that names step-1", file, name, err)
				continue
			}
			if text := err.Error(); !strings.Contains(text, file) || strings.Contains(text, "\n") {
				t.Errorf("%s %s: got %q, want one line that names the file", file, name, text)
			}
		}
	}
}
