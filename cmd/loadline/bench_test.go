package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/device"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
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

// Products in float32 are measured as a server has them and, where the set multiplies in parts, as a step has them, each under its own name.
func TestBenchParts(t *testing.T) {
	for _, set := range kernel.Sets() {
		parts := set.Parts() != set
		names := map[string]operation{}
		for _, o := range operations(set) {
			if _, twice := names[o.name]; twice {
				t.Errorf("%s: %s is there twice", set.Name(), o.name)
			}
			if names[o.name] = o; strings.Contains(o.name, "in parts") != o.trains || o.trains && !parts {
				t.Errorf("%s: %s trains %v", set.Name(), o.name, o.trains)
			}
		}
		p := layers[0]
		for kind, want := range map[string]bool{"matmul f32 in parts": parts, "matmul_dx f32 in parts": parts, "matmul_dw f32 in parts": parts, "matmul f32": true, "matmul_dx f32": !parts, "matmul_dw f32": !parts, "matmul bf16": true} {
			if _, got := names[fmt.Sprintf("%s %d×%d×%d", kind, p.m, p.n, p.k)]; got != want {
				t.Errorf("%s: %s is there %v, want %v", set.Name(), kind, got, want)
			}
		}
		if !parts {
			continue
		}
		small, out := product{64, 64, 96}, [2][]byte{}
		server := small.forward(dtype.F32)
		for i, o := range []operation{server, server.inParts()} {
			s, err := o.open(set, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out[i] = make([]byte, 4*small.m*small.n)
			if err := errors.Join(s.Run("bench", device.Args{}), s.Read("y", 0, out[i])); err != nil {
				t.Fatal(err)
			}
		}
		if bytes.Equal(out[0], out[1]) {
			t.Errorf("%s: a product in parts has the bits of the multiply-adds", set.Name())
		}
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
