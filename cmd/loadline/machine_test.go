package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/cost"
	"loadline/mem"
	"loadline/planner/probe"
	"loadline/tensor/kernel"
)

// withCache is a command with a cache of its own and nothing said about the machine.
func withCache(t *testing.T, cache string, args ...string) result {
	t.Helper()
	c := command(args...)
	c.Env = append(c.Env, "XDG_CACHE_HOME="+cache, "HOME="+cache, machineVar+"=")
	return finish(t, c)
}

// A probe's process prints a machine that has rates, and leaves nothing behind.
func TestProbeProcess(t *testing.T) {
	dir := t.TempDir()
	order, err := json.Marshal(probeOrder{Name: "here", Threads: 1, Kernels: "generic", Memory: 12 * mem.MiB, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := command()
	c.Env = append(c.Env, probeVar+"="+string(order))
	r := finish(t, c)
	if r.code != codeDone {
		t.Fatalf("got exit code %d: %s", r.code, r.err)
	}
	if last := lastLines(r.err, 1); !strings.HasPrefix(last, "measuring this machine ") || !strings.HasSuffix(last, "  ETA 0s") {
		t.Errorf("got %q, want how far it is", r.err)
	}
	var m cost.Machine
	if err := json.Unmarshal([]byte(r.out), &m); err != nil {
		t.Fatalf("%v in %s", err, r.out)
	}
	if m.Name != "here" || !(m.FLOPs > 1e8) || !(m.Bandwidth > 1e7) || !(m.Link[mem.Disk] > 0) || m.Rates == nil || len(m.Rates.List) < 20 {
		t.Errorf("got %+v", m)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for text, code := range map[string]int{"{}}": codeFailed, `{"Kernels":"avx9"}`: codeUsage} {
		c = command()
		c.Env = append(c.Env, probeVar+"="+text)
		if r := finish(t, c); r.code != code || !strings.HasPrefix(r.err, "loadline: ") {
			t.Errorf("an order that is none, %s: got exit code %d: %s", text, r.code, r.err)
		}
	}
}

// What was measured before serves; a file can be named; a described machine is used where nothing was measured and nothing depends on it.
func TestMachineOfAPlan(t *testing.T) {
	cache := t.TempDir()
	plan := []string{"plan", "--preset", "llama-tiny", "--batch", "1", "--seq", "64", "--threads", "1"}
	modelled := func(args ...string) string {
		t.Helper()
		r := withCache(t, cache, append(append([]string{}, plan...), args...)...)
		if r.code != codeDone {
			t.Fatalf("%v: got exit code %d: %s", args, r.code, r.err)
		}
		_, name, _ := strings.Cut(r.out, "modelled for a ")
		name, _, _ = strings.Cut(name, " machine\n")
		return name
	}
	if got := modelled(); got != cost.Laptop2().Name {
		t.Errorf("nothing measured: got %q", got)
	}
	m := cost.Laptop2()
	m.Name = "kept"
	m.Rates = &cost.Rates{List: []cost.Rate{{Key: "matmul/f32", FLOP: 1e-9}}}
	file := filepath.Join(cache, "file.json")
	for _, path := range []string{file, keptAt(t, cache)} {
		if err := probe.Store(path, &probe.File{Key: probeKey(1, kernel.Best()), Machine: m}); err != nil {
			t.Fatal(err)
		}
		m.Name = "measured"
	}
	for _, x := range []struct {
		want string
		args []string
	}{
		{"measured", nil}, {"measured", []string{"--machine", "this"}}, {"measured", []string{"--recompute", "auto"}},
		{"kept", []string{"--machine", file}}, {cost.Laptop2().Name, []string{"--machine", cost.Laptop2().Name}},
	} {
		if got := modelled(x.args...); got != x.want {
			t.Errorf("%v: got %q, want %q", x.args, got, x.want)
		}
	}
	if err := os.WriteFile(file, []byte(`{"machine":{"name":"x","flops":-1}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--machine thsi": "try: --machine this", "--machine " + file: "want more than 0", "--machine " + cache: "not a regular file",
	} {
		r := withCache(t, cache, append(append([]string{}, plan...), strings.Fields(args)...)...)
		if r.code == codeDone || !strings.Contains(r.err, want) {
			t.Errorf("%s: got exit code %d: %s", args, r.code, r.err)
		}
	}
}

// keptAt is where a process with this cache keeps its measurement.
func keptAt(t *testing.T, cache string) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	path, err := probePath(probeKey(1, kernel.Best()))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The planner takes this machine as hardware.
func TestPlanHardwareThis(t *testing.T) {
	var d hardwareDocument
	r := document(t, &d, codeDone, "plan", "llama-3.2-1b", "--hardware", "this", "--machine", cost.Laptop2().Name, "--task", "serve", "--context", "512")
	if !d.Fits || len(d.Plans) == 0 || !strings.Contains(r.err, "this machine, 2-core-avx2: ") || !strings.Contains(r.err, "100 GFLOP/s in f32") {
		t.Errorf("fits %v, %d plans: %s", d.Fits, len(d.Plans), r.err)
	}
	d = hardwareDocument{}
	document(t, &d, codeDone, "plan", "llama-tiny", "--hardware", "this", "--machine", cost.Laptop2().Name, "--task", "train", "--seq", "128", "--global-batch", "4")
	if !d.Fits || d.Framework != "loadline" {
		t.Errorf("training: fits %v under %q", d.Fits, d.Framework)
	}
}

// bench recompute holds auto to each policy's bytes, and tells what all save and cost.
func TestBenchRecompute(t *testing.T) {
	var d struct{ Results []recomputeResult }
	document(t, &d, codeDone, "bench", "recompute", "--preset", "llama-tiny", "--batch", "1", "--seq", "128", "--repeat", "1", "--quiet", "--threads", "1",
		"--machine", cost.Laptop2().Name, "--policies", "none,full,norm+mlp.act")
	if len(d.Results) != 12 {
		t.Fatalf("got %d results, want 12", len(d.Results))
	}
	for i, r := range d.Results {
		if r.Saved <= 0 || r.Seconds <= 0 || r.Modelled <= 0 || r.Threads != 1 {
			t.Errorf("%+v", r)
		}
		if policy := d.Results[i&^1]; i%2 == 1 && (r.Saved > policy.Saved || r.Modelled > policy.Modelled*(1+1e-9) || r.Chosen == "" || r.Ratio <= 0) {
			t.Errorf("%+v beside %+v", r, policy)
		}
	}
	if auto := d.Results[1]; auto.Same == d.Results[0].Test && auto.Seconds != d.Results[0].Seconds || auto.Same == "" {
		t.Errorf("auto with all bytes: %+v, want none's program", auto)
	}
	if full := d.Results[2]; full.Test != "full" || full.BytesLess < 0.5 || full.Modelled <= d.Results[0].Modelled {
		t.Errorf("full: %+v", full)
	}
	for args, want := range map[string]string{
		"--policies auto": "no policy", "--policies x": "x", "--preset x": "no preset", "--repeat 0": "at least 1",
	} {
		r := loadline(t, append([]string{"bench", "recompute", "--machine", cost.Laptop2().Name, "--preset", "llama-tiny"}, strings.Fields(args)...)...)
		if r.code == codeDone || !strings.Contains(r.err, want) {
			t.Errorf("%s: got exit code %d: %s", args, r.code, r.err)
		}
	}
}

// Settings and the models of the machine's measurement take turns; --only picks settings.
func TestBenchCost(t *testing.T) {
	var d struct{ Results []costResult }
	document(t, &d, codeDone, "bench", "cost", "--quiet", "--threads", "1", "--machine", cost.Laptop2().Name, "--only", "llama-tiny bf16", "--passes", "2", "--repeat", "1", "--kinds")
	if len(d.Results) != 1 {
		t.Fatalf("got %d results, want 1", len(d.Results))
	}
	if r := d.Results[0]; r.Steps < 2 || r.Modelled <= 0 || r.Measured <= 0 || len(r.Kinds) < 10 {
		t.Errorf("got %+v", r)
	}
	for args, want := range map[string]string{"--only nothing": "no setting", "--passes 0": "at least 1", "--repeat 0": "at least 1"} {
		r := loadline(t, append([]string{"bench", "cost", "--machine", cost.Laptop2().Name}, strings.Fields(args)...)...)
		if r.code == codeDone || !strings.Contains(r.err, want) {
			t.Errorf("%s: got exit code %d: %s", args, r.code, r.err)
		}
	}
}

// The settings of bench cost are twenty, differ, and compile.
func TestCostSettings(t *testing.T) {
	seen := map[costSetting]bool{}
	for _, s := range costSettings() {
		o, err := s.options(cost.Laptop2())
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Validate(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
		seen[s] = true
	}
	if len(seen) != 20 {
		t.Errorf("got %d settings, want 20", len(seen))
	}
	x, s := costRun{}, costSetting{"llama-tiny", 1, 64, "fp32", "flash", "none", 1}
	var err error
	for range 2 {
		err = errors.Join(err, x.add(&s, 1, kernel.Best()))
	}
	r := x.result(&s, cost.Laptop2(), true)
	var sum float64
	for _, k := range r.Kinds {
		sum += k.Modelled
	}
	if len(r.Kinds) < 10 || math.Abs(sum/r.Modelled-1) > 1e-9 {
		t.Errorf("%d kinds are modelled at %v, the step at %v", len(r.Kinds), sum, r.Modelled)
	}
	if err != nil || r.Modelled <= 0 || r.Measured <= 0 || r.Median < r.Low || math.Abs(r.Error-r.Described) > 1e-9 || r.Threads != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}
