package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchTrain(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "cpu.prof")
	for _, precision := range []string{"fp32", "bf16", "fp16"} {
		var d benchTrainDocument
		document(t, &d, 0, "bench", "train", "--preset", "llama-tiny", "--batch", "2", "--seq", "64", "--steps", "3", "--precision", precision,
			"--threads", "2", "--memory", "512MiB", "--cpuprofile", profile)
		if len(d.Results) != 1 || d.Results[0].Threads != 2 || d.Steps != 3 || d.Precision != precision {
			t.Fatalf("%+v", d)
		}
		if got := d.Results[0].TokensPerSecond; !(got > 0) || !(d.StepSeconds > 0) || got*d.StepSeconds < 128*(1-1e-9) { // the mean of rates is at least the rate of the mean
			t.Errorf("%v tokens/s, %v s a step", got, d.StepSeconds)
		}
		if d.Predicted != d.Ledger || d.Predicted <= 0 || d.Saved <= 0 {
			t.Errorf("promise %v, ledger %v, saved %v", d.Predicted, d.Ledger, d.Saved)
		}
		if st, err := os.Stat(profile); err != nil || st.Size() == 0 {
			t.Errorf("profile: %v", err)
		}
	}
}

func TestBenchKernels(t *testing.T) {
	var d struct {
		Results []benchResult `json:"results"`
		Kernels string        `json:"kernels"`
	}
	document(t, &d, 0, "bench", "kernels", "--only", "rope", "--kernels", "generic", "--threads", "1", "--repeat", "1")
	if len(d.Results) != 1 || d.Kernels != "generic" || !(d.Results[0].GBPerSecond > 0) || d.Results[0].Threads != 1 {
		t.Errorf("%+v", d)
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"train --out x", "no --out"},
		{"train --ranks 2", "no --ranks"},
		{"train --steps 0", "--steps"},
		{"train --kernels avx9", "--kernels avx9"},
		{"train --preset bench-20", "bench-20"},
		{"kernels --only nothing", "--only nothing"},
		{"kernels --repeat 0", "--repeat 0"},
		{"kernels --repeat 9223372036854775807", "--repeat 9223372036854775807: want 1 to"},
		{"--model x --repeat 9223372036854775807", "--repeat 9223372036854775807: want 1 to"},
	} {
		r := loadline(t, append([]string{"bench"}, strings.Fields(c.args)...)...)
		if r.code != 2 || !strings.Contains(r.err, c.want) {
			t.Errorf("bench %s: exit %d, %s", c.args, r.code, r.err)
		}
	}
}
