package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// llamaLog is a start-up of llama.cpp with a file of the given type.
const llamaLog = `llama_model_loader: loaded meta data with 28 key-value pairs and 291 tensors from /models/x.gguf (version GGUF V3 (latest))
print_info: file type   = TYPE
load_tensors:        CUDA0 model buffer size =  4403.49 MiB
load_tensors:   CPU_Mapped model buffer size =   281.81 MiB
llama_kv_cache_unified:      CUDA0 KV buffer size =  1024.00 MiB
llama_kv_cache_unified: size = 1024.00 MiB (  8192 cells,  32 layers,  1 seqs), K (f16):  512.00 MiB, V (f16):  512.00 MiB
`

// TestPlanCheckFormats checks that plan check plans the weights that the log names.
func TestPlanCheckFormats(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, c := range []struct{ file, more, quant, said string }{
		{"Q4_K - Medium", "", "q4_k_m", "planned with weights in q4_k_m, as the log says"},
		{"Q4_0", "", "q4_k_m", "the nearest to the log's q4_0"},
		{"mostly Q8_0", "", "q8_0", "as the log says"},
		{"BF16", "", "bf16", "as the log says"},
		{"Q4_K - Medium", " --quant q6_k", "q6_k", "weights"},
		{"TQ1_0 - 1.69 bpw ternary", "", "q8_0", "the log's weights are in tq1_0, which no plan has"},
	} {
		path := filepath.Join(t.TempDir(), "llama.log")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(llamaLog, "TYPE", c.file)), 0o644); err != nil {
			t.Fatal(err)
		}
		var d struct{ Quant string }
		r := document(t, &d, codeDone, append([]string{"plan", "check", path}, strings.Fields("--model llama-3.1-8b --hardware RTX-4090 --context 8192"+c.more)...)...)
		if d.Quant != c.quant || !strings.Contains(r.err, c.said) {
			t.Errorf("%s%s: got %q, %s", c.file, c.more, d.Quant, r.err)
		}
	}
}

// TestPlanEvents checks that no verb of the planner leaves an empty log of events.
func TestPlanEvents(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for line, want := range map[string]string{
		"plan llama-3.1-8b --hardware RTX-4090": "plan", "plan --list models": "end", "plan llama-3.1-8b --compare H100,A100-80GB": "end",
		"plan llama-3.1-70b --hardware RTX-4060 --task train": "plan", "plan check ../../planner/logcheck/testdata/vllm.log --hardware H100 --model llama-3.1-8b": "end",
	} {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		loadline(t, append(strings.Fields(line), "--events", path)...)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(f)
		var first struct {
			Event string
			Verb  string
			Fits  *bool
		}
		if !in.Scan() || json.Unmarshal(in.Bytes(), &first) != nil || first.Event != "begin" || !strings.HasPrefix(line, first.Verb) {
			t.Errorf("%s: got %q, want that it begins first", line, in.Text())
		}
		if !in.Scan() || json.Unmarshal(in.Bytes(), &first) != nil || first.Event != want || want == "plan" && first.Fits == nil {
			t.Errorf("%s: got %q, want %s then", line, in.Text(), want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPlanDeepSpeedFits checks the verdict on a DeepSpeed file, and its comparison with the plan of the same settings.
func TestPlanDeepSpeedFits(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "ds.json")
	body := `{"bf16":{"enabled":true},"train_micro_batch_size_per_gpu":1,"zero_optimization":{"stage":3,"overlap_comm":true,"reduce_bucket_size":500000000,"stage3_max_live_parameters":1000000000}}`
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	var plan plannerDocument
	document(t, &plan, codeDone, strings.Fields("plan llama-3.1-8b --framework deepspeed --task train --hardware 8xH100 --zero 3 --batch 1 --seq 4096 --recompute full --offload none --loss-head full --precision bf16 --optimizer adamw")...)
	for hardware, code := range map[string]int{"8xH100": codeDone, "2xA100-40GB": codeDoesNotFit} {
		var d struct {
			Fits     *bool
			Need     int64         `json:"need_bytes"`
			Limit    int64         `json:"limit_bytes"`
			Device   int64         `json:"device_bytes"`
			Compared []pricedGroup `json:"compared"`
		}
		r := document(t, &d, code, "plan", "llama-3.1-8b", "--deepspeed", path, "--hardware", hardware, "--seq", "4096")
		if d.Fits == nil || *d.Fits != (code == codeDone) || len(d.Compared) != 4 || d.Limit <= 0 || !strings.Contains(r.err, "together is what the keys of this file ask for, where all weights are trained") {
			t.Fatalf("%s: got %+v, %s", hardware, d, r.err)
		}
		file, planned := int64(0), int64(0)
		for _, x := range d.Compared {
			file, planned = file+int64(x.File), planned+int64(x.Plan)
			if x.Why == "" {
				t.Errorf("%s: no reason", x.Name)
			}
		}
		if file != d.Device {
			t.Errorf("%s: got %d together, want the file's %d", hardware, file, d.Device)
		}
		if hardware == "8xH100" && (planned != plan.Plans[0].Peak || d.Need != planned) { // the file has the defaults
			t.Errorf("got %d planned and a need of %d, want the plan's %d", planned, d.Need, plan.Plans[0].Peak)
		}
	}
}
