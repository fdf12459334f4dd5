package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"loadline/planner/score"
)

// plannerDocument is what scripts read of plan --hardware.
type plannerDocument struct {
	Fits  *bool  `json:"fits"`
	Limit int64  `json:"limit_bytes"`
	Next  string `json:"next"`
	Plans []struct {
		Peak            int64            `json:"peak_bytes"`
		Range           [2]int64         `json:"peak_range"`
		OOMChance       *float64         `json:"oom_chance"`
		ByPurpose       map[string]int64 `json:"by_purpose"`
		Ranks           int              `json:"ranks"`
		StepSeconds     float64          `json:"step_seconds"`
		TokensPerSecond float64          `json:"tokens_per_second"`
		Options         map[string]any   `json:"options"`
		Why             string           `json:"why"`
	} `json:"plans"`
	Framework string   `json:"framework"`
	Written   []string `json:"written"`
}

// check checks what CLI users hold on to in a document.
func (d *plannerDocument) check(t *testing.T, fits bool) {
	t.Helper()
	if d.Fits == nil || *d.Fits != fits || d.Limit <= 0 || d.Next == "" || len(d.Plans) == 0 || len(d.Plans) > 3 || d.Written == nil || d.Framework == "" {
		t.Fatalf("got %+v, want fits %v", d, fits)
	}
	for _, p := range d.Plans {
		sum := int64(0)
		for _, n := range p.ByPurpose {
			sum += n
		}
		if p.Peak <= 0 || sum != p.Peak || p.Range[0] > p.Peak || p.Range[1] < p.Peak || p.OOMChance == nil || p.Ranks < 1 || p.StepSeconds <= 0 ||
			p.TokensPerSecond <= 0 || len(p.Options) == 0 || fits && (p.Why == "" || *p.OOMChance > 0.1) {
			t.Errorf("got plan %+v, by purpose %d together", p, sum)
		}
	}
}

// ggufFile writes the header of a GGUF file of a Llama of 2 layers in Q4_0; the tensors' bytes are zero.
func ggufFile(t *testing.T) string {
	t.Helper()
	var b, keys, tensors bytes.Buffer
	put := func(b *bytes.Buffer, values ...any) {
		for _, v := range values {
			if s, ok := v.(string); ok {
				v = append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
			}
			if err := binary.Write(b, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(&keys, "general.architecture", uint32(8), "llama")
	n := uint64(1)
	for key, v := range map[string]uint32{
		"block_count": 2, "embedding_length": 2048, "feed_forward_length": 5632, "attention.head_count": 32, "attention.head_count_kv": 4, "vocab_size": 32000,
	} {
		put(&keys, "llama."+key, uint32(4), v)
		n++
	}
	m, at := uint64(0), uint64(0)
	tensor := func(name string, dims ...uint64) {
		put(&tensors, name, uint32(len(dims)), dims, uint32(2), at)
		values := uint64(1)
		for _, d := range dims {
			values *= d
		}
		at = (at + values/32*18 + 31) / 32 * 32
		m++
	}
	tensor("token_embd.weight", 2048, 32000)
	for i := range 2 {
		for name, width := range map[string]uint64{"attn_q": 2048, "attn_k": 256, "attn_v": 256, "attn_output": 2048, "ffn_gate": 5632, "ffn_up": 5632, "ffn_down": 5632} {
			tensor(fmt.Sprintf("blk.%d.%s.weight", i, name), 2048, width)
		}
	}
	put(&b, uint32(0x46554747), uint32(3), m, n, keys.Bytes(), tensors.Bytes())
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(b.Len()+31)/32*32+int64(at)); err != nil { // the tensors are a hole
		t.Fatal(err)
	}
	return path
}

// TestPlanHardware asks as the help's examples do.
func TestPlanHardware(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := t.TempDir()
	out, page := filepath.Join(dir, "out"), filepath.Join(dir, "report.html")
	for _, x := range []struct {
		line      string
		framework string // empty for any
	}{
		{"plan llama-3.1-70b --hardware 8xH100-SXM-80GB --task train --seq 8192 --global-batch 256", ""},
		{"plan " + ggufFile(t) + " --hardware RTX-4090 --task serve --context 32768 --concurrency 16 --html " + page, "llamacpp"},
		{"plan qwen3-8b --hardware A100-40GB --task finetune --adapter lora --framework deepspeed --write-config " + out, "deepspeed"},
		{"plan --preset llama-tiny --hardware rtx4090 --seq 256", ""},
		{"plan llama-3.1-8b --hardware H100 --quant bf16 --framework vllm --memory 40GiB", "vllm"},
	} {
		var d plannerDocument
		r := document(t, &d, codeDone, strings.Fields(x.line)...)
		d.check(t, true)
		if x.framework != "" && d.Framework != x.framework {
			t.Errorf("%s: got %s, want %s", x.line, d.Framework, x.framework)
		}
		if !strings.Contains(r.err, "best: "+d.Framework) || !strings.Contains(r.err, "next step up: ") {
			t.Errorf("%s: people are told %q", x.line, r.err)
		}
		if strings.Contains(x.line, "40GiB") && (d.Limit > 40<<30 || d.Plans[0].Peak > 40<<30) {
			t.Errorf("%s: got a limit of %d and a peak of %d", x.line, d.Limit, d.Plans[0].Peak)
		}
		for _, f := range d.Written {
			if s, err := os.Stat(f); err != nil || s.Size() == 0 {
				t.Errorf("%s: wrote %s: %v", x.line, f, err)
			}
		}
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("<svg")) {
		t.Errorf("report: got %.60q, %v", text, err)
	}
	body, err := os.ReadFile(filepath.Join(out, "ds_config.json"))
	if err != nil || !json.Valid(body) {
		t.Fatalf("got %q, %v", body, err)
	}

	// What was written is priced, as if all weights were trained, and does not overwrite what somebody has edited.
	var priced struct {
		Prices  []struct{ Key string }
		Unknown []any
		Device  int64 `json:"device_bytes"`
	}
	document(t, &priced, codeDoesNotFit, "plan", "qwen3-8b", "--deepspeed", filepath.Join(out, "ds_config.json"), "--hardware", "2xA100-40GB")
	if len(priced.Prices) == 0 || priced.Unknown == nil || len(priced.Unknown) > 0 || priced.Device <= 0 {
		t.Errorf("got %+v", priced)
	}
	again := []string{"plan", "qwen3-8b", "--hardware", "A100-40GB", "--adapter", "lora", "--framework", "deepspeed", "--write-config", out}
	if r := loadline(t, again...); r.code != codeDone {
		t.Errorf("the same again: got exit code %d, %s", r.code, r.err)
	}
	if err := os.WriteFile(filepath.Join(out, "ds_config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := loadline(t, again...); r.code != codeUsage || !strings.Contains(r.err, "says something else") {
		t.Errorf("over an edited file: got exit code %d, %s", r.code, r.err)
	}
}

// TestPlanHardwareDoesNotFit checks that the document comes with exit code 3, and that no configuration is written.
func TestPlanHardwareDoesNotFit(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	out := filepath.Join(t.TempDir(), "out")
	for _, line := range []string{"plan deepseek-v3 --hardware RTX-4090", "plan llama-3.1-70b --hardware RTX-4090 --task train --framework torchtitan --write-config " + out} {
		var d plannerDocument
		r := document(t, &d, codeDoesNotFit, strings.Fields(line)...)
		d.check(t, false)
		if !strings.Contains(r.err, "does not fit") || !strings.Contains(r.err, "\n  try: ") {
			t.Errorf("%s: got %s", line, r.err)
		}
	}
	if exists(out) {
		t.Error("configurations of a plan that does not fit were written")
	}
}

// TestPlanNonsense checks that what makes no sense to the planner gives one line with the nearest that does.
func TestPlanNonsense(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := file("empty.json", `{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}`)
	log := file("vllm.log", "nothing about memory\n")
	for _, x := range []struct {
		line      string
		code      int
		says, try string
	}{
		{"plan llama-3.1-8b --hardware 8xH10", codeUsage, `no card has the name "H10"; the nearest is`, "--hardware 8x"},
		{"plan lama-3.1-8b --hardware H100", codeUsage, "the nearest built-in model is Llama-3.1-8B", "--list models"},
		{"plan llama-3.1-8b --hardware 8xH100 --tp 3", codeUsage, "--tp 3: Llama-3.1-8B has 32 heads, which it does not divide; the nearest valid value is 2", "--tp 2"},
		{"plan llama-3.1-8b --hardware H100 --tp 2", codeUsage, "--tp 2 is out of range; the nearest valid value is 1", "--tp 1"},
		{"plan llama-3.1-8b --hardware 0xH100", codeUsage, "the nearest valid value is 1xH100", "--hardware 1xH100"},
		{"plan llama-3.1-8b --hardware H100 --memory -5GiB", codeUsage, "it is negative", "--memory"},
		{"plan llama-3.1-8b --hardware H100 --framework vlm", codeUsage, "the nearest valid value is vllm", "--framework vllm"},
		{"plan llama-3.1-8b --hardware H100 --task trian", codeUsage, "want train, finetune or serve", "--task train"},
		{"plan llama-2-7b --hardware H100 --context 65536", codeUsage, "--context 65536: Llama-2-7B has positions for 4096 tokens", "--context 4096"},
		{"plan llama-2-7b --hardware 8xH100 --task train --seq 8192", codeUsage, "--seq 8192: Llama-2-7B has positions for 4096 tokens", "--seq 4096"},
		{"plan llama-3.1-8b --hardware H100 --precision bf16 --quant fp8", codeUsage, "--precision bf16: weights are held in fp8 by --quant", "leave it out"},
		{"plan llama-3.1-8b --hardware Apple-M3-Ultra --task train", codeUsage, "none of deepspeed", "--hardware RTX-4090"},
		{"plan llama-3.1-8b --hardware H100 --seq 0", codeUsage, "--seq 0: want at least 1", "--seq 1"},
		{"plan llama-3.1-8b --hardware H100 --lr 1", codeUsage, "--lr is of our own runs", "leave it out"},
		{"plan llama-3.1-8b --hardware H100 --task train --context 5", codeUsage, "--context says nothing about --task train", "--task serve"},
		{"plan llama-3.1-8b --hardware H100 --task serve --adapter lora", codeUsage, "--adapter says nothing about --task serve", "--task train"},
		{"plan llama-3.1-8b --hardware RTX-4090 --output 5000", codeUsage, "--output 5000: a sequence has 4096 tokens; the nearest valid value is 4096", "--output 4096"},
		{"plan llama-3.1-8b --hardware RTX-4090 --html=", codeUsage, "--html: the path is empty", "leave it out"},
		{"plan llama-3.1-8b --hardware " + file("count.yaml", "{name: 8xFoo, like: H100}"), codeUsage, "begins with a count", "name: Foo"},
		{"plan llama-3.1-8b --hardware " + file("taken.yaml", "{name: H100-SXM-80GB, like: RTX-4090}"), codeUsage, "it means H100-SXM5-80GB already", "name: MINE"},
		{"plan llama-3.1-8b --hardware " + file("escape.yaml", `{name: "a\e[31m", like: RTX-4090}`), codeUsage, `\x1b`, "name: MINE"},
		{"plan llama-3.1-8b --hardware " + file("twice.yaml", "hardware: [{name: a, like: H100}, {name: A, like: T4}]"), codeUsage, "two machines have it", "name: MINE"},
		{"plan llama-3.1-8b --hardware " + file("more.yaml", "{name: a, like: RTX-4090, reported: 25GiB}"), codeUsage, "the card has 24 GiB", "reported: 24GiB"},
		{"plan llama-3.1-8b --ranks 2000000 --deepspeed " + file("ds.json", "{}"), codeUsage, "--ranks 2000000: want at most 1048576", "--ranks 1048576"},
		{"plan --hardware H100", codeUsage, "which model?", "--list models"},
		{"plan llama-3.1-8b", codeUsage, "say on which --hardware", "--hardware 8xH100"},
		{"plan --preset llama-tiny --task train", codeUsage, "--task is for the planner", "--hardware"},
		{"plan --preset llama-tiny --optimizer adamw8bit", codeUsage, "our own runs have adamw, sgd, lion or adafactor", "--optimizer adamw"},
		{"plan --list gpus", codeUsage, "want models or hardware", "--help"},
		{"plan " + ggufFile(t) + " --hardware RTX-4090 --quant q8_0", codeUsage, "says already how its weights are", "leave --quant out"},
		{"plan " + empty + " --hardware H100", codeFailed, "got 0 layers, want 1 to 4096; the nearest valid value is 1", "config.json"},
		{"plan " + file("huge.json", `{"hidden_size":262144,"num_attention_heads":2048,"num_hidden_layers":900,"intermediate_size":1048576,"vocab_size":100}`) + " --hardware H100", codeUsage,
			"990,000,000,000,000 parameters: no machine holds it; the nearest valid value is a model of 100 T parameters", "100 T"},
		{"plan " + file("wide.json", `{"hidden_size":1000000000000000,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":100}`) + " --hardware H100", codeFailed, "hidden size of wide.json: want 1 to 1048576, got more than 2e9; the nearest valid value is 1048576", "config.json"},
		{"plan " + file("minus.json", `{"hidden_size":64,"num_attention_heads":4,"num_hidden_layers":-2,"vocab_size":100}`) + " --hardware H100", codeFailed, "got -2 layers, want 1 to 4096; the nearest valid value is 1", "config.json"},
		{"plan " + file("headless.json", `{"hidden_size":64,"num_hidden_layers":2,"vocab_size":100}`) + " --hardware H100", codeFailed, "heads of headless.json: want 1 to 16384, got 0; the nearest valid value is 1", "config.json"},
		{"plan llama-3.1-8b --hardware 8xH100 --framework megatron --task serve", codeUsage, "megatron does not serve, it does train and finetune; the nearest valid value is train", "--task train"},
		{"plan llama-3.1-8b --hardware 8xH100 --task train --global-batch 7 --batch 2", codeUsage, "micro-batches of 2 do not divide it; the nearest valid value is 8", "--global-batch 8"},
		{"plan llama-3.1-8b --hardware 8xH100 --task train --zero 7", codeUsage, "--zero 7 is out of range; the nearest valid value is 3", "--zero 3"},
		{"plan mixtral-8x7b --hardware 8xH100 --task train --ep 3", codeUsage, "has 8 experts, which it does not divide; the nearest valid value is 2", "--ep 2"},
		{"plan llama-3.1-8b --hardware 9999999xH100", codeUsage, "too many cards; the nearest valid value is 131072xH100", "--hardware 131072xH100"},
		{"plan llama-3.1-8b --hardware A100-80GB --task train --precision fp8", codeUsage, "has no 8-bit units; the nearest valid value is bf16", "--precision bf16"},
		{"plan llama-3.1-8b --hardware H100 --quant q4", codeUsage, "the nearest valid value is q4_k_m", "--quant q4_k_m"},
		{"plan llama-3.1-8b --hardware H100 --host-memory -1", codeUsage, "it is negative", "--host-memory"},
		{"plan " + dir + " --hardware H100", codeUsage, "neither config.json nor a checkpoint", "config.json"},
		{"plan llama-3.1-8b --deepspeed " + empty + " --tp 2", codeUsage, "--tp says nothing about the price", "leave it out"},
		{"plan llama-3.1-8b --deepspeed " + log, codeFailed, "--deepspeed", "deepspeed.initialize"},
		{"plan score", codeUsage, "want one FILE.csv, got 0", "plan score"},
		{"plan score " + log, codeFailed, "no column", "planner-accuracy.md"},
		{"plan check " + log, codeUsage, "want --hardware", "--hardware"},
		{"plan check " + log + " --hardware H100 --model llama-3.1-8b", codeFailed, "no line of memory is known", "log"},
		{"plan check ../../planner/logcheck/testdata/vllm.log --hardware H100 --model llama-3.1-8b --framework sglang", codeUsage, "is a log of vllm", "--framework vllm"},
		{"plan check " + log + " --hardware H100 --html x", codeUsage, "--html is of plan", "plan MODEL"},
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(x.line), strings.NewReader(""), &out, &errs)
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if code != x.code || out.Len() > 0 || len(lines) != 2 {
			t.Errorf("%s: got exit code %d, %q on stdout and %q, want %d, nothing and two lines", x.line, code, out.String(), errs.String(), x.code)
			continue
		}
		if !strings.Contains(lines[0], x.says) || !strings.Contains(lines[1], x.try) {
			t.Errorf("%s: got\n%s\nwant %q and %q in it", x.line, errs.String(), x.says, x.try)
		}
	}
}

// TestPlanLists checks the lists, and that every name in them is one that plan takes.
func TestPlanLists(t *testing.T) {
	var models struct{ Models []listedModel }
	document(t, &models, codeDone, "plan", "--list", "models")
	var cards struct{ Hardware []listedCard }
	document(t, &cards, codeDone, "plan", "--list", "hardware")
	if len(models.Models) < 50 || len(cards.Hardware) < 20 {
		t.Fatalf("got %d models and %d cards", len(models.Models), len(cards.Hardware))
	}
	for _, m := range models.Models {
		if x, err := (&trainFlags{model: m.Name}).planModel(); err != nil || x.Shape.Params() != m.Params {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// TestPlanScore checks the document of a table that is in the tree.
func TestPlanScore(t *testing.T) {
	var d struct {
		Families []score.Family
		Skipped  []score.Skip
	}
	r := document(t, &d, codeDone, "plan", "score", "../../planner/testdata/measured_memory.csv")
	if len(d.Families) < 8 || d.Skipped == nil || !strings.Contains(r.err, "rows left out") {
		t.Errorf("got %+v, %s", d, r.err)
	}
	// The document in docs is what this command writes.
	doc, err := os.ReadFile("../../docs/planner-accuracy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, ids, _ := strings.Cut(string(doc), "Their ids: ")
	ids, _, _ = strings.Cut(ids, ".\n")
	dir := t.TempDir()
	document(t, &d, codeDone, "plan", "score", "../../planner/testdata/measured_memory.csv", "--write", dir, "--leave-out", strings.ReplaceAll(ids, " ", ""))
	for _, name := range []string{score.DocumentName, score.PlotName} {
		want, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: what plan score writes is not what docs has; %v", name, err)
		}
	}
	if r := loadline(t, "plan", "score", "../../planner/testdata/measured_memory.csv", "--leave-out", "no-such-row"); r.code != codeUsage {
		t.Errorf("a row that is not there: got %d, %s", r.code, r.err)
	}
	for _, f := range d.Families {
		if f.Name == "" || f.Rows < 1 || f.Median > f.P90 || f.Median > 0.1 {
			t.Errorf("got %+v", f)
		}
	}
}

// TestPlanCheck checks that a log is compared, that it is learnt from when that is asked for, and that plan then says what it used.
func TestPlanCheck(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "mine", "profile.json")
	job := []string{"llama-3.1-8b", "--hardware", "H100-SXM-80GB", "--context", "8192", "--concurrency", "16", "--quant", "bf16", "--profile", profile}
	check := append([]string{"plan", "check", "../../planner/logcheck/testdata/vllm.log", "--model"}, job...)
	var d struct {
		System, Framework, Profile string
		Lines                      []struct{ Name string }
		RanOut                     *bool `json:"ran_out"`
		Alone                      []string
	}
	document(t, &d, codeDone, check...)
	if d.System != "vllm" || d.Framework != "vllm" || len(d.Lines) < 7 || d.RanOut == nil || d.Alone == nil || d.Profile != "" || exists(profile) {
		t.Errorf("got %+v", d)
	}
	var before, after plannerDocument
	plan := append([]string{"plan", "--framework", "vllm"}, job...)
	document(t, &before, codeDone, plan...)
	document(t, &d, codeDone, append(check, "--learn")...)
	if d.Profile != profile || !exists(profile) {
		t.Errorf("got profile %q", d.Profile)
	}
	if r := document(t, &after, codeDone, plan...); before.Plans[0].Peak == after.Plans[0].Peak || !strings.Contains(r.err, "corrected by what logs taught") {
		t.Errorf("what was learnt changed nothing: peak %d; %s", after.Plans[0].Peak, r.err)
	}
	if r := loadline(t, append(check, "--learn", "--task", "serve")...); r.code != codeDone || !strings.Contains(r.out, "as planned") {
		t.Errorf("got exit code %d, %s", r.code, r.out)
	}
}

// TestPlanFlags pins the flags of plan's own verbs, as TestFlags does those of the others.
func TestPlanFlags(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	var b strings.Builder
	for _, c := range a.planCommand().Commands() {
		fmt.Fprintf(&b, "plan %s\n", c.Name())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				fmt.Fprintf(&b, "  --%s %s %q\n", f.Name, f.Value.Type(), f.DefValue)
			}
		})
		var out, errs bytes.Buffer
		if code := run([]string{"plan", c.Name(), "--help"}, strings.NewReader(""), &out, &errs); code != codeDone || !strings.Contains(out.String(), "loadline plan "+c.Name()) {
			t.Errorf("plan %s --help: got exit code %d and %s", c.Name(), code, out.String())
		}
	}
	golden(t, "testdata/planflags.txt", b.String())
}
