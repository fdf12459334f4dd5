package mem

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		b    Bytes
		want string
	}{{3 * GiB / 2, "1.5 GiB"}, {96 * MiB, "96 MiB"}, {512, "512 B"}, {KiB, "1 KiB"}} {
		if got := c.b.String(); got != c.want {
			t.Errorf("Bytes(%d): got %q, want %q", int64(c.b), got, c.want)
		}
	}
	if got, err := ParseBytes("96MiB"); err != nil || got != 96*MiB {
		t.Errorf("ParseBytes: got %v, %v, want 96 MiB", got, err)
	}
	if _, err := ParseBytes("many"); err == nil || !strings.HasPrefix(err.Error(), `mem: size "many"`) {
		t.Errorf("ParseBytes: got error %v, want one naming the value", err)
	}
}

func TestNames(t *testing.T) {
	names := map[string]bool{}
	for _, p := range Purposes() {
		names[p.String()] = true
	}
	if len(names) != NumPurposes || Runtime+1 != NumPurposes || Remote+1 != NumTiers {
		t.Errorf("got %d distinct purpose names, last purpose %d, last tier %d; want %d, %d, %d",
			len(names), Runtime, Remote, NumPurposes, NumPurposes-1, NumTiers-1)
	}
	in := map[Purpose]map[Tier]Bytes{MasterWeights: {Host: 5}, KVBlocks: {Device: 7, Disk: 1}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kv_blocks":{"device":7,"disk":1},"master_weights":{"host":5}}`; string(text) != want {
		t.Errorf("JSON: got %s, want %s", text, want)
	}
	var out map[Purpose]map[Tier]Bytes
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("JSON round trip (-want +got):\n%s", diff)
	}
	if err := new(Purpose).UnmarshalText([]byte("snacks")); err == nil {
		t.Error("purpose snacks: got no error")
	}
	if _, err := Tier(9).MarshalText(); err == nil || Tier(9).String() != "tier(9)" || Purpose(99).String() != "purpose(99)" {
		t.Errorf("values out of range: got %v, %v, %v", err, Tier(9), Purpose(99))
	}
	for tier, want := range map[Tier]bool{Device: true, Host: true, Disk: false, Remote: false} {
		if tier.Memory() != want {
			t.Errorf("%v.Memory(): got %v, want %v", tier, tier.Memory(), want)
		}
	}
}

func TestUsage(t *testing.T) {
	var u Usage
	u.Add(Device, Weights, 10*MiB)
	u.Add(Device, Grads, 30*MiB)
	u.Add(Host, Grads, 10*MiB)
	u.Add(Disk, OptimState, 99*MiB)
	if u.Total(Device) != 40*MiB || u.Memory() != 50*MiB || u.All() != 149*MiB || u.ByPurpose()[Grads] != 40*MiB {
		t.Errorf("sums: got %v %v %v %v", u.Total(Device), u.Memory(), u.All(), u.ByPurpose()[Grads])
	}
	want := []Line{{Disk, OptimState, 99 * MiB}, {Device, Grads, 30 * MiB}, {Device, Weights, 10 * MiB}, {Host, Grads, 10 * MiB}}
	if diff := cmp.Diff(want, u.Lines()); diff != "" {
		t.Errorf("Lines (-want +got):\n%s", diff)
	}
	if got, want := u.String(), "optim_state on disk 99 MiB, grads 30 MiB, weights 10 MiB, grads on host 10 MiB"; got != want {
		t.Errorf("String: got %q, want %q", got, want)
	}
	if got := u.Plus(u); got.All() != 298*MiB || u.All() != 149*MiB {
		t.Errorf("Plus: got %v and left %v", got.All(), u.All())
	}
	if got := (Usage{}).String(); got != "nothing" {
		t.Errorf("empty: got %q", got)
	}
}

func TestLimitsAllows(t *testing.T) {
	var u Usage
	u.Add(Device, Weights, 60)
	u.Add(Host, Grads, 40)
	u.Add(Disk, OptimState, 1000)
	tier := func(t Tier, n Bytes) (l [NumTiers]Bytes) { l[t] = n; return }
	for _, c := range []struct {
		limits Limits
		want   string
	}{
		{Limits{}, ""}, {Limits{Memory: 100}, ""}, {Limits{Memory: 99}, "memory"}, {Limits{Tier: tier(Device, 59)}, "device"},
		{Limits{Tier: tier(Disk, 999)}, "disk"}, {Limits{Memory: 100, Tier: tier(Disk, 1000)}, ""},
	} {
		if ok, which := c.limits.Allows(u); which != c.want || ok != (c.want == "") {
			t.Errorf("%+v: got %v %q, want %q", c.limits, ok, which, c.want)
		}
	}
}

func TestPlanCheck(t *testing.T) {
	var step, save Usage
	step.Add(Device, Weights, 100)
	step.Add(Host, Activations, 50)
	step.Add(Disk, OptimState, 7)
	save.Add(Device, Weights, 100)
	save.Add(Device, Staging, 50)
	p := NewPlan(Branch{"idle", Usage{}}, Branch{"step", step}, Branch{"save", save})
	if p.Name != "step" || p.Memory() != 150 || len(p.Branches) != 3 {
		t.Fatalf("NewPlan: got %q %v of %d branches, want the first of the highest", p.Name, p.Memory(), len(p.Branches))
	}
	fact := step
	fact[Disk][OptimState] = 0 // not memory: not promised here
	if err := p.Check(fact); err != nil {
		t.Errorf("kept promise: got %v", err)
	}
	fact.Add(Host, Activations, 1)
	fact.Add(Host, Staging, 1)
	err := p.Check(fact)
	var broken *BrokenPromiseError
	if !errors.As(err, &broken) {
		t.Fatalf("got %v, want a *BrokenPromiseError", err)
	}
	if want := (BrokenPromiseError{"step", Host, Activations, 50, 51}); *broken != want {
		t.Errorf("got %+v, want %+v", *broken, want)
	}
	if got, want := err.Error(), `mem: plan "step": promised 50 bytes of activations on host, got 51`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := NewPlan(); got.Memory() != 0 || got.Name != "" {
		t.Errorf("plan of nothing: got %+v", got)
	}
}
