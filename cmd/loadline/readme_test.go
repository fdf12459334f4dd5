package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"loadline/data/corpus"
	goldens "loadline/internal/golden"
)

// shellWords cuts a command line as a shell does, as far as the README's need it: quotes, and a comment at the end.
func shellWords(line string) (args []string) {
	var word strings.Builder
	quote, began := rune(0), false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, began = r, true
		case quote == 0 && r == '#' && !began:
			return args
		case quote == 0 && r == ' ':
			if began {
				args = append(args, word.String())
			}
			word.Reset()
			began = false
		default:
			word.WriteRune(r)
			began = true
		}
	}
	return args
}

// readme is the blocks of the README that are indented: a line each, without the indent.
func readme(t *testing.T) (blocks [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	in := false
	for _, line := range strings.Split(string(text), "\n") {
		rest, code := strings.CutPrefix(line, "    ")
		if code && !in {
			blocks = append(blocks, nil)
		}
		if in = code; code {
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], rest)
		}
	}
	return blocks
}

// TestREADME runs the README's commands, one after the other, in a directory with what they name: a text, three GGUF files and those that
// the README shows. Left out are what fetches, what does not end, and what measures for minutes; training ends after a few steps.
func TestREADME(t *testing.T) {
	dir := t.TempDir()
	book, err := io.ReadAll(corpus.Text())
	if err != nil {
		t.Fatal(err)
	}
	model := goldens.SmolLM2(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	put("book.txt", book[:60_000])
	put("more.txt", book[60_000:100_000])
	put("ds.json", []byte(`{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}`))
	for _, name := range []string{"model.gguf", "model-q4_k_m.gguf", "model-f16.gguf"} {
		link(model, name)
	}
	link(filepath.Join(root, "planner", "logcheck", "testdata", "vllm.log"), "vllm.log")
	link(filepath.Join(root, "planner"), "planner")
	var commands []string
	for _, b := range readme(t) {
		if name, ok := strings.CutPrefix(b[0], "# "); ok { // a file: its name stands first
			name = name[:strings.IndexByte(name, ':')]
			put(name, []byte(strings.Join(b, "\n")+"\n"))
			continue
		}
		for _, line := range b {
			if said, ok := strings.CutPrefix(line, "$ "); ok {
				line = said
			}
			if strings.HasPrefix(line, "loadline ") {
				commands = append(commands, line)
			}
		}
	}
	commands = append(commands, "loadline train --config run.yaml --out configured", "loadline train --config run.yaml --resume configured",
		"loadline plan llama-3.1-8b --hardware LAB-H100 --hardware-file lab.yaml --task serve")
	if len(commands) < 39 {
		t.Fatalf("got %d commands, want those of the README:\n%s", len(commands), strings.Join(commands, "\n"))
	}
	refused := readmeRefusal(t)
	for _, line := range commands {
		args := shellWords(line)[1:]
		code := codeDone
		switch {
		case args[0] == "pull", args[0] == "demo", slices.Contains(args, "--serve"), args[0] == "bench" && !strings.HasPrefix(args[1], "-"):
			continue
		case strings.HasSuffix(line, "--memory 60MiB"):
			code = codeDoesNotFit
		case args[0] == "train":
			args = append(args, "--steps", "3")
			if slices.Contains(args, "--resume") {
				args[len(args)-1] = "4"
			}
		case args[0] == "bench":
			args = append(args, "--repeat", "1")
		case args[0] == "eval":
			args = append(args, "--windows", "2")
		}
		c := command(append(args, "--quiet")...)
		c.Dir = dir
		r := finish(t, c)
		if r.code != code {
			t.Errorf("%s: got exit code %d, want %d: %s", line, r.code, code, r.err)
		}
		if code == codeDoesNotFit && !matchesWithDots(r.err, refused) {
			t.Errorf("%s: it says\n%s\nthe README says\n%s", line, r.err, refused)
		}
	}
}

// readmeRefusal is what the README shows of a refusal.
func readmeRefusal(t *testing.T) string {
	t.Helper()
	for _, b := range readme(t) {
		if strings.HasPrefix(b[0], "$ loadline train") {
			return strings.Join(b[1:], "\n") + "\n"
		}
	}
	t.Fatal("the README shows no refusal")
	return ""
}

// matchesWithDots compares line by line, but for numbers, which are the machine's; what a line of want ends with … may go on.
func matchesWithDots(got, want string) bool {
	number := regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	a, b := strings.Split(number.ReplaceAllString(got, "0"), "\n"), strings.Split(number.ReplaceAllString(want, "0"), "\n")
	if len(a) != len(b) {
		return false
	}
	for i := range b {
		if begin, ok := strings.CutSuffix(b[i], "…"); ok && strings.HasPrefix(a[i], begin) {
			continue
		}
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
