package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"loadline/model/weights"
)

// TestSamplingFile takes what the model's makers say of sampling, and what the command line says before it.
func TestSamplingFile(t *testing.T) {
	dir := talking(t)
	file := filepath.Join(dir, "generation_config.json")
	write := func(body string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(more ...string) ([]int32, string) {
		t.Helper()
		var d generateDocument
		r := document(t, &d, codeDone, append([]string{"generate", dir, "--prompt", "To be", "--max-tokens", "6", "--memory", "96MiB"}, more...)...)
		return d.TokenIDs, r.err
	}
	greedy, _ := run("--temperature", "0")
	plain, said := run("--seed", "3")
	if strings.Contains(said, "sampling as") {
		t.Errorf("without a file: got %q", said)
	}
	for _, x := range []struct {
		body, said string
		flags      []string
		want       []int32
	}{
		{`{"do_sample": false, "temperature": 0.9, "eos_token_id": [5, 6]}`, "sampling as generation_config.json says: --temperature 0\n", nil, greedy},
		{`{"do_sample": true, "top_k": 1}`, "says: --top-k 1\n", nil, greedy},
		{`{"temperature": 0.8, "top_k": 1, "top_p": 0.9, "repetition_penalty": 1}`, "says: --top-p 0.9 --repetition-penalty 1\n", []string{"--temperature", "0", "--top-k", "3"}, greedy},
		{`{"do_sample": false}`, "", []string{"--temperature", "0.8"}, plain},
		{`{"temperature": null, "max_length": 9, "transformers_version": "5.0"}`, "", nil, plain},
		{`{"top_k": -1}`, "says: --top-k 0\n", nil, plain},
	} {
		write(x.body)
		got, said := run(append([]string{"--seed", "3"}, x.flags...)...)
		if !slices.Equal(got, x.want) {
			t.Errorf("%s %v: got %v, want %v", x.body, x.flags, got, x.want)
		}
		if strings.Contains(said, "sampling as") != (x.said != "") || !strings.Contains(said, x.said) {
			t.Errorf("%s %v: got %q, want it to say %q", x.body, x.flags, said, x.said)
		}
	}
	for body, want := range map[string]string{
		`{"temperature": -1}`: "generation_config.json: temperature: want 0 to", `{"top_p": 7}`: "top_p: want 0 to 1", `{"top_p": "x"}`: "generation_config.json: json",
	} {
		write(body)
		r := loadline(t, "generate", dir, "--prompt", "x", "--memory", "96MiB")
		if r.code != codeFailed || !strings.Contains(r.err, want) || strings.Count(r.err, "\n") != 2 {
			t.Errorf("%s: got exit code %d and %q, want %q", body, r.code, r.err, want)
		}
	}
	write(`{"temperature": -1}`)
	if r := loadline(t, "generate", dir, "--prompt", "x", "--memory", "96MiB", "--max-tokens", "1", "--temperature", "1"); r.code != codeDone {
		t.Errorf("a wrong value that a flag replaces: got exit code %d and %q", r.code, r.err)
	}
	write(`{"do_sample": false}`)
	if r := piped(t, "Hello", "chat", dir, "--max-tokens", "2", "--context", "64", "--memory", "96MiB"); r.code != codeDone || !strings.Contains(r.err, "says: --temperature 0\n") {
		t.Errorf("chat: got exit code %d and %q", r.code, r.err)
	}
}

// TestSamplingFill has all values, of which the command line has one.
func TestSamplingFill(t *testing.T) {
	s := chatSampling()
	f := pflag.NewFlagSet("x", pflag.ContinueOnError)
	s.register(f)
	if err := f.Parse([]string{"--min-p", "0.2"}); err != nil {
		t.Fatal(err)
	}
	number := func(x float64) *float64 { return &x }
	k := 20
	said, err := s.fill(weights.Sampling{Temperature: number(0.6), TopP: number(0.95), TopK: &k, MinP: number(0.1), TypicalP: number(0.9), Repetition: number(1.05)})
	want := "--temperature 0.6 --top-k 20 --top-p 0.95 --typical-p 0.9 --repetition-penalty 1.05"
	if err != nil || said != want || s.temperature != 0.6 || s.topK != 20 || s.topP != 0.95 || s.minP != 0.2 || s.typicalP != 0.9 || s.repetition != 1.05 {
		t.Errorf("got %q, %v and %+v, want %q", said, err, s, want)
	}
}
