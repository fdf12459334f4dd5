package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// failing are command lines of every verb, by the verb. M, T and B stand for a model, a text and a file that is neither.
var failing = map[string]string{
	"chat": "chat M --context 64", "generate": "generate M --prompt To", "eval": "eval --perplexity M --data T --context 32", "bench": "bench M -p 8 -n 1 --repeat 1",
	"train": "train --model M --data T --steps 1", "plan": "plan M --batch 1 --seq 32", "plan an engine": "plan M --context 64", "plan for hardware": "plan M --hardware H100",
	"bench train": "bench train --model M --batch 1 --seq 32 --steps 1", "inspect": "inspect M", "tokenize": "tokenize --model M T", "convert": "convert M O --to gguf",
	"plan check": "plan check M --model llama-3.1-8b --hardware H100", "plan score": "plan score M", "bench kernels": "bench kernels --only matmul", "bench cost": "bench cost --only nothing",
	"bench recompute": "bench recompute --preset nothing", "pull": "pull https://127.0.0.1:1/x --out O", "demo": "demo",
}

// TestFailures fails every verb in every way that they share, with --json: one document on stdout, which has the error, what to do and the exit code,
// and says what is on stderr.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	none, bad, empty, data := at("none"), at("bad"), at("empty"), text(t, 4000)
	for path, s := range map[string]string{bad: "\x00\xffneither: [", at("nope/config.json"): `{"model_type": "nope"}`, at("cut.gguf"): "GGUF\x03\x00\x00\x00\x01"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	model := talking(t)
	with := func(line, model string) []string {
		args := strings.Fields(line)
		for i, x := range args {
			switch x {
			case "M":
				args[i] = model
			case "T":
				args[i] = data
			case "O":
				args[i] = at("out")
			}
		}
		return args
	}
	fails := func(name string, codes string, args ...string) {
		t.Helper()
		r := piped(t, "Hello\n", append(args, "--json", "--quiet")...)
		var d struct {
			Error, Try, Nearest string
			Code                int `json:"exit_code"`
			Fits                *bool
		}
		dec := json.NewDecoder(strings.NewReader(r.out))
		if err := dec.Decode(&d); err != nil || dec.More() {
			t.Errorf("%s: %v: got %q on stdout, want one document: %v", name, args, r.out, err)
		}
		if !strings.Contains(codes, string(rune('0'+r.code))) || d.Code != r.code || d.Error == "" || !strings.Contains(r.err, d.Error) || d.Try == "" || !strings.Contains(r.err, d.Try) {
			t.Errorf("%s: %v: got exit code %d, want one of %s, and %+v: %s", name, args, r.code, codes, d, r.err)
		}
		if r.code == codeDoesNotFit && d.Fits != nil && name != "plan for hardware" && (*d.Fits || d.Nearest == "") {
			t.Errorf("%s: %v: got %+v, want what fits", name, args, d)
		}
		twoLines(t, r.err)
	}
	for name, line := range failing {
		good := with(line, model)
		for _, more := range []string{"--no-such-flag", "--threads -1", "--config " + bad, "--events " + empty, "one more argument"} {
			fails(name, "2", append(good, strings.Fields(more)...)...)
		}
		if strings.Contains(line, "M") {
			for _, path := range []string{none, bad, empty, at("nope"), at("cut.gguf")} {
				if name != "inspect" || path != at("nope") { // which it shows all the same
					fails(name, "12", with(line, path)...)
				}
			}
		}
		if strings.Contains("chat generate eval bench train plan an engine", name) {
			for _, n := range []string{"1", "30MiB"} {
				fails(name, "3", append(good, "--memory", n)...)
			}
		}
	}
	fails("help", "2", "help", "nothing")
	fails("help", "2", "help", "train", "nothing")
	fails("plan for hardware", "3", "plan", "llama-3.1-70b", "--hardware", "RTX-4090", "--task", "train")
	if exists(at("out")) {
		t.Error("something was written")
	}
}
