package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestRefusedEngines lowers the limit of every verb that runs an engine until it is refused: whatever flags it then names make it fit.
func TestRefusedEngines(t *testing.T) {
	dir, data := talking(t), text(t, 20_000)
	for _, line := range []string{
		"generate DIR --prompt To --context 1800 --max-tokens 3", "chat DIR --context 1800 --max-tokens 2", "eval --perplexity DIR --data DATA --context 1800 --windows 1",
		"bench DIR --n-prompt 1800,7 --n-gen 0 --repeat 1",
		"bench DIR -p 8 -n 1 -d 1700 --repeat 1 --threads 1", "plan DIR --context 1800 --concurrency 3",
	} {
		args := strings.Fields(strings.NewReplacer("DIR", dir, "DATA", data).Replace(line))
		with := func(more ...string) result {
			return piped(t, "Hello\n", append(append(args, "--json", "--quiet"), more...)...)
		}
		var r result
		limit := 56
		for ; limit > 48 && r.code == codeDone; limit-- {
			r = with("--memory", fmt.Sprintf("%dMiB", limit))
		}
		var d struct {
			Fits    *bool
			Limit   int64 `json:"limit_bytes"`
			Nearest string
		}
		if err := json.Unmarshal([]byte(r.out), &d); err != nil || r.code != codeDoesNotFit {
			t.Fatalf("%s: got exit code %d and %q, %v; %s", line, r.code, r.out, err, r.err)
		}
		twoLines(t, r.err, "does not fit: needs ", fmt.Sprintf("--memory is %v MiB", limit+1))
		_, try, _ := strings.Cut(strings.TrimSpace(r.err), "\n  try: ")
		ways := strings.Split(try, ", or ")
		if d.Fits == nil || *d.Fits || d.Limit != int64(limit+1)<<20 || d.Nearest != ways[0] {
			t.Errorf("%s: got document %s, want that it does not fit, and as nearest %q", line, r.out, ways[0])
		}
		if len(ways) < 2 || !strings.HasPrefix(ways[len(ways)-1], "--memory ") {
			t.Errorf("%s: got advice %q, want several ways, with the memory that it takes", line, try)
		}
		for _, way := range ways {
			if r := with(append([]string{"--memory", fmt.Sprintf("%dMiB", limit+1)}, strings.Fields(way)...)...); r.code != codeDone {
				t.Errorf("%s: with %s: got exit code %d: %s", line, way, r.code, r.err)
			}
		}
	}
}

// TestShorter names a shorter context in generate's flags.
func TestShorter(t *testing.T) {
	for _, x := range []struct {
		prompt, context, maxTokens, to int
		want                           string
	}{
		{10, 0, 90, 60, "--max-tokens 50"}, {10, 0, 90, 11, "--max-tokens 1"}, {10, 0, 90, 10, ""}, {10, 100, 20, 60, "--context 60"},
		{10, 100, 90, 60, "--context 60 --max-tokens 50"}, {10, 100, 90, 5, ""},
	} {
		g := &generation{generateFlags: &generateFlags{maxTokens: x.maxTokens}, prompt: make([]int32, x.prompt)}
		g.context = x.context
		if got := g.shorter(x.to); got != x.want {
			t.Errorf("%+v: got %q", x, got)
		}
	}
}

// TestRefusedTiers lowers the limit of runs whose --tier is too small for what they are advised to offload: whatever flags a refusal names make
// them fit.
func TestRefusedTiers(t *testing.T) {
	dir, followed := t.TempDir(), 0
	for _, more := range []string{"", "--recompute auto", "--offload activations", "--offload optimizer", "--offload activations,optimizer --recompute full"} {
		for _, size := range []string{"57MiB", "62MiB"} {
			args := append(strings.Fields("plan --preset llama-tiny --batch 2 --seq 64 --threads 1 --machine 2-core-avx2 --json --quiet "+more), "--tier", "file:"+dir+"=1MiB", "--memory", size)
			r := loadline(t, args...)
			if r.code == codeDone {
				continue
			}
			var d struct{ Nearest string }
			if err := json.Unmarshal([]byte(r.out), &d); err != nil || r.code != codeDoesNotFit || d.Nearest == "" {
				t.Errorf("%v: got %+v, want a refusal with flags", args, r)
				continue
			}
			followed++
			_, try, _ := strings.Cut(strings.TrimSpace(r.err), "\n  try: ")
			try, _, _ = strings.Cut(strings.TrimPrefix(try, "use "), " (least memory by ")
			ways := strings.Split(try, ", or ")
			if ways[0], _, _ = strings.Cut(ways[0], ", which takes "); ways[0] != d.Nearest {
				t.Errorf("%v: got advice %q, want %q first", args, try, d.Nearest)
			}
			for _, way := range ways {
				if again := loadline(t, append(args, strings.Fields(way)...)...); again.code != codeDone {
					t.Errorf("%v %s: got exit code %d, %s", args, way, again.code, again.err)
				}
			}
		}
	}
	if followed == 0 {
		t.Error("nothing was refused")
	}
}
