package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlanCompare checks one table and one document of what is compared, and how its words are understood.
func TestPlanCompare(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, x := range []struct {
		line, set string // what each item sets
	}{
		{"plan llama-3.1-8b --hardware RTX-4090 --compare vllm,sglang,llamacpp", "framework"},
		{"plan llama-3.1-8b --task train --compare 8xH100,8xA100-80GB,4x8xH100", "hardware"},
		{"plan llama-3.1-8b --hardware 8xH100 --task train --compare none,selective,full", "recompute"},
		{"plan llama-3.1-8b --hardware A100-80GB --task finetune --compare none,lora,qlora", "adapter"},
		{"plan llama-3.1-8b --hardware H100 --compare bf16,fp8,awq-int4", "quant"},
		{"plan llama-3.1-8b --hardware 8xH100 --task train --compare bf16,fp8", "precision"},
		{"plan --hardware H100 --compare llama-3.1-8b,qwen3-8b", "model"},
		{"plan llama-3.1-8b --hardware 8xH100 --task train --compare zero=1,zero=2,zero=3", "zero"},
		{"plan llama-3.1-8b --hardware 8xH100 --objective cost --compare concurrency=1,concurrency=64", "concurrency"},
	} {
		var d struct {
			Fits    bool
			Best    string
			Plans   []json.RawMessage
			Compare []struct {
				plannerDocument
				Name  string
				Set   map[string]string
				Error *string
			}
		}
		r := document(t, &d, codeDone, strings.Fields(x.line)...)
		_, list, _ := strings.Cut(x.line, "--compare ")
		items := strings.Split(list, ",")
		if !d.Fits || d.Best == "" || len(d.Plans) == 0 || len(d.Compare) != len(items) || !strings.Contains(r.err, "best by ") {
			t.Errorf("%s: got %+v, %s", x.line, d, r.err)
			continue
		}
		for i, one := range d.Compare {
			want := items[i]
			if _, v, ok := strings.Cut(want, "="); ok {
				want = v
			}
			if one.Name != items[i] || one.Set[x.set] != want || one.Error == nil || *one.Error != "" || len(one.Plans) == 0 || !strings.Contains(r.err, "\n"+one.Name+" ") {
				t.Errorf("%s: got %+v", x.line, one)
			}
			// An item is what plan says with the flag itself.
			single := strings.Fields(strings.ReplaceAll(x.line, "--compare "+list, "--"+x.set+" "+want))
			var alone plannerDocument
			document(t, &alone, codeDone, single...)
			if alone.Plans[0].Peak != one.Plans[0].Peak || alone.Plans[0].TokensPerSecond != one.Plans[0].TokensPerSecond {
				t.Errorf("%s: %s has %d bytes, %v has %d", x.line, one.Name, one.Plans[0].Peak, single, alone.Plans[0].Peak)
			}
		}
	}
	var d struct {
		Fits           bool
		Plans, Compare []json.RawMessage
	}
	if r := document(t, &d, codeDoesNotFit, "plan", "llama-3.1-405b", "--compare", "T4,RTX-4090", "--framework", "vllm"); d.Fits || d.Plans == nil || len(d.Compare) != 2 || !strings.Contains(r.err, "none of T4,RTX-4090") {
		t.Errorf("what fits nowhere: got %+v, %s", d, r.err)
	}
	for line, says := range map[string][2]string{
		"plan llama-3.1-8b --hardware H100 --compare vllm":                 {"want 2 to 32 items, got 1", "--compare"},
		"plan llama-3.1-8b --hardware H100 --compare vllm,":                {"an item is empty", "--compare"},
		"plan llama-3.1-8b --hardware H100 --compare vllm,VLLM":            {"is there twice", "--compare"},
		"plan llama-3.1-8b --hardware H100 --compare vlm,sglang":           {"vlm is no framework", "--compare vllm"},
		"plan llama-3.1-8b --hardware H100 --compare vllm,fp8":             {"of several", "--compare"},
		"plan llama-3.1-8b --hardware H100 --compare tp=1,pt=2":            {"there is no setting pt", "--compare"},
		"plan llama-3.1-8b --hardware H100 --compare tp=1,profile=/x":      {"there is no setting profile", "--compare"},
		"plan llama-3.1-8b --compare vllm,sglang":                          {"which hardware", "--hardware"},
		"plan llama-3.1-8b --hardware H100 --compare vllm,sglang --html x": {"--html says nothing to --compare", "leave it out"},
	} {
		r := loadline(t, strings.Fields(line)...)
		if lines := strings.Split(strings.TrimSpace(r.err), "\n"); r.code != codeUsage || len(lines) != 2 || !strings.Contains(lines[0], says[0]) || !strings.Contains(lines[1], says[1]) {
			t.Errorf("%s: got exit code %d, %s", line, r.code, r.err)
		}
	}
}

// TestPlanOwnMachine checks machines that a user describes, and what is said of a file that describes none.
func TestPlanOwnMachine(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	big := file("big.yaml", "name: H100-BIG\nlike: H100-SXM-80GB\nmemory: 160GiB\ncards: 4\nhost_memory: 1TiB\n")
	two := file("two.yml", "hardware:\n- {name: Lab card, memory: 48GiB, bandwidth_gbs: 900, bf16_tflops: 150, pcie: 4}\n- {name: Other 9999, like: A100-40GB, nodes: 2, cards: 8, node_link_gbs: 12.5}\n")
	for args, want := range map[string]string{
		"--hardware " + big:                                      "4 × H100-BIG of 160 GiB, 159.2 GiB usable, 158.71 GiB of it for the framework, 1 TiB of host memory",
		"--hardware-file " + big:                                 "4 × H100-BIG of 160 GiB",
		"--hardware 2xH100-BIG --hardware-file " + big:           "2 × H100-BIG",
		"--hardware lab-card --hardware-file " + two:             "Lab card of 48 GiB, 47.76 GiB usable, 47.27 GiB of it for the framework",
		"--hardware other-9999 --hardware-file " + two:           "2 nodes of 8 × Other 9999",
		"--hardware 8xH100 --hardware-file " + two:               "8 × H100-SXM5-80GB",
		"--hardware H100-BIG --nvme 1TiB --hardware-file " + big: "4 × H100-BIG of 160 GiB",
	} {
		r := loadline(t, append([]string{"plan", "llama-3.1-8b"}, strings.Fields(args)...)...)
		if r.code != codeDone || !strings.Contains(r.out, "on "+want) {
			t.Errorf("%s: got exit code %d, %.200s%s, want %q", args, r.code, r.out, r.err, want)
		}
	}
	if r := loadline(t, "plan", "--list", "hardware", "--hardware-file", two, "--hardware", "lab card"); r.code != codeDone || !strings.Contains(r.out, "Lab card") {
		t.Errorf("list: got %d, %s", r.code, r.err)
	}
	for text, says := range map[string]string{
		"":                                      "want settings",
		"[1, 2]":                                "cannot unmarshal",
		"memory: 48GiB":                         "a machine has a name",
		"name: Mine":                            "memory: got none: a card needs it",
		"name: 12\nlike: H100":                  "want a name with letters",
		"name: Mine\nlike: H10":                 `like: no card has the name "H10"; the nearest is`,
		"name: Mine\nlike: H100\nmemry: 80GiB":  "no such setting; the nearest valid value is memory",
		"name: Mine\nlike: H100\nmemory: -5GiB": "memory: got -5GiB: want a size such as 48GiB, 512MiB to 1PiB; the nearest valid value is 512MiB",
		"name: Mine\nlike: H100\nmemory: 9PiB":  "the nearest valid value is 1PiB",
		"name: Mine\nlike: H100\nbandwidth_gbs: .nan":                "bandwidth_gbs: got NaN",
		"name: Mine\nlike: H100\nbandwidth_gbs: 1e300":               "the nearest valid value is 1e+06",
		"name: Mine\nlike: H100\ncards: 0":                           "cards: got 0: want a number, 1 to 4096; the nearest valid value is 1",
		"name: Mine\nlike: H100\ncards: 2.5":                         "cards: got 2.5",
		"name: Mine\nlike: H100\ncards: 4096\nnodes: 131072":         "too many cards",
		"name: Mine\nlike: H100\nunified: perhaps":                   "want true or false",
		"name: Mine\nlike: H100\ncards: {a: 1}":                      "cards: got map",
		"hardware: []":                                               "want a list of 1 to 256 machines",
		"hardware: [1]":                                              "machine 1: want settings",
		"hardware: [{name: A b, like: H100}, {name: B c, like: T4}]": "describes 2 machines",
		"name: " + strings.Repeat("x", 1000) + "\nlike: H100":        "want a name of 1 to 100 characters",
	} {
		path := file("bad.yaml", text)
		r := loadline(t, "plan", "llama-3.1-8b", "--hardware-file", path)
		if lines := strings.Split(strings.TrimSpace(r.err), "\n"); r.code != codeUsage || len(lines) != 2 || !strings.Contains(lines[0], says) || len(r.err) > 1000 {
			t.Errorf("%.60q: got exit code %d, %s, want %q", text, r.code, r.err, says)
		}
	}
	for _, path := range []string{dir, "/dev/zero", filepath.Join(dir, "none.yaml"), file("long.yaml", strings.Repeat("# long\n", 20_000))} {
		if r := loadline(t, "plan", "llama-3.1-8b", "--hardware-file", path); r.code == codeDone || len(strings.Split(strings.TrimSpace(r.err), "\n")) != 2 {
			t.Errorf("%s: got exit code %d, %s", path, r.code, r.err)
		}
	}
}
