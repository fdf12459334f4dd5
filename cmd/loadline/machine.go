package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"loadline/cost"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/planner/probe"
	"loadline/tensor/kernel"
)

// Times are modelled for a machine: a described one, or this one as it was measured. Measuring takes about ten seconds and much of the
// processor, and may take more memory than the run that asks, so it happens in a process of its own and once: what it finds is
// kept in the user's cache, by processor, kernels, threads and version. The ranks of a run get the machine with the run.
const (
	machineVar = "LOADLINE_MACHINE" // what --machine is where it is not given
	probeVar   = "LOADLINE_PROBE"   // a probe's order: this process measures
)

// What --machine takes besides a file.
const (
	thisMachine = "this"  // measured, unless it was before
	measureNow  = "again" // measured whatever was found before
)

// Times of a probe.
const (
	probeTime  = 3 * time.Second // what it takes where nothing else runs
	probeLimit = 3 * time.Minute // after which it is given up
)

// probeMemory is the most that a probe takes, if there is twice that.
const probeMemory = 512 * mem.MiB

// probeOrder is what a probe's process is to do.
type probeOrder struct {
	Name    string
	Threads int
	Kernels string // name of the set
	Memory  mem.Bytes
	Dir     string
	Quiet   bool // --quiet of who asks
}

// machine finds the machine of --machine. Where the flag and its variable are silent, this machine is measured only if needed says that
// the answer decides something; otherwise what was measured before serves, or a description.
func (a *app) machine(flag string, threads int, set kernel.Set, needed bool) (cost.Machine, error) {
	asked, by := flag, "--machine"
	if asked == "" {
		asked, by = os.Getenv(machineVar), "$"+machineVar
	}
	switch {
	case asked == cost.Laptop2().Name:
		return cost.Laptop2(), nil
	case asked == "" || asked == thisMachine || asked == measureNow:
	case exists(asked):
		f, err := probe.Load(asked)
		if err != nil {
			return cost.Machine{}, advise(fmt.Errorf("%s: %w", by, err), "--machine this, or a file that loadline bench cost has written")
		}
		return f.Machine, nil
	default:
		known := []string{thisMachine, measureNow, cost.Laptop2().Name}
		return cost.Machine{}, usage(didYouMean(asked, known, "--machine ", "--machine this"), "%s %s: want %s, or a file that is there", by, asked, orList(known))
	}
	key := probeKey(threads, set)
	path, err := probePath(key)
	if err == nil && asked != measureNow {
		if f, err := probe.Load(path); err == nil && f.Key == key {
			return f.Machine, nil
		}
	}
	if asked == "" && (!needed || err != nil) { // without a cache two runs would plan differently
		return cost.Laptop2(), nil
	}
	m, failed := a.measure(threads, set, filepath.Dir(path))
	if failed == nil && err == nil {
		failed = probe.Store(path, &probe.File{Key: key, Machine: m})
	}
	switch {
	case failed == nil:
		return m, nil
	case asked == "":
		a.say("times are modelled for a %s machine: %v\n", cost.Laptop2().Name, failed)
		return cost.Laptop2(), nil
	}
	return cost.Machine{}, advise(failed, "--machine %s", cost.Laptop2().Name)
}

// measure measures this machine in a process of its own.
func (a *app) measure(threads int, set kernel.Set, dir string) (cost.Machine, error) {
	none := cost.Machine{}
	self, err := os.Executable()
	if err != nil {
		return none, fmt.Errorf("machine: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return none, fmt.Errorf("machine: %w", err)
	}
	o := probeOptions(threads, set, dir)
	order := probeOrder{Name: o.Name, Threads: threads, Kernels: set.Name(), Memory: o.Memory, Dir: o.Dir, Quiet: a.quiet}
	text, err := json.Marshal(order)
	if err != nil {
		return none, fmt.Errorf("machine: %w", err)
	}
	a.say("measuring this machine: about ten seconds\n")
	ctx, stop := context.WithTimeout(context.Background(), probeLimit)
	defer stop()
	c := exec.CommandContext(ctx, self)
	c.Env = append(os.Environ(), probeVar+"="+string(text))
	c.Stderr = a.err
	out, err := c.Output()
	if err != nil {
		return none, fmt.Errorf("machine: measuring it: %w", err)
	}
	m := none
	if err := json.Unmarshal(out, &m); err != nil {
		return none, fmt.Errorf("machine: measuring it: %w", err)
	}
	return m, nil
}

// probeOptions is how this machine is measured with so many threads and these kernels.
func probeOptions(threads int, set kernel.Set, dir string) probe.Options {
	o := probe.Options{Name: fmt.Sprintf("measured %d-thread %s", threads, set.Name()), Memory: probeMemory, Dir: dir}
	if available, _, err := availableMemory(); err == nil {
		o.Memory = min(o.Memory, available/2)
	}
	return o
}

// serveProbe is the life of a probe's process.
func (a *app) serveProbe(text string) int {
	var o probeOrder
	err := json.Unmarshal([]byte(text), &o)
	var set kernel.Set
	if err == nil {
		set, err = kernelSet(o.Kernels)
	}
	if err == nil {
		var m cost.Machine
		dev := cpu.New(cpu.Options{Threads: max(o.Threads, 1), Set: set})
		var bar progress
		a.quiet = o.Quiet
		show := func(done, all int, took time.Duration) {
			if bar == nil {
				bar = a.newProgress("measuring this machine", int64(all), 0)
			}
			bar.set(int64(done), took, "", "")
		}
		m, err = probe.Measure(dev, probe.Options{Name: o.Name, Dir: o.Dir, Memory: o.Memory, Time: probeTime, Progress: show})
		if bar != nil {
			bar.close()
		}
		if err == nil {
			err = json.NewEncoder(a.out).Encode(m)
		}
	}
	if err != nil {
		fmt.Fprintf(a.err, "loadline: %s\n", oneLine(words(err)))
	}
	return exitCode(err)
}

// probeKey is what a measurement is of.
func probeKey(threads int, set kernel.Set) string {
	return strings.Join([]string{processor(), fmt.Sprint(runtime.NumCPU()), set.Name(), fmt.Sprint(threads), build()}, "|")
}

// probePath is where the measurement of a key is kept.
func probePath(key string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, "loadline", fmt.Sprintf("machine-%x.json", sum[:8])), nil
}

// build is the version with what tells builds of one version apart: the commit, or the program's own age and length.
func build() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		setting := func(key string) string {
			if i := slices.IndexFunc(b.Settings, func(s debug.BuildSetting) bool { return s.Key == key }); i >= 0 {
				return b.Settings[i].Value
			}
			return ""
		}
		if r := setting("vcs.revision"); r != "" && setting("vcs.modified") == "false" {
			return version + " " + r
		}
	}
	self, err := os.Executable()
	if err != nil {
		return version
	}
	st, err := os.Stat(self)
	if err != nil {
		return version
	}
	return fmt.Sprint(version, " ", st.Size(), " ", st.ModTime().UnixNano())
}

// processor is what the system calls the processor: its name, family, model and stepping on Linux, else the architecture.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	var parts []string
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name", "cpu family", "model", "stepping", "CPU part", "CPU implementer":
			parts = append(parts, strings.TrimSpace(value))
		case "":
			if len(parts) > 0 { // the first processor's
				return strings.Join(parts, " ")
			}
		}
	}
	return strings.Join(append(parts, runtime.GOARCH), " ")
}
