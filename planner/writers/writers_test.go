package writers

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/planner/hardware"
	"loadline/planner/search"
	"loadline/planner/shape"
)

var update = flag.Bool("update", false, "rewrite the goldens")

// plans are questions whose answers cover every format.
var plans = []struct {
	name, model, machine string
	q                    search.Question
}{
	{"deepspeed", "Llama-3.1-70B", "8xH100-SXM-80GB", search.Question{Task: search.Train, Framework: "deepspeed", Seq: 4096, GlobalBatch: 64, Hold: search.Hold{Offload: "optimizer"}}},
	{"deepspeed-lora", "Qwen3-8B", "A100-40GB", search.Question{Task: search.Finetune, Framework: "deepspeed", Seq: 2048, GlobalBatch: 16, Hold: search.Hold{Adapter: "lora"}}},
	{"torchtitan", "Llama-3.1-8B", "8xH100-SXM-80GB", search.Question{Task: search.Train, Framework: "torchtitan", Seq: 8192, GlobalBatch: 64, Hold: search.Hold{Recompute: "selective"}}},
	{"torchtitan-pp", "Llama-3.1-70B", "4x8xH100", search.Question{Task: search.Train, Framework: "torchtitan", Seq: 8192, GlobalBatch: 256, Hold: search.Hold{PP: 4}}},
	{"megatron-interleaved", "Llama-3.1-70B", "8x8xH100", search.Question{Task: search.Train, Framework: "megatron", Seq: 4096, GlobalBatch: 256, Hold: search.Hold{TP: 4, PP: 4, Interleave: 2}}},
	{"deepspeed-long", "Llama-3.1-8B", "8xH100", search.Question{Task: search.Train, Framework: "deepspeed", Seq: 131072, GlobalBatch: 8, Hold: search.Hold{CP: 8}}},
	{"megatron", "Mixtral-8x7B", "4x8xH100", search.Question{Task: search.Train, Framework: "megatron", Seq: 4096, GlobalBatch: 256}},
	{"torchtune", "Llama-3.1-8B", "RTX-4090", search.Question{Task: search.Finetune, Framework: "torchtune", Seq: 2048, GlobalBatch: 16, Hold: search.Hold{Adapter: "lora"}}},
	{"peft", "Llama-3.1-8B", "RTX-4090", search.Question{Task: search.Finetune, Framework: "peft", Seq: 1024, GlobalBatch: 16, Hold: search.Hold{Adapter: "qlora"}}},
	{"fsdp-qlora", "Llama-3.1-70B", "2xRTX-4090", search.Question{Task: search.Finetune, Framework: "fsdp-qlora", Seq: 1024, GlobalBatch: 16}},
	{"vllm", "Llama-3.1-70B", "4xA100-80GB", search.Question{Task: search.Serve, Framework: "vllm", Context: 8192, Concurrency: 32, Hold: search.Hold{Quant: "awq-int4"}}},
	{"sglang", "Qwen3-32B", "2xH100", search.Question{Task: search.Serve, Framework: "sglang", Context: 16384, Concurrency: 16}},
	{"llamacpp", "Llama-3.1-70B", "RTX-4090", search.Question{Task: search.Serve, Framework: "llamacpp", Context: 4096}},
}

func jobOf(t *testing.T, i int) Job {
	t.Helper()
	p := plans[i]
	cards, err := shape.Load()
	if err != nil {
		t.Fatal(err)
	}
	table, err := hardware.Load()
	if err != nil {
		t.Fatal(err)
	}
	q := p.q
	q.Shape, _ = cards.ByName(p.model)
	if q.Machine, err = search.ParseMachine(table, p.machine); err != nil {
		t.Fatal(err)
	}
	a, err := search.Plans(q)
	if err != nil || !a.Fits {
		t.Fatalf("%s: got %+v, %v; want a plan", p.name, a, err)
	}
	return Job{Model: p.model, Question: a.Question, Plan: a.Plans[0]}
}

// TestGoldens holds every format against what was reviewed.
func TestGoldens(t *testing.T) {
	for i, p := range plans {
		t.Run(p.name, func(t *testing.T) {
			files, err := Write(jobOf(t, i))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				name := filepath.Join("testdata", p.name+"."+f.Name+".golden")
				if *update {
					if err := os.WriteFile(name, []byte(f.Body), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				if f.Body != string(want) {
					t.Errorf("%s: got\n%s\nwant\n%s", f.Name, f.Body, want)
				}
			}
		})
	}
}

// TestDeepSpeedJSON checks that the JSON parses, has its reasons, and that its batches agree as DeepSpeed asserts.
func TestDeepSpeedJSON(t *testing.T) {
	j := jobOf(t, 0)
	files, err := Write(j)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Train int `json:"train_batch_size"`
		Micro int `json:"train_micro_batch_size_per_gpu"`
		Steps int `json:"gradient_accumulation_steps"`
		Zero  struct {
			Stage   int
			Offload struct {
				Device string
				Pin    bool `json:"pin_memory"`
			} `json:"offload_optimizer"`
		} `json:"zero_optimization"`
	}
	if err := json.Unmarshal([]byte(files[0].Body), &d); err != nil {
		t.Fatal(err)
	}
	c := j.Plan.Config
	if d.Train != d.Micro*d.Steps*c.DP || d.Train != 64 || d.Zero.Stage != c.ZeRO || d.Zero.Offload.Device != "cpu" || !d.Zero.Offload.Pin {
		t.Errorf("got %+v of %+v", d, c)
	}
	for _, key := range []string{"zero_optimization.stage", "train_batch_size", "offload_optimizer.device"} {
		if !strings.Contains(files[1].Body, key) {
			t.Errorf("no reason for %s in\n%s", key, files[1].Body)
		}
	}
}

// TestRefused checks what cannot be written.
func TestRefused(t *testing.T) {
	if _, err := Write(Job{}); err == nil {
		t.Error("an empty job: got no error")
	}
	j := jobOf(t, len(plans)-1)
	j.Plan.Config.System = "nobody"
	if _, err := Write(j); err == nil || !strings.Contains(err.Error(), "vllm") {
		t.Errorf("an unknown framework: got %v", err)
	}
	j = jobOf(t, len(plans)-3)
	j.Model = "it's; rm -rf /"
	files, err := Write(j)
	if err != nil || !strings.Contains(files[0].Body, `'it'\''s; rm -rf /'`) {
		t.Errorf("a name with a quote: got %v, %v", files, err)
	}
}

// TestReasons checks that every line that sets something says why.
func TestReasons(t *testing.T) {
	for i, p := range plans {
		files, err := Write(jobOf(t, i))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name, ".json") || strings.HasSuffix(f.Name, ".md") {
				continue
			}
			for _, line := range strings.Split(f.Body, "\n") {
				word := strings.TrimSpace(line)
				sets := strings.HasPrefix(word, "--") || strings.Contains(word, ": ") || strings.Contains(word, "=") && !strings.HasPrefix(word, "[") && word != "args=("
				if sets && !strings.Contains(line, "# ") && !strings.HasPrefix(word, "config.") && !strings.HasPrefix(word, "recipe_name") {
					t.Errorf("%s, %s: no reason for %q", p.name, f.Name, line)
				}
			}
		}
	}
}
