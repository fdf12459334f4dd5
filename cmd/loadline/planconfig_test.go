package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const writersData = "../../planner/writers/testdata"

// TestPlanConfig checks that plan --config of every golden loadline.yaml gives the same plan again: all that is written for it is the
// same to the byte.
func TestPlanConfig(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(writersData, "*.loadline.yaml.golden"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("got %d goldens, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".loadline.yaml.golden")
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			var d plannerDocument
			document(t, &d, 0, "plan", "--config", path, "--profile", filepath.Join(out, "none.json"), "--write-config", out, "--json")
			d.check(t, true)
			if len(d.Plans) == 0 || len(d.Written) == 0 {
				t.Fatalf("got %+v", d)
			}
			for _, file := range d.Written {
				got, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(filepath.Join(writersData, name+"."+filepath.Base(file)+".golden"))
				if err != nil || string(got) != string(want) {
					t.Errorf("%s: got\n%s\nwant\n%s%v", filepath.Base(file), got, want, err)
				}
			}
		})
	}
}

// TestWrittenModel checks that written configurations name what the framework can open.
func TestWrittenModel(t *testing.T) {
	gguf := ggufFile(t)
	for _, c := range []struct{ args, file, want string }{
		{"llama-3.1-8b --framework vllm", "vllm.sh", "model='meta-llama/Llama-3.1-8B' "},
		{"llama-3.1-8b-instruct --framework vllm", "vllm.sh", "model='ORG/llama-3.1-8b-instruct'  # PLACEHOLDER"},
		{"meta-llama/Llama-3.1-8B-Instruct --framework sglang", "sglang.sh", "model='meta-llama/Llama-3.1-8B-Instruct' "},
		{"qwen3-8b --framework peft --adapter lora", "trainer.yaml", `model_name_or_path: "Qwen/Qwen3-8B" `},
		{"qwen3-8b --framework peft --adapter lora", "trainer.yaml", "\ndtype: bfloat16 "},
		{"llama-3.1-8b --framework llamacpp --quant q8_0", "llama-server.sh", "model='./llama-3.1-8b-Q8_0.gguf'  # PLACEHOLDER"},
		{gguf + " --framework llamacpp", "llama-server.sh", "model='" + gguf + "' "},
		{gguf + " --framework llamacpp", "loadline.yaml", `model: "` + gguf + `" `},
		{"llama-3.1-8b --framework vllm --objective cost --memory 60GiB --host-memory 99GiB", "loadline.yaml", "\nhost-memory: 106300440576 "},
	} {
		out := t.TempDir()
		args := append(append([]string{"plan"}, strings.Fields(c.args)...), "--hardware", "H100", "--profile", filepath.Join(out, "none.json"), "--write-config", out)
		if r := loadline(t, args...); r.code != 0 {
			t.Fatalf("%s: got %+v", c.args, r)
		}
		body, err := os.ReadFile(filepath.Join(out, c.file))
		if err != nil || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: got %v\n%s\nwant %q", c.args, err, body, c.want)
		}
		again := t.TempDir()
		if r := loadline(t, "plan", "--config", filepath.Join(out, "loadline.yaml"), "--profile", filepath.Join(out, "none.json"), "--write-config", again); r.code != 0 {
			t.Fatalf("%s again: got %+v", c.args, r)
		}
		if got, err := os.ReadFile(filepath.Join(again, c.file)); err != nil || string(got) != string(body) {
			t.Errorf("%s again: got %v\n%s\nwant\n%s", c.args, err, got, body)
		}
	}
}
