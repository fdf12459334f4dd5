package hardware

import (
	"errors"
	"strings"
	"testing"

	"loadline/mem"
)

func TestTable(t *testing.T) {
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(table.Cards()); n < 70 {
		t.Errorf("got %d cards, want at least 70", n)
	}
	for _, c := range table.Cards() {
		if got, err := table.Find(c.Name); err != nil || got.Name != c.Name {
			t.Errorf("Find(%q): got %q, %v", c.Name, got.Name, err)
		}
		if c.Vendor == "NVIDIA" && (c.Bandwidth == 0 || c.BF16 == 0) {
			t.Errorf("%s: got bandwidth %g and %g FLOP/s, want both", c.Name, c.Bandwidth, c.BF16)
		}
		if c.Usable() <= 0 || c.Usable() >= c.Memory {
			t.Errorf("%s: got %v usable of %v", c.Name, c.Usable(), c.Memory)
		}
		if c.BF16Measured > c.BF16 && c.BF16 > 0 {
			t.Errorf("%s: measured %g FLOP/s, above its peak %g", c.Name, c.BF16Measured, c.BF16)
		}
		if c.FP8 > 0 && c.FP8 < c.BF16 {
			t.Errorf("%s: got %g FLOP/s in 8 bits, less than %g in 16", c.Name, c.FP8, c.BF16)
		}
	}
}

func TestFind(t *testing.T) {
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"H100-SXM-80GB": "H100-SXM5-80GB", "h100": "H100-SXM5-80GB", "A100-40GB": "A100-SXM4-40GB", "A100": "A100-SXM4-80GB",
		"A100-SXM4-80G": "A100-SXM4-80GB", "RTX-4090": "RTX 4090", "rtx4090": "RTX 4090", "4090": "RTX 4090", "NVIDIA GeForce RTX 3090": "RTX 3090",
		"NVIDIA L40S": "L40S", "L4": "L4", "A10G-24GB": "A10G", "H20-96GB": "H20-96GB", "GB200": "GB200", "MI300X": "MI300X", "AMD Instinct MI300X": "MI300X",
		"a100_80gb": "A100-SXM4-80GB", "H800-80GB": "H800-SXM-80GB", "H200-SXM-141GB": "H200-SXM-141GB", "NVIDIA RTX A6000": "RTX A6000", "V100": "V100-SXM2-32GB",
		"A100 PCIe 80GB": "A100-PCIe-80GB", "Apple M1 Max": "Apple M1 Max", "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
	} {
		if got, err := table.Find(name); err != nil || got.Name != want {
			t.Errorf("Find(%q): got %q, %v, want %q", name, got.Name, err, want)
		}
	}
	for _, name := range []string{"", "H1000", "RTX 9999", "80GB", "----"} {
		var unknown *UnknownError
		if got, err := table.Find(name); !errors.As(err, &unknown) || unknown.Nearest == "" {
			t.Errorf("Find(%q): got %q, %v, want an UnknownError with the nearest name", name, got.Name, err)
		}
	}
}

func TestUsable(t *testing.T) {
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		lo, hi   mem.Bytes // what drivers show, in MiB
		lossless bool
	}{
		{"A100-SXM4-80GB", 81000, 81920, false}, {"A10G", 22500, 23100, false}, {"L40S", 46068, 46068, false}, {"RTX 4090", 24000, 24576, false},
	} {
		card, err := table.Find(c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := card.Reported() / mem.MiB; got < c.lo || got > c.hi {
			t.Errorf("%s: got %d MiB reported, want %d to %d", c.name, got, c.lo, c.hi)
		}
	}
}

func TestNearest(t *testing.T) {
	table, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"H1000": "H100", "RTX-4091": "RTX 409", "A10O-40GB": "A100", "MI3000X": "MI300X", "L4O": "L4"} {
		var unknown *UnknownError
		if got, err := table.Find(name); !errors.As(err, &unknown) || !strings.HasPrefix(strings.ReplaceAll(unknown.Nearest, "-", " "), strings.ReplaceAll(want, "-", " ")) {
			t.Errorf("Find(%q): got %q, %v, want the nearest to begin with %s", name, got.Name, err, want)
		}
	}
}
