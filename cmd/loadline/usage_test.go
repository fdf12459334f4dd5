package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestFlags pins the names, types and defaults of all flags: users' scripts hold on to them.
func TestFlags(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	var b strings.Builder
	list := func(name string, f *pflag.FlagSet) {
		fmt.Fprintf(&b, "%s\n", name)
		f.VisitAll(func(f *pflag.Flag) { fmt.Fprintf(&b, "  --%s %s %q\n", f.Name, f.Value.Type(), f.DefValue) })
	}
	root := a.rootCommand()
	list("every verb", root.PersistentFlags())
	for _, c := range root.Commands() {
		list(c.Name(), c.LocalNonPersistentFlags())
	}
	golden(t, "testdata/flags.txt", b.String())
}

// golden compares text with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-update rewrites it): -want +got\n%s", path, d)
	}
}

func TestHelp(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	verbs := []string{""}
	for _, c := range a.rootCommand().Commands() {
		verbs = append(verbs, c.Name())
	}
	for _, v := range verbs {
		var out, errs bytes.Buffer
		args := []string{"--help"}
		if v != "" {
			args = []string{v, "--help"}
		}
		if code := run(args, strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Errorf("%q --help: got exit code %d and %q, want 0 and nothing", v, code, errs.String())
		}
		if !strings.Contains(out.String(), "Examples:") || !strings.Contains(out.String(), "loadline "+v) {
			t.Errorf("%q --help has no examples:\n%s", v, out.String())
		}
	}
	var out bytes.Buffer
	if code := run([]string{"--version"}, strings.NewReader(""), &out, &out); code != 0 || !strings.HasPrefix(out.String(), "loadline "+version) {
		t.Errorf("--version: got exit code %d and %q", code, out.String())
	}
}

// TestUsage checks what is said about command lines that cannot be: exit code 2, one line about what is wrong and one about what to do.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct {
		line      string
		says, try string
	}{
		{"trian", `there is no verb "trian"`, "train"},
		{"generat --model G", `there is no verb "generat"`, "generate"},
		{"generat --seed x", `there is no verb "generat"`, "generate"},
		{"bench trai --preset x", `there is neither a model nor a verb "trai" of loadline bench`, "loadline bench train"},
		{"plan chek run.log --learn", `there is neither a model nor a verb "chek" of loadline plan`, "loadline plan check"},
		{"plan llama-3.1-8b --learn", "there is no flag --learn", "--"},
		{"--model G", "a verb is missing before --model: want generate, chat, train, plan, ", "loadline generate --model …"},
		{"--data book.txt --json=false", "a verb is missing before --data: want train, plan", "loadline train --data …"},
		{"-p 4", "a verb is missing before -p: want bench", "loadline bench -p …"},
		{"--modle G", "a verb is missing, and no verb has a flag --modle", "a verb with --model"},
		{"--threads 2", "a verb is missing", "--help lists the verbs"},
		{"train --recompue full", "there is no flag --recompue", "--recompute"},
		{"train --preset llama-tin", `there is no preset "llama-tin"`, "--preset llama-tiny"},
		{"train bench-20", ": no such file or directory", "--preset bench-20m"},
		{"train --preset llama-tiny --schedule cosin", "--schedule cosin: want constant, cosine or wsd", "--schedule cosine"},
		{"train --preset llama-tiny --precision fp15", "--precision fp15: want fp32", "--precision fp1"},
		{"train --preset llama-tiny --precision fp8", "only fp32, bf16, fp16 are there yet", "--precision"},
		{"train --preset llama-tiny --optimizer adam", "--optimizer adam: want adamw, sgd, lion or adafactor", "--optimizer adamw"},
		{"train --preset llama-tiny --nesterov", "--momentum and --nesterov are of sgd, the optimizer is adamw", "--optimizer sgd"},
		{"train --preset llama-tiny --optimizer sgd --momentum 1", "--momentum: 1: want less than 1", "--momentum"},
		{"train --preset llama-tiny --optimizer sgd --momentum 0 --nesterov", "--nesterov: it is of sgd with momentum", "--nesterov"},
		{"train --preset llama-tiny --master none", "--master none with --precision fp32: only bf16", "--precision bf16 --master none"},
		{"train --preset llama-tiny --head-chunk 100", "--head-chunk: 100 rows: want a multiple of 128", "--head-chunk"},
		{"train --preset llama-tiny --head-chunk some", "--head-chunk some: want auto, or a multiple of 128", "--head-chunk auto"},
		{"train --preset llama-tiny --label-smoothing 1", "--label-smoothing: 1: want 0 or more, and less than 1", "--label-smoothing"},
		{"train --preset llama-tiny --z-loss -1", "--z-loss: -1: want 0 to 1", "--z-loss"},
		{"train --preset llama-tiny --recompute atn.core", "--recompute atn.core: no part", "--recompute attn.core"},
		{"train --preset llama-tiny --recompute full,none", "want none, full, auto, or tags", "--recompute auto"},
		{"train --preset llama-tiny --steps ten", "--steps ten: want a whole number", "--help"},
		{"train --preset llama-tiny --steps 0", "--steps: 0: want at least 1", "--steps"},
		{"train --preset llama-tiny --memory 96M", `--memory 96M: size "96M"`, "--help"},
		{"train --preset llama-tiny --memory 0", "--memory 0: want more than 0", "--help"},
		{"train --preset llama-tiny --lr", "--lr: want a value", "--help"},
		{"train --preset llama-tiny --batch 0", "batch 0", "--help"},
		{"train --preset llama-tiny --threads -1", "--threads -1", "--threads"},
		{"train --preset llama-tiny --offload activation", "--offload activation: want activations", "--offload activations"},
		{"train --preset llama-tiny --offload weights", "activations and optimizer alone are there yet", "--offload activations"},
		{"train --preset llama-tiny --tier file:/x", "want file:DIR=SIZE", "--tier file:"},
		{"train --preset llama-tiny --zero 1", "want at least 2 ranks", "--zero"},
		{"train --preset llama-tiny --ranks 0", "--ranks 0: want at least 1", "--ranks 1"},
		{"train --preset llama-tiny --eval-every 3", "there is no text to evaluate on", "--val-data"},
		{"train --preset llama-tiny --model x", "there is --preset llama-tiny and also --model x", "one of them"},
		{"train", "what is to be trained", "--preset llama-tiny"},
		{"train --preset llama-tiny --resume " + dir + "/no --out " + dir + "/new", ": no such file or directory", "path"},
		{"train --preset llama-tiny --out " + dir, dir + " exists", "--resume " + dir},
		{"train --model " + dir, "neither config.json nor a checkpoint", "config.json"},
		{"plan nope", ": no such file or directory", "path"},
		{"plan a b", `unexpected argument "b"`, "one"},
		{"generate --prompt x", "which model", "a GGUF file, a Hugging Face directory or an --out of loadline train"},
		{"generate main.go --prompt x", "--model main.go: it is no GGUF file", "GGUF file"},
		{"generate main.go/x --prompt x", "--model main.go/x: no such file or directory", "check the path"},
		{"generate --model bench-20 --prompt x", "--model bench-20: no such file or directory", "check the path"},
		{"generate org/name --prompt x", "--model org/name: no such file or directory", "loadline pull org/name"},
		{"bench nope.gguf", "--model nope.gguf: no such file or directory", "check the path"},
		{"bench kernel.gguf", "--model kernel.gguf: no such file or directory", "check the path"},
		{"train --model nope.gguf", "--model nope.gguf: no such file or directory", "check the path"},
		{"train --preset llama-tiny --data nope.txt", "--data nope.txt: no such file or directory", "check the path"},
		{"train --preset llama-tiny --val-data nope.txt", "--val-data nope.txt: no such file or directory", "check the path"},
		{"train --preset llama-tiny --offload activations --tier file:" + dir + "/no=1GiB", dir + "/no: no such file or directory", "name a directory"},
		{"eval --perplexity x --data nope.txt", "--data nope.txt: no such file or directory", "check the path"},
		{"chat x --chat-template nope.jinja", "--chat-template nope.jinja: no such file or directory", "check the path"},
		{"convert nope.gguf " + dir + "/x.gguf --to gguf", "nope.gguf: no such file or directory", "check the path"},
		{"tokenize --model nope.gguf", "--model nope.gguf: no such file or directory", "check the path"},
		{"tokenize --model main.go nope.txt", "nope.txt: no such file or directory", "check the path"},
		{"inspect nope.gguf", "nope.gguf: no such file or directory", "check the path"},
		{"plan score nope.csv", "nope.csv: no such file or directory", "check the path"},
		{"plan check nope.log --hardware H100", "nope.log: no such file or directory", "check the path"},
		{"plan llama-3.1-8b --hardware H100 --hardware-file nope.yaml", "--hardware-file nope.yaml: no such file or directory", "check the path"},
		{"plan llama-3.1-8b --hardware H100 --deepspeed nope.json", "--deepspeed nope.json: no such file or directory", "check the path"},
		{"generate --model " + dir, "want --prompt TEXT", "--prompt"},
		{"generate --model " + dir + "/no --prompt x", ": no such file or directory", "path"},
		{"generate --model " + dir + " --prompt x --kv-type q8", "--kv-type q8: want K,V", "--kv-type q8_0,q8_0"},
		{"generate --model " + dir + " --prompt x --max-tokens 9223372036854775807", "want at most 1073741824", "--max-tokens"},
		{"generate --model " + dir + " --prompt x --block-size 0", "--block-size 0: want at least 1", "--block-size"},
		{"plan --preset llama-tiny --context 8 --concurrency 0", "--concurrency 0: want at least 1", "--concurrency 1"},
		{"plan --preset llama-tiny --context 8 --concurrency 1000000000", "rows 1000000000", "--help"},
		{"generate --model " + dir + " --prompt x --logprobs 21", "want 0 to 20", "--logprobs 20"},
		{"chat", "which model", "--model"},
		{"chat --model " + dir + "/no", ": no such file or directory", "path"},
		{"chat a --model b", `the model is "a" and also --model b`, "one of them"},
		{"chat a --max-tokens 0", "--max-tokens 0", "--max-tokens"},
		{"chat a --context -1", "--context -1", "--context"},
		{"eval --model x --data y", "want --perplexity", "--perplexity"},
		{"eval --perplexity --data y", "which model", "--model"},
		{"eval --perplexity --model x", "on what text", "--data"},
		{"eval --perplexity --model x --data y --score hal", "want half or all", "--score half"},
		{"eval --perplexity --model x --data y --windows -1", "--windows -1", "--windows"},
		{"bench trai", `neither a model nor a measurement "trai"`, "bench train"},
		{"bench --repeat 3", "the speed of what", "--model PATH"},
		{"bench x -p 0 -n 0", "nothing to measure", "--n-prompt"},
		{"bench x -p -1", "--n-prompt -1", "--help"},
		{"bench x -p x", "--n-prompt x: want whole numbers, with commas between", "--help"},
		{"bench x -r 0", "--repeat 0", "--repeat 5"},
		{"inspect", "want one PATH, got 0", "loadline inspect"},
		{"inspect " + dir, "it holds no model", "config.json"},
		{"inspect main.go", "main.go: want a .safetensors or .gguf file", "--out of loadline train"},
		{"tokenize", "want --model PATH", "tokenizer.json"},
		{"tokenize --model " + dir, "it has no tokenizer.json", "tokenizer.json"},
		{"train --config /dev/zero", "/dev/zero: is a device", "file"},
		{"train --config " + dir, "is a directory", "file"},
		{"train --config " + dir + "/no", "--config " + dir + "/no: no such file or directory", "check the path"},
		{"demo now", `unexpected argument "now"`, "flag"},
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(x.line), strings.NewReader(""), &out, &errs)
		noPackages(t, errs.String())
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if code != codeUsage || out.Len() > 0 {
			t.Errorf("%s: got exit code %d and %q on stdout, want 2 and nothing; stderr: %s", x.line, code, out.String(), errs.String())
		}
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "loadline: ") || !strings.HasPrefix(lines[1], "  try: ") {
			t.Errorf("%s: want two lines, got %q", x.line, errs.String())
			continue
		}
		if !strings.Contains(lines[0], x.says) || !strings.Contains(lines[1], x.try) {
			t.Errorf("%s: got\n%s\nwant %q and %q in it", x.line, errs.String(), x.says, x.try)
		}
	}
}

// TestFlagValues gives every flag of every verb values that are none: nothing that is said is in the words of the parser.
func TestFlagValues(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	refused := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, v := range []string{"x", "", "1,", "-1x", "99999999999999999999", "1e999"} {
				for what, err := range map[string]error{"typed": c.ParseFlags([]string{"--" + f.Name + "=" + v}), "in a file": setFromFile(c.Flags(), f.Name, v)} {
					if err == nil {
						continue
					}
					refused++
					if what == "typed" {
						err = flagError(c, err)
					}
					if said := words(err); strings.Contains(said, "strconv") || strings.Contains(said, "parsing") || strings.Contains(said, "syntax") || advice(err) == "" {
						t.Errorf("%s --%s=%s, %s: got %q, try %q", c.Name(), f.Name, v, what, said, advice(err))
					}
				}
			}
		})
	}
	visit(a.rootCommand())
	if refused < 1000 {
		t.Errorf("got %d refusals", refused)
	}
}

// TestSmallSizes leaves a unit out: what does not fit then says what a number without one is.
func TestSmallSizes(t *testing.T) {
	for line, want := range map[string]string{
		"plan --preset llama-tiny --memory 20":     "a number without a unit, such as MiB, is bytes: --memory is 20 B\n",
		"plan --preset llama-tiny --memory 20MiB":  "",
		"plan --preset llama-tiny --memory 2000KB": "",
	} {
		r := loadline(t, strings.Fields(line)...)
		if _, try, _ := strings.Cut(r.err, "\n  try: "); r.code != codeDoesNotFit || !strings.HasSuffix(try, want) || (want == "") == strings.Contains(try, "without a unit") {
			t.Errorf("%s: got exit code %d and %s, want %q", line, r.code, r.err, want)
		}
	}
}

// TestConfig checks that a file sets what the command line leaves alone.
func TestConfig(t *testing.T) {
	read := func(yaml string, args ...string) (*trainFlags, string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "run.yaml")
		if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
			t.Fatal(err)
		}
		a, f := &app{config: path}, &trainFlags{}
		c := &cobra.Command{Use: "train"}
		f.register(c)
		c.Flags().StringVar(&a.config, "config", path, "")
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if err := a.readConfig(c.Flags(), false); err != nil {
			return nil, err.Error() + " | " + advice(err)
		}
		return f, ""
	}
	f, text := read("preset: moe-tiny\nbatch: 3\nsteps: 7\nlr: 1e-4\nmemory: 96MiB\nrecompute: [attn.core, mlp.act]\nschedule: wsd\n", "--steps", "9")
	if text != "" {
		t.Fatal(text)
	}
	if f.preset != "moe-tiny" || f.steps != 9 || f.lr != 1e-4 || f.memory != 96<<20 || f.recompute != "attn.core,mlp.act" || f.schedule.value != "wsd" {
		t.Errorf("got %+v", f)
	}
	if f, text = read("preset: moe-tiny\n", "--model", "x"); text != "" || f.preset != "" || f.model != "x" {
		t.Errorf("--model against preset in a file: got preset %q, model %q, %s", f.preset, f.model, text)
	}
	// What a file sets counts as set: the preset's batch gives way to it.
	dir := t.TempDir()
	path := filepath.Join(dir, "run.yaml")
	if err := os.WriteFile(path, []byte("preset: llama-tiny\nbatch: 3\nseq: 16\nquiet: true\nstop: [a, b]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var plan planDocument
	if r := loadline(t, "plan", "--config", path, "--json"); r.code != codeUsage || !strings.Contains(r.err, "there is no setting stop") {
		t.Errorf("a setting of another verb: got exit code %d and %s", r.code, r.err)
	}
	if err := os.WriteFile(path, []byte("preset: llama-tiny\nbatch: 3\nseq: 16\nquiet: true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	document(t, &plan, codeDone, "plan", "--config", path, "--seq", "32")
	if o := plan.Plans[0].Options; o["batch"] != 3.0 || o["seq"] != 32.0 {
		t.Errorf("got options %v, want a batch of 3 × 32", o)
	}
	document(t, &plan, codeDone, "plan", "gpt2-tiny", "--config", path)
	if o := plan.Plans[0].Options; o["batch"] != 3.0 || o["model"] != "gpt2-tiny" {
		t.Errorf("an argument against preset in a file: got options %v", o)
	}
	for yaml, want := range map[string]string{
		"recompte: auto\n":     "there is no setting recompte | recompute",
		"steps: many\n":        "steps: many: want a whole number",
		"steps:\n  a: 1\n":     "steps: want a value, it has settings below it",
		"steps:\n":             "steps: want a value",
		"config: other\n":      "cannot name another",
		"schedule: cosin\n":    "want constant, cosine or wsd",
		"a: b: c\n":            "YAML",
		"memory: 96 parsecs\n": "not a size",
	} {
		if _, text := read(yaml); !strings.Contains(text, want) {
			t.Errorf("%q: got %q, want %q in it", yaml, text, want)
		}
	}
}
