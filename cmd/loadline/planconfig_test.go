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

// TestPlanConfigReasons checks that plan --config gives the reasons of the first plan again, and says why it names no next step.
func TestPlanConfigReasons(t *testing.T) {
	for _, line := range []string{
		"llama-3.1-8b --hardware 8xH100 --task train", "llama-3.1-70b --hardware 4x8xH100 --task train --seq 8192 --global-batch 256", "llama-3.1-8b --hardware 8xH100 --task train --seq 131072",
		"mixtral-8x7b --hardware 4x8xH100 --task train --framework megatron", "llama-3.1-70b --hardware 8x8xH100 --task train --framework torchtitan --global-batch 512",
		"qwen3-8b --hardware A100-40GB --task finetune --adapter lora", "qwen3-8b --hardware 2xA100-40GB --task finetune", "llama-3.1-8b --hardware 4xV100-32GB --task train",
		"llama-3.1-70b --hardware 2x8xA100-80GB --task train --framework deepspeed --objective cost",
	} {
		out := t.TempDir()
		again := func(args ...string) (d plannerDocument) {
			document(t, &d, codeDone, append([]string{"plan", "--profile", filepath.Join(out, "none.json")}, args...)...)
			return d
		}
		first := again(append(strings.Fields(line), "--write-config", out)...)
		second := again("--config", filepath.Join(out, "loadline.yaml"))
		if len(first.Plans) == 0 || len(second.Plans) != 1 {
			t.Fatalf("%s: got %d plans and %d again, want several and one", line, len(first.Plans), len(second.Plans))
		}
		if got, want := second.Plans[0].Why, first.Plans[0].Why; got != want {
			t.Errorf("%s: again it is\n%s\nwant\n%s", line, strings.ReplaceAll(got, "; ", "\n  "), strings.ReplaceAll(want, "; ", "\n  "))
		}
		if !strings.Contains(second.Next, "every setting is held") {
			t.Errorf("%s: again the next step is %q", line, second.Next)
		}
	}
}
