package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlanOwn checks that our own runs are candidates on a machine that we have a device for, and there alone, that their bytes are those
// that plan says of the same settings, and that train's ledger then has: to the byte.
func TestPlanOwn(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	machine := filepath.Join(t.TempDir(), "cpu.yaml")
	if err := os.WriteFile(machine, []byte("name: some-cpu\nvendor: CPU\nmemory: 4GiB\nbandwidth_gbs: 12\nbf16_tflops: 0.1\nunified: true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const below = "--task train --seq 64 --memory 61MiB" // which does not hold the moments
	for _, line := range []string{
		"--task train --seq 64 --batch 2", "--task train --seq 128 --precision fp32 --batch 1 --recompute full", "--task train --seq 64 --memory 80MiB", below,
	} {
		var d plannerDocument
		document(t, &d, codeDone, append(strings.Fields("plan --preset llama-tiny --hardware "+machine), strings.Fields(line)...)...)
		d.check(t, true)
		if d.Framework != "loadline" {
			t.Errorf("%s: got %s, want loadline", line, d.Framework)
			continue
		}
		for i, p := range d.Plans {
			if p.Options["framework"] != "loadline" {
				continue
			}
			if p.Range != [2]int64{p.Peak, p.Peak} {
				t.Errorf("%s: got a range of %v about %d, want exact bytes", line, p.Range, p.Peak)
			}
			same := []string{"--preset", "llama-tiny", "--memory", "2GiB", "--attention", "flash"}
			if x := p.Options["offload"]; (x == "optimizer") != (line == below) {
				t.Errorf("%s: plan %d offloads %q", line, i, x)
			} else if x != "" {
				same = append(same, "--offload", fmt.Sprint(x))
			}
			for _, name := range []string{"batch", "seq", "accumulate", "precision", "recompute"} {
				same = append(same, "--"+name, fmt.Sprint(p.Options[name]))
			}
			var plain plannerDocument
			document(t, &plain, codeDone, append([]string{"plan"}, same...)...)
			if plain.Plans[0].Peak != p.Peak {
				t.Errorf("%s: plan %d has %d bytes, plan %s has %d", line, i, p.Peak, strings.Join(same, " "), plain.Plans[0].Peak)
			}
			if i > 0 {
				continue
			}
			var run struct {
				Predicted int64 `json:"predicted_peak_bytes"`
				Ledger    int64 `json:"ledger_peak_bytes"`
			}
			document(t, &run, codeDone, append([]string{"train", "--steps", "1", "--quiet", "--data", text(t, 20_000), "--out", filepath.Join(t.TempDir(), "run")}, same...)...)
			if run.Predicted != run.Ledger || run.Ledger != p.Peak {
				t.Errorf("%s: planned %d bytes, train planned %d and its ledger has %d", line, p.Peak, run.Predicted, run.Ledger)
			}
		}
	}
	var d plannerDocument
	document(t, &d, codeDone, "plan", "--preset", "llama-tiny", "--hardware", machine, "--context", "128", "--framework", "loadline")
	d.check(t, true)
	document(t, &d, codeDoesNotFit, "plan", "--preset", "llama-tiny", "--hardware", machine, "--task", "train", "--memory", "50MiB")
	if r := loadline(t, "plan", "--preset", "llama-tiny", "--hardware", "RTX-4090", "--framework", "loadline"); r.code != codeUsage || !strings.Contains(r.err, "want one of") {
		t.Errorf("on a card: got %d, %s", r.code, r.err)
	}
}
