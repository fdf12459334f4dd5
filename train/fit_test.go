package train

import (
	"errors"
	"reflect"
	"strconv"
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
		fits(t, o, does, FixedBytes{})
	}
	o.Memory, o.DeviceMemory = 0, 1<<20
	_, err := Compile(o, (&setup{}).dev(), FixedBytes{Runtime: RuntimeBytes})
	does := new(DoesNotFitError)
	if !errors.As(err, &does) || does.Bound != "device" || does.Limit != 1<<20 || does.Need >= RuntimeBytes || !strings.Contains(err.Error(), "--device-memory") {
		t.Errorf("device memory: got %v", err)
	}
	fits(t, o, does, FixedBytes{Runtime: RuntimeBytes})
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

// fits checks that what a refusal of o names fits, with the flags that it gives, and takes what it says.
func fits(t *testing.T, o Options, no *DoesNotFitError, fixed FixedBytes) {
	t.Helper()
	for _, flags := range []string{no.Nearest, no.Higher} {
		x, words := o, strings.Fields(flags)
		for i := 0; i+1 < len(words); i += 2 {
			var err error
			switch name, value := words[i], words[i+1]; name {
			case "--recompute":
				x.Recompute, err = compile.ParseRecompute(value)
			case "--memory":
				x.Memory, err = mem.ParseBytes(value)
			case "--device-memory":
				x.DeviceMemory, err = mem.ParseBytes(value)
			case "--batch":
				x.Batch, err = strconv.Atoi(value)
			case "--accumulate":
				x.Accumulate, err = strconv.Atoi(value)
			case "--seq":
				x.Seq, err = strconv.Atoi(value)
			case "--precision":
				x.Precision = value
			case "--offload":
				x.Offload, x.OffloadOptimizer = strings.Contains(value, "activations"), strings.Contains(value, "optimizer")
			default:
				err = errors.New("an unknown flag")
			}
			if err != nil {
				t.Fatalf("%v: advice %q: %v", o.Memory, flags, err)
			}
		}
		j, err := Compile(x, (&setup{}).dev(), fixed)
		if err != nil || len(words) == 0 {
			t.Errorf("%v, device %v: advice %q does not fit: %v", o.Memory, o.DeviceMemory, flags, err)
			continue
		}
		takes := j.Promise.Memory()
		if no.Bound != "memory" {
			takes = j.Promise.Peak.Total(mem.Device)
		}
		if flags == no.Nearest && flags != no.Higher && takes != no.takes && (!no.varies || takes < no.takes) {
			t.Errorf("%v, device %v: advice %q: takes %v, said are %v", o.Memory, o.DeviceMemory, flags, takes, no.takes)
		}
		if flags == no.Nearest && (j.Promise.Memory() != no.NearestPeak && (flags != no.Higher && !no.varies || j.Promise.Memory() < no.NearestPeak) || !reflect.DeepEqual(x, no.NearestOptions)) {
			t.Errorf("%v: advice %q: got a peak of %v, want %v", o.Memory, flags, j.Promise.Memory(), no.NearestPeak)
		}
	}
	says := ", which takes "
	if no.varies {
		says += "at least "
	}
	if same := no.Nearest == no.Higher; same == strings.Contains(no.Advice(), says+no.takes.String()) || !strings.Contains(no.Advice(), no.Nearest) {
		t.Errorf("got advice %q", no.Advice())
	}
}

// refused tells whether err refuses o, and checks what it then names.
func refused(t *testing.T, o Options, err error) bool {
	t.Helper()
	no := new(DoesNotFitError)
	if !errors.As(err, &no) {
		return false
	}
	fits(t, o, no, FixedBytes{})
	return true
}

// An attempt is refused with the same numbers, and without what would fit; what only the caller limits is added to each alternative once.
func TestAttempt(t *testing.T) {
	o := wide()
	o.Memory = mem.MiB / 2
	_, err := Attempt(o, (&setup{}).dev(), FixedBytes{})
	_, full := Compile(o, (&setup{}).dev(), FixedBytes{})
	no := new(DoesNotFitError)
	if !errors.As(err, &no) || err.Error() != full.Error() || no.Nearest != "" || no.Least != nil || no.c != nil || no.Advice() != "use a smaller --batch or --seq" {
		t.Errorf("got %v, %+v, want %v", err, no, full)
	}
	more := func(o Options) string { return " --more " + strconv.Itoa(o.Batch) }
	for _, c := range []struct{ nearest, higher, wantNearest, wantHigher string }{
		{"", "", "", ""}, {"a", "", "a --more 1", ""}, {"a", "b", "a --more 1", "b --more 2"}, {"b", "b", "b --more 1", "b --more 1"},
	} {
		e := &DoesNotFitError{Nearest: c.nearest, Higher: c.higher, NearestOptions: Options{Batch: 1}, higher: Options{Batch: 2}}
		if e.Besides(more); e.Nearest != c.wantNearest || e.Higher != c.wantHigher {
			t.Errorf("%q, %q: got %q, %q", c.nearest, c.higher, e.Nearest, e.Higher)
		}
	}
}

// Whatever the limit, a refusal names what fits under it, if anything does, giving up little first; a run that goes on gives nothing up that its
// checkpoint settles.
func TestNearest(t *testing.T) {
	o := wide()
	o.Config.NumLayers, o.Seq = 1, 128
	l := least(t, o)
	var named []string
	for _, part := range []mem.Bytes{95, 60, 50, 45, 40, 35, 30, 26, 22, 18, 1} {
		o.Memory = l["none"] * part / 100
		_, err := Compile(o, (&setup{}).dev(), FixedBytes{})
		no := new(DoesNotFitError)
		if !errors.As(err, &no) {
			t.Fatalf("%d%%: got %v, want a *DoesNotFitError", part, err)
		}
		fits(t, o, no, FixedBytes{})
		if under := no.Nearest != no.Higher; under != (no.NearestPeak <= o.Memory) {
			t.Errorf("%d%%: %q takes %v of %v", part, no.Nearest, no.NearestPeak, o.Memory)
		}
		named = append(named, no.Nearest)
	}
	flags := strings.Join(named, "\n")
	at := -1
	for _, first := range []string{"--recompute auto", "--batch ", "--offload optimizer", "--precision bf16", "--seq ", "--memory "} {
		i := strings.Index(flags, first)
		if i <= at {
			t.Errorf("got %s at %d, want it behind what was given up before it:\n%s", first, i, flags)
		}
		at = i
	}
	low := wide() // what is advised takes the lower tier by itself, and less memory than it would without
	low.Batch, low.Seq = 8, 64
	low.Memory, low.Lower = least(t, low)["none"]*30/100, mem.GiB
	if _, err := Compile(low, (&setup{}).dev(), FixedBytes{}); !refused(t, low, err) {
		t.Errorf("with a lower tier: got %v", err)
	}
	all := wide() // only with all given up, micro-batches too, does it fit
	all.Seq, all.Accumulate = leastSeq, 4
	last := given(all)
	last.OffloadOptimizer = true
	all.Memory = least(t, last)["none"]
	_, err := Compile(all, (&setup{}).dev(), FixedBytes{})
	if no := new(DoesNotFitError); !refused(t, all, err) || !errors.As(err, &no) || no.Nearest != "--batch 1 --accumulate 1 --precision bf16 --offload optimizer" {
		t.Errorf("all given up: got %v, %+v", err, no)
	}
	chunked := o
	chunked.HeadChunk, chunked.Memory = AutoChunk, l["none"]*30/100
	if _, err := Compile(chunked, (&setup{}).dev(), FixedBytes{}); !refused(t, chunked, err) {
		t.Errorf("with chunks of any size: got %v", err)
	}
	o.Continues = true
	for _, part := range []mem.Bytes{40, 20, 10} {
		o.Memory = l["none"] * part / 100
		_, err := Compile(o, (&setup{}).dev(), FixedBytes{})
		no := new(DoesNotFitError)
		if !errors.As(err, &no) {
			t.Fatalf("%d%%: got %v, want a *DoesNotFitError", part, err)
		}
		fits(t, o, no, FixedBytes{})
		if x := no.NearestOptions; x.Precision != o.Precision || x.Seq != o.Seq || x.Sequences() != o.Sequences() {
			t.Errorf("%d%% of a run that goes on: got %q", part, no.Nearest)
		}
	}
}
