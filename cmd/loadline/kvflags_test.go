package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/tensor/dtype"
)

func TestKVTypes(t *testing.T) {
	for s, want := range map[string][2]dtype.Type{
		"f32": {}, "f32,f32": {}, "f16": {dtype.F16, dtype.F16}, "q8_0,q4_0": {dtype.Q8_0, dtype.Q4_0}, "FP8, bf16": {dtype.F8E4M3, dtype.BF16},
	} {
		if got, err := kvTypes(s); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "f32,f32,f32", "q4_k", "f64", ",", "f16,"} {
		if got, err := kvTypes(s); err == nil || !strings.Contains(err.Error(), "f32 f16 bf16 q8_0 fp8 q4_0") {
			t.Errorf("%q: got %v, %v, want an error that names what there is", s, got, err)
		}
	}
}

// TestPlanKVTypes plans keys and values in every format: what generate promises, and its ledger then has, to the byte.
func TestPlanKVTypes(t *testing.T) {
	dir := talking(t)
	engine := []string{"--context", "96", "--memory", "96MiB"}
	seen := map[int64]bool{}
	for _, kv := range []string{"", "f32", "f16", "bf16,f16", "q8_0,q4_0", "fp8"} {
		more := engine
		if kv != "" {
			more = append(slices.Clone(engine), "--kv-type", kv)
		}
		var p planDocument
		document(t, &p, codeDone, append([]string{"plan", dir}, more...)...)
		var g generateDocument
		document(t, &g, codeDone, append([]string{"generate", dir, "--prompt", "To be", "--max-tokens", "3", "--quiet"}, more...)...)
		if p.Plans[0].Peak != g.Predicted || g.Predicted != g.Ledger || p.Plans[0].ByPurpose["kv_blocks"] != g.ByPurpose["kv_blocks"].Predicted {
			t.Errorf("%q: plan says %d bytes, generate %d and its ledger %d", kv, p.Plans[0].Peak, g.Predicted, g.Ledger)
		}
		seen[int64(p.Plans[0].Peak)] = true
	}
	if len(seen) != 4 { // f32 is what there is without a flag, and f16 has as many bits as bf16
		t.Errorf("got peaks %v, want another for each format", seen)
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--context", "96", "--kv-type", "q9"}, "--kv-type q9: want K,V, each of them one of f32 f16"},
		{[]string{"--kv-type", "f16"}, "--kv-type is for the planner"},
	} {
		if r := loadline(t, append([]string{"plan", dir}, x.args...)...); r.code != codeUsage || !strings.Contains(r.err, x.want) {
			t.Errorf("%v: got exit code %d and %q, want %q", x.args, r.code, r.err, x.want)
		}
	}
	// Among described machines' plans ours has the bytes that it has alone.
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	machine := filepath.Join(t.TempDir(), "cpu.yaml")
	if err := os.WriteFile(machine, []byte("name: some-cpu\nvendor: CPU\nmemory: 4GiB\nbandwidth_gbs: 12\nbf16_tflops: 0.1\nunified: true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var theirs plannerDocument
	document(t, &theirs, codeDone, "plan", "--preset", "llama-tiny", "--hardware", machine, "--context", "128", "--framework", "loadline", "--kv-type", "q8_0")
	var ours planDocument
	document(t, &ours, codeDone, "plan", "--preset", "llama-tiny", "--context", "128", "--kv-type", "q8_0", "--memory", "2GiB")
	if got, want := theirs.Plans[0].Peak, int64(ours.Plans[0].Peak); got != want {
		t.Errorf("on a described machine: got %d bytes, want %d", got, want)
	}
}
