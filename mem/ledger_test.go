package mem

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustReserve(t *testing.T, l *Ledger, tier Tier, p Purpose, n Bytes) *Reservation {
	t.Helper()
	r, err := l.Reserve(tier, p, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func panics(f func()) (message string) {
	defer func() {
		if v := recover(); v != nil {
			message, _ = v.(string)
		}
	}()
	f()
	return ""
}

func TestOverBudget(t *testing.T) {
	l := NewLedger(Limits{Memory: 96 * MiB, Tier: [NumTiers]Bytes{Device: 64 * MiB, Disk: 1 * GiB}})
	mustReserve(t, l, Device, Weights, 40*MiB)
	mustReserve(t, l, Device, Grads, 10*MiB)
	mustReserve(t, l, Host, OptimState, 30*MiB)
	mustReserve(t, l, Host, Runtime, 5*MiB)
	mustReserve(t, l, Disk, Activations, 1000*MiB)
	before := l.InUse()
	for _, c := range []struct {
		name string
		tier Tier
		n    Bytes
		want OverBudgetError
		text string
	}{
		{"exactly at the limit", Device, 11 * MiB, OverBudgetError{}, ""},
		{"memory", Host, 12 * MiB,
			OverBudgetError{Bound: "memory", InUse: 85 * MiB, Limit: 96 * MiB,
				Largest: []Line{{Device, Weights, 40 * MiB}, {Host, OptimState, 30 * MiB}, {Device, Grads, 10 * MiB}}},
			"mem: staging on host: want 12 MiB, but 85 MiB of the memory limit of 96 MiB is in use; " +
				"largest: weights 40 MiB, optim_state on host 30 MiB, grads 10 MiB"},
		{"disk", Disk, 25 * MiB,
			OverBudgetError{Bound: "disk", InUse: 1000 * MiB, Limit: GiB, Largest: []Line{{Disk, Activations, 1000 * MiB}}},
			"mem: staging on disk: want 25 MiB, but 1000 MiB of the disk limit of 1 GiB is in use; largest: activations on disk 1000 MiB"},
		{"no wrap-around", Remote, math.MaxInt64, OverBudgetError{}, ""},
	} {
		r, err := l.Reserve(c.tier, Staging, c.n)
		if c.text == "" {
			if err != nil {
				t.Errorf("%s: got %v, want it to fit", c.name, err)
				continue
			}
			r.Release()
			continue
		}
		var over *OverBudgetError
		if !errors.As(err, &over) {
			t.Errorf("%s: got %v, want an *OverBudgetError", c.name, err)
			continue
		}
		c.want.Tier, c.want.Purpose, c.want.Want = c.tier, Staging, c.n
		if diff := cmp.Diff(c.want, *over); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if err.Error() != c.text {
			t.Errorf("%s: got %q, want %q", c.name, err, c.text)
		}
	}
	if l.InUse() != before {
		t.Errorf("refusals changed the ledger: got %v, want %v", l.InUse(), before)
	}

	tight := NewLedger(Limits{Tier: [NumTiers]Bytes{Device: 64}})
	mustReserve(t, tight, Device, Weights, 60)
	_, err := tight.Reserve(Device, Grads, 5)
	var over *OverBudgetError
	if !errors.As(err, &over) || over.Bound != "device" || over.Limit != 64 {
		t.Errorf("device tier: got %v, want the device limit", err)
	}
	if _, err := tight.Reserve(Host, Grads, math.MaxInt64-10); err == nil {
		t.Error("a sum past int64: got no error")
	}
}

func TestReserveSplit(t *testing.T) {
	l := NewLedger(Limits{Memory: 100})
	parts := [NumPurposes]Bytes{Weights: 30, Activations: 50, Workspace: 20}
	r, err := l.ReserveSplit(Device, parts)
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes() != 100 || r.Tier() != Device || r.Purpose() != Activations {
		t.Errorf("got %v of %v on %v, want 100 B of activations on device", r.Bytes(), r.Purpose(), r.Tier())
	}
	if got := l.InUse()[Device]; got != parts {
		t.Errorf("got %v, want %v", got, parts)
	}
	if _, err := l.ReserveSplit(Host, [NumPurposes]Bytes{Grads: 1}); err == nil {
		t.Error("a split past the limit: got no error")
	}
	r.Release()
	if l.InUse() != (Usage{}) || l.PeakMemory() != 100 || l.Peak()[Device] != parts {
		t.Errorf("after Release: in use %v, peak %v", l.InUse(), l.Peak())
	}
}

func TestPeakIsTheFirstOfEqualOnes(t *testing.T) {
	l := NewLedger(Limits{})
	a := mustReserve(t, l, Device, Weights, 10)
	a.Release()
	mustReserve(t, l, Disk, Grads, 500)
	mustReserve(t, l, Host, Grads, 10)
	want := Usage{Device: {Weights: 10}}
	if l.Peak() != want || l.PeakMemory() != 10 || l.PeakTier(Disk) != 500 || l.PeakTier(Host) != 10 {
		t.Errorf("got %v, want %v", l.Peak(), want)
	}
}

func TestMisusePanics(t *testing.T) {
	l := NewLedger(Limits{})
	r := mustReserve(t, l, Device, Weights, 1)
	r.Release()
	for name, f := range map[string]func(){
		"double Release": r.Release,
		"negative":       func() { l.Reserve(Device, Weights, -1) },
		"an int64":       func() { l.ReserveSplit(Device, [NumPurposes]Bytes{math.MaxInt64, 1}) },
		"negative limit": func() { NewLedger(Limits{Tier: [NumTiers]Bytes{-1}}) },
		"memory limit":   func() { NewLedger(Limits{Memory: -1}) },
	} {
		if got := panics(f); !strings.HasPrefix(got, "mem: ") || !strings.Contains(got, name) {
			t.Errorf("%s: got panic %q", name, got)
		}
	}
}

func TestLedgerConcurrently(t *testing.T) {
	const limit = 50
	l := NewLedger(Limits{Memory: limit})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				if r, err := l.Reserve(Tier(i%2), Purpose(g), Bytes(i%13)); err == nil {
					if got := l.InUse().Memory(); got > limit {
						t.Errorf("in use: got %v, want at most %v", got, Bytes(limit))
					}
					r.Release()
				}
			}
		})
	}
	wg.Wait()
	if l.InUse() != (Usage{}) || l.PeakMemory() > limit || l.PeakMemory() == 0 {
		t.Errorf("after all: in use %v, peak %v", l.InUse(), l.PeakMemory())
	}
}

// The ledger against a model that keeps every reservation and the whole history.
func TestLedgerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.Custom(func(t *rapid.T) Bytes { return Bytes(rapid.Int64Range(0, 200).Draw(t, "limit")) })
		limits := Limits{Memory: bound.Draw(t, "memory")}
		for i := range limits.Tier {
			limits.Tier[i] = bound.Draw(t, "tier")
		}
		l := NewLedger(limits)
		type held struct {
			r *Reservation
			u Usage
		}
		var live []held
		var peak Usage
		var peakTier [NumTiers]Bytes
		sum := func() (u Usage) {
			for _, h := range live {
				u = u.Plus(h.u)
			}
			return u
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				tier := Tier(rapid.IntRange(0, NumTiers-1).Draw(t, "tier"))
				var u Usage
				for range rapid.IntRange(1, 3).Draw(t, "parts") {
					u.Add(tier, Purpose(rapid.IntRange(0, NumPurposes-1).Draw(t, "purpose")), Bytes(rapid.Int64Range(0, 60).Draw(t, "n")))
				}
				r, err := l.ReserveSplit(tier, u[tier])
				fits, _ := limits.Allows(sum().Plus(u))
				if fits != (err == nil) {
					t.Fatalf("fits %v, got error %v", fits, err)
				}
				if err == nil {
					live = append(live, held{r, u})
				}
			},
			"release": func(t *rapid.T) {
				if len(live) == 0 {
					return
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "i")
				live[i].r.Release()
				live = append(live[:i], live[i+1:]...)
			},
			"": func(t *rapid.T) {
				now := sum()
				if now.Memory() > peak.Memory() {
					peak = now
				}
				for i := range peakTier {
					peakTier[i] = max(peakTier[i], now.Total(Tier(i)))
					if got := l.PeakTier(Tier(i)); got != peakTier[i] {
						t.Fatalf("peak of %v: got %v, want %v", Tier(i), got, peakTier[i])
					}
				}
				if got := l.InUse(); got != now {
					t.Fatalf("in use: got %v, want %v", got, now)
				}
				if ok, which := limits.Allows(now); !ok {
					t.Fatalf("past the %s limit: %v", which, now)
				}
				if got := l.Peak(); got != peak || l.PeakMemory() != peak.Memory() {
					t.Fatalf("peak: got %v, want %v", got, peak)
				}
			},
		})
		for _, h := range live {
			h.r.Release()
		}
		if got := l.InUse(); got != (Usage{}) {
			t.Fatalf("after releasing all: got %v, want nothing", got)
		}
	})
}
