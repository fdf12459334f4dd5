package train

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"loadline/compile"
	"loadline/mem"
	"loadline/mem/arena"
)

// A mapping of within(n) bytes, rounded, takes at most n, and one of a page more takes more.
func TestWithin(t *testing.T) {
	check := func(n mem.Bytes) string {
		fit := within(n)
		if fit > 0 && arena.Round(fit) > n {
			return "too much"
		}
		if arena.Round(fit+1) <= n {
			return "not the most"
		}
		return ""
	}
	for _, n := range []mem.Bytes{-5, 0, 1, 4095, 4096, 8*mem.MiB - 1, 8 * mem.MiB, 8*mem.MiB + 4096, 10*mem.MiB - 1, 10 * mem.MiB, 10*mem.MiB + 1} {
		if bad := check(n); bad != "" {
			t.Errorf("within(%d) = %d: %s", n, within(n), bad)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		n := mem.Bytes(rapid.Int64Range(0, 1<<26).Draw(r, "n"))
		if bad := check(n); bad != "" {
			r.Fatalf("within(%d) = %d: %s", n, within(n), bad)
		}
	})
}

// wide is a run whose activations are most of its memory.
func wide() Options {
	o := options(tiny())
	o.Config.NumLayers, o.Batch, o.Seq = 3, 4, 48
	return o
}

// least returns the least memory by policy.
func least(t testing.TB, o Options) map[string]mem.Bytes {
	t.Helper()
	o.Memory, o.DeviceMemory = 0, 0
	all, err := planned(t, o, setup{}).Least()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]mem.Bytes{}
	for _, l := range all {
		out[l.Policy] = l.Memory
	}
	return out
}

// Under any limit between the least and that of keeping everything, auto stays within it; more memory is never used for less speed; and
// just below their least none and full are refused.
func TestAutoStaysWithinMemory(t *testing.T) {
	o := wide()
	l := least(t, o)
	if !(l["auto"] <= l["full"] && l["full"] < l["none"]) {
		t.Fatalf("got least %v, want auto <= full < none", l)
	}
	o.Recompute = compile.Recompute{Policy: compile.Auto}
	var peak mem.Bytes
	seconds := 1e9
	for i := range 7 {
		o.Memory = l["auto"] + (l["none"]-l["auto"])*mem.Bytes(i)/6
		j, err := Compile(o, (&setup{}).dev(), FixedBytes{})
		if err != nil {
			t.Fatalf("%v: %v", o.Memory, err)
		}
		if got := j.Promise.Memory(); got > o.Memory || got < peak {
			t.Errorf("limit %v: got peak %v, want at most that, and at least %v as before", o.Memory, got, peak)
		}
		if j.Seconds() > seconds {
			t.Errorf("limit %v: got %v s, want at most %v as before", o.Memory, j.Seconds(), seconds)
		}
		peak, seconds = j.Promise.Memory(), j.Seconds()
	}
	for policy, n := range l {
		o := wide()
		o.Recompute, _ = compile.ParseRecompute(policy)
		o.Memory = n
		if _, err := Compile(o, (&setup{}).dev(), FixedBytes{}); err != nil {
			t.Errorf("%s at its least: %v", policy, err)
		}
		if policy == "auto" {
			continue // its least is one that works, not one that is proven least
		}
		o.Memory = n - 4096
		_, err := Compile(o, (&setup{}).dev(), FixedBytes{})
		if does := new(DoesNotFitError); !errors.As(err, &does) {
			t.Errorf("%s a page below its least: got %v, want a *DoesNotFitError", policy, err)
		}
	}
}

// A refusal gives the numbers and a setting that then fits.
func TestDoesNotFit(t *testing.T) {
	o := wide()
	l := least(t, o)
	for _, limit := range []mem.Bytes{(l["none"] + l["auto"]) / 2, 1} {
		o.Memory = limit
		_, err := Compile(o, (&setup{}).dev(), FixedBytes{})
		does := new(DoesNotFitError)
		if !errors.As(err, &does) {
			t.Fatalf("%v: got %v, want a *DoesNotFitError", limit, err)
		}
		if does.Limit != limit || does.Need != l["none"] || len(does.Least) != 3 || len(does.Lines) != 3 || does.Lines[0].Purpose != mem.Activations {
			t.Errorf("%v: got %+v", limit, *does)
		}
		for _, text := range []string{err.Error(), does.Advice()} {
			if strings.Contains(text, "\n") {
				t.Errorf("%v: got %q, want one line", limit, text)
			}
		}
		near := o
		words := strings.Fields(does.Nearest)
		for i := 0; i+1 < len(words); i += 2 {
			switch words[i] {
			case "--recompute":
				near.Recompute, err = compile.ParseRecompute(words[i+1])
			case "--memory":
				near.Memory, err = mem.ParseBytes(words[i+1])
			default:
				t.Fatalf("%v: advice %q", limit, does.Nearest)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Compile(near, (&setup{}).dev(), FixedBytes{}); err != nil || len(words) == 0 {
			t.Errorf("%v: advice %q does not fit: %v", limit, does.Nearest, err)
		}
	}
	o.Memory, o.DeviceMemory = 0, 1<<20
	_, err := Compile(o, (&setup{}).dev(), FixedBytes{Runtime: RuntimeBytes})
	does := new(DoesNotFitError)
	if !errors.As(err, &does) || does.Bound != "device" || does.Limit != 1<<20 || does.Need >= RuntimeBytes || !strings.Contains(err.Error(), "--device-memory") {
		t.Errorf("device memory: got %v", err)
	}
	var mib int64
	if n, err := fmt.Sscanf(does.Nearest, "--recompute auto --device-memory %dMiB", &mib); n != 1 {
		t.Fatalf("device memory: advice %q: %v", does.Nearest, err)
	}
	o.Recompute, o.DeviceMemory = compile.Recompute{Policy: compile.Auto}, mem.Bytes(mib)*mem.MiB
	if _, err := Compile(o, (&setup{}).dev(), FixedBytes{Runtime: RuntimeBytes}); err != nil {
		t.Errorf("device memory: advice %q does not fit: %v", does.Nearest, err)
	}
	if text := (&DoesNotFitError{Limit: 70<<20 - 1, Need: 70 << 20, Bound: "memory"}).Error(); !strings.Contains(text, "needs 73400320 bytes, --memory is 73400319;") {
		t.Errorf("a byte too little: got %q", text)
	}
}

// The fixed part is in the promise and takes from the arena.
func TestFixedBytes(t *testing.T) {
	f := FixedBytes{Runtime: 48 * mem.MiB, Comm: 2 * mem.MiB, Tokens: 4096}
	a, err := Compile(wide(), (&setup{}).dev(), FixedBytes{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Compile(wide(), (&setup{}).dev(), f)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Promise.Memory()-a.Promise.Memory(), f.Runtime+f.Comm+f.Tokens; got != want {
		t.Errorf("got %v more, want %v", got, want)
	}
}

// Offloading activations, to a file or to host memory, changes no bit, keeps the promise and leaves the device less.
func TestOffload(t *testing.T) {
	o := wide()
	o.Steps = 2
	want := train(t, o, setup{})
	whole := planned(t, o, setup{}).Promise.Peak.Total(mem.Device)
	for _, limit := range []mem.Bytes{0, whole} {
		o := o
		o.Offload, o.DeviceMemory = true, limit
		job := planned(t, o, setup{})
		tier := o.OffloadTier()
		if n := job.Promise.Peak[tier][mem.Activations]; n == 0 {
			t.Errorf("%v: nothing is offloaded", tier)
		}
		if n := job.Promise.Peak.Total(mem.Device); n >= whole {
			t.Errorf("%v: the device holds %v, want less than %v", tier, n, whole)
		}
		got := trainJob(t, job, setup{dir: t.TempDir()})
		sameBits(t, "losses with offload to "+tier.String(), got.losses, want.losses)
	}
}
