package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/cost"
	"loadline/planner/probe"
	"loadline/tensor/kernel"
)

// quick are steps that learn so fast that the last bits of losses tell kernels apart, and so short that the generic ones take no long time.
var quick = []string{"--seq", "16", "--lr", "5e-3", "--warmup", "1"}

// --kernels reaches what trains, on one rank and on two: sets that are said to have the same bits have, and one that multiplies in parts has others.
// No set changes a byte of the plan.
func TestTrainKernels(t *testing.T) {
	for _, sharing := range [][]string{nil, {"--batch", "1", "--ranks", "2"}} {
		var peak trainDocument
		losses := map[string][]float32{}
		for _, set := range kernel.Sets() {
			var d trainDocument
			args := small(t, filepath.Join(t.TempDir(), "run"), slices.Concat(quick, sharing, []string{"--steps", "4", "--threads", "1", "--kernels", set.Name()})...)
			document(t, &d, codeDone, args...)
			if d.Predicted == 0 || d.Predicted != d.Ledger {
				t.Errorf("%s: predicted %v, the ledger saw %v", set.Name(), d.Predicted, d.Ledger)
			}
			if d.Kernels != set.Name() || len(d.Losses) != 4 {
				t.Fatalf("%s: got kernels %s, losses %v", set.Name(), d.Kernels, d.Losses)
			}
			if peak.Predicted == 0 {
				peak = d
			}
			if losses[d.Kernels] = d.Losses; d.Predicted != peak.Predicted {
				t.Errorf("%s takes %v, %s %v", d.Kernels, d.Predicted, peak.Kernels, peak.Predicted)
			}
		}
		for _, s := range kernel.Sets() {
			for name, x := range losses {
				switch same := slices.Equal(x, losses[s.Name()]); {
				case s.SameBits(name) && !same:
					t.Errorf("%v: %s has losses %v, %s %v: want the same", sharing, s.Name(), losses[s.Name()], name, x)
				case s.Parts() != s && name != s.Name() && same:
					t.Errorf("%v: %s and %s have the losses %v: want others in parts", sharing, s.Name(), name, x)
				}
			}
		}
	}
}

// A checkpoint keeps the name of its kernels, and a run that goes on from it with others says what that does, and how to go on to the same bits.
func TestResumeKernels(t *testing.T) {
	sets := kernel.Sets()
	first, last := sets[0], sets[len(sets)-1]
	base := t.TempDir()
	var whole trainDocument
	document(t, &whole, codeDone, small(t, filepath.Join(base, "whole"), slices.Concat(quick, []string{"--steps", "8", "--kernels", first.Name()})...)...)
	out := filepath.Join(base, "run")
	args := small(t, out, slices.Concat(quick, []string{"--steps", "2", "--kernels", first.Name()})...)
	document(t, &trainDocument{}, codeDone, args...)
	var i inspectDocument
	document(t, &i, codeDone, "inspect", out)
	if i.Training == nil || i.Training.Kernels != first.Name() {
		t.Errorf("inspect: got %+v, want kernels %s", i.Training, first.Name())
	}
	talk := slices.DeleteFunc(slices.Clone(args), func(s string) bool { return s == "--quiet" })
	for _, set := range []kernel.Set{first, last} {
		var d trainDocument
		r := document(t, &d, codeDone, append(talk, "--steps", "8", "--resume", out, "--out", filepath.Join(base, "of "+set.Name()), "--kernels", set.Name())...)
		want := "the checkpoint is of " + first.Name() + " kernels, these are " + set.Name() + ": losses may differ in their last bits from what those would give; " +
			"--kernels " + first.Name() + " goes on to the same\n"
		if set.SameBits(first.Name()) {
			if strings.Contains(r.err, "the checkpoint is of") || !slices.Equal(d.Losses, whole.Losses) {
				t.Errorf("%s: got losses %v, want %v, and said %s", set.Name(), d.Losses, whole.Losses, r.err)
			}
			continue
		}
		if !strings.Contains(r.err, "going on from step 2\n"+want) {
			t.Errorf("%s: said %s, want %q", set.Name(), r.err, want)
		}
		if !slices.Equal(d.Losses[:2], whole.Losses[:2]) || slices.Equal(d.Losses, whole.Losses) {
			t.Errorf("%s goes on to losses %v after %s, which has %v: want others from step 3 on", set.Name(), d.Losses, first.Name(), whole.Losses)
		}
	}
}

// Every verb that computes takes --kernels, says what it took, and refuses a set that this CPU does not run, or that is none of its own.
func TestKernelsFlag(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	document(t, &trainDocument{}, codeDone, small(t, out, "--steps", "1")...)
	data := text(t, 4000)
	verbs := map[string][]string{
		"train":       small(t, filepath.Join(t.TempDir(), "other"), "--steps", "1"),
		"generate":    {"generate", out, "--prompt", "To be", "--max-tokens", "4", "--temperature", "0"},
		"eval":        {"eval", "--perplexity", out, "--data", data, "--context", "32", "--windows", "1"},
		"bench":       {"bench", out, "-p", "8", "-n", "2", "--repeat", "1"},
		"bench train": {"bench", "train", "--preset", "llama-tiny", "--batch", "1", "--seq", "32", "--steps", "1"},
		"bench cost":  {"bench", "cost", "--machine", cost.Laptop2().Name, "--only", "llama-tiny bf16", "--passes", "1", "--threads", "1"},
		"bench recompute": {"bench", "recompute", "--machine", cost.Laptop2().Name, "--preset", "llama-tiny", "--batch", "1", "--seq", "32", "--policies", "none", "--attention", "flash",
			"--repeat", "1", "--threads", "1"},
	}
	for name, args := range verbs {
		for _, set := range []string{"avx9", "avx512amx-parts", "Generic"} {
			r := loadline(t, append(slices.Clone(args), "--kernels", set)...)
			if r.code != codeUsage || !strings.Contains(r.err, "--kernels "+set+": this CPU runs ") {
				t.Errorf("%s: got exit code %d: %s", name, r.code, r.err)
			}
			twoLines(t, r.err, "--kernels "+set)
		}
		for set, want := range map[string]string{"generic": "generic", "": kernel.Best().Name()} {
			var d struct{ Kernels string }
			line := append(slices.Clone(args), "--kernels", set)
			if name == "train" {
				line = append(line, "--out", filepath.Join(t.TempDir(), "run"))
			}
			if document(t, &d, codeDone, line...); d.Kernels != want {
				t.Errorf("%s --kernels %q: got %q, want %q", name, set, d.Kernels, want)
			}
		}
	}
	for _, args := range [][]string{{"chat", out}, {"plan", "--preset", "llama-tiny"}, {"plan", "--preset", "llama-tiny", "--context", "64"}} {
		if r := loadline(t, append(args, "--kernels", "avx9")...); r.code != codeUsage || !strings.Contains(r.err, "--kernels avx9: this CPU runs ") {
			t.Errorf("%v: got exit code %d: %s", args, r.code, r.err)
		}
	}
	for _, more := range [][]string{nil, {"--context", "64"}} {
		var d planDocument
		document(t, &d, codeDone, append([]string{"plan", "--preset", "llama-tiny", "--kernels", "generic"}, more...)...)
		if got := d.Plans[0].Options["kernels"]; got != "generic" {
			t.Errorf("plan %v: got kernels %v", more, got)
		}
	}
}

// A machine is measured with the kernels that will compute, and kept by their name.
func TestKernelsOfAMachine(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	m := cost.Laptop2()
	for _, set := range kernel.Sets() {
		path, err := probePath(probeKey(1, set))
		if err != nil {
			t.Fatal(err)
		}
		m.Name = "measured with " + set.Name()
		if err := probe.Store(path, &probe.File{Key: probeKey(1, set), Machine: m}); err != nil {
			t.Fatal(err)
		}
	}
	for _, set := range kernel.Sets() {
		r := withCache(t, cache, "plan", "--preset", "llama-tiny", "--batch", "1", "--seq", "64", "--threads", "1", "--recompute", "auto", "--kernels", set.Name())
		if want := ", 1 thread, " + set.Name() + " kernels\n"; r.code != codeDone || !strings.Contains(r.out, want) || !strings.Contains(r.out, "modelled for a measured with "+set.Name()+" machine") {
			t.Errorf("%s: got exit code %d: %s%s", set.Name(), r.code, r.out, r.err)
		}
	}
}
