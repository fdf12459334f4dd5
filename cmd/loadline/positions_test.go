package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loadline/train/checkpoint"
)

// withPositions changes the positions of the model in a directory.
func withPositions(t *testing.T, dir string, n int) {
	t.Helper()
	path := filepath.Join(dir, checkpoint.ConfigName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	c["max_position_embeddings"] = n
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// follow takes a refusal at its word: with each alternative of flags that it proposes the command is done.
func follow(t *testing.T, said string, args ...string) {
	t.Helper()
	_, try, _ := strings.Cut(strings.TrimSpace(said), "\n  try: ")
	followed := 0
	for _, x := range strings.Split(try, ", or ") {
		flags := strings.Fields(x)
		if !strings.HasPrefix(x, "--") || len(flags)%2 != 0 {
			continue
		}
		line := slices.Clone(args)
		for i := 0; i < len(flags); i += 2 {
			if at := slices.Index(line, flags[i]); at >= 0 {
				line[at+1] = flags[i+1]
			} else {
				line = append(line, flags[i], flags[i+1])
			}
		}
		followed++
		if r := loadline(t, line...); r.code != codeDone {
			t.Errorf("%s: as advised, %s: got exit code %d and %s", strings.Join(args, " "), x, r.code, r.err)
		}
	}
	if followed == 0 {
		t.Errorf("%s: no advice to follow in %s", strings.Join(args, " "), said)
	}
}

// TestPositions asks every verb for more tokens than a model has positions for, or its context holds, and does what it advises.
func TestPositions(t *testing.T) {
	dir, data := talking(t), text(t, 2_000)
	withPositions(t, dir, 48)
	generate := []string{"generate", dir, "--prompt", "To be, or not", "--memory", "96MiB", "--quiet"}
	measure := []string{"bench", dir, "--repeat", "1", "--memory", "96MiB", "--quiet"}
	score := []string{"eval", "--perplexity", dir, "--memory", "96MiB", "--quiet"}
	for _, x := range []struct {
		verb []string
		more string
		says string
		code int
	}{
		{generate, "--max-tokens 5 --context 100", "--context 100: the model has 48 positions", codeUsage},
		{generate, "--max-tokens 100", "and 100 new ones: the model has 48 positions", codeUsage},
		{generate, "--max-tokens 100 --context 100", "--context 100: the model has 48 positions", codeUsage},
		{generate, "--max-tokens 100 --context 40", "--context 40: the prompt has", codeUsage},
		{generate, "--max-tokens 100 --context 48", "--context 48: the prompt has", codeUsage},
		{generate, "--max-tokens 10 --context 2", "--context 2: the prompt has", codeUsage},
		{[]string{"chat", dir, "--memory", "96MiB", "--quiet"}, "--context 49", "--context 49: the model has 48 positions", codeUsage},
		{score, "--context 100 --data " + data, "--context 100: the model has 48 positions", codeUsage},
		{score, "--context 2 --data " + data, "--context 2: a window leaves no token to score", codeUsage},
		{score, "--context 48 --data " + fileWith(t, "To be, or not"), "a window is 48", codeFailed},
		{measure, "--n-prompt 512 --n-gen 4", "pp512: 512 tokens, the model has 48 positions", codeUsage},
		{measure, "--n-prompt 40 --n-gen 64,4 --depth 0,10", "tg64: 64 tokens, the model has 48 positions", codeUsage},
		{measure, "--n-prompt 8 --n-gen 8 --depth 4,48,1000", "pp8 @ d48: 56 tokens, the model has 48 positions", codeUsage},
		{[]string{"plan", dir}, "--context 49", "--context 49: the model has 48 positions", codeUsage},
		{[]string{"plan", "--preset", "gpt2-tiny"}, "--seq 100000", "--seq 100000: the model has", codeUsage},
	} {
		args := append(slices.Clone(x.verb), strings.Fields(x.more)...)
		r := loadline(t, args...)
		if r.code != x.code || !strings.Contains(r.err, x.says) {
			t.Errorf("%s %s: got exit code %d and %s, want %d and %q", x.verb[0], x.more, r.code, r.err, x.code, x.says)
			continue
		}
		twoLines(t, r.err)
		follow(t, r.err, args...)
	}
	long := slices.Clone(generate)
	long[3] = strings.Repeat("word ", 200)
	for _, more := range [][]string{nil, {"--context", "40"}, {"--context", "48"}, {"--context", "4000", "--max-tokens", "1"}} {
		r := loadline(t, append(slices.Clone(long), more...)...)
		if r.code != codeUsage || !strings.Contains(r.err, "the model has 48 positions\n  try: a --prompt of at most 47 tokens\n") {
			t.Errorf("a long prompt, %v: got exit code %d and %s", more, r.code, r.err)
		}
	}
}

// TestLongMessage checks what is advised about a message that the context does not hold.
func TestLongMessage(t *testing.T) {
	for _, x := range []struct {
		err  longMessageError
		want string
	}{
		{longMessageError{100, 64, 2048, false}, "a shorter message, or --context 200"},
		{longMessageError{100, 64, 150, false}, "a shorter message, or --context 150"},
		{longMessageError{150, 64, 150, false}, "a shorter message: the model has 150 positions"},
		{longMessageError{100, 64, 2048, true}, "a shorter message, or a larger --memory"},
	} {
		if got := x.err.Advice(); got != x.want {
			t.Errorf("%+v: got %q, want %q", x.err, got, x.want)
		}
	}
}
