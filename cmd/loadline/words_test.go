package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	base := errors.New("gguf: the file ends")
	read := fmt.Errorf("serve: read weight %q again: %w", "a", fmt.Errorf("weights: %w", base))
	for _, x := range []struct {
		err  error
		want string
	}{
		{base, "gguf: the file ends"},
		{read, `read weight "a" again: gguf: the file ends`},
		{errors.Join(fmt.Errorf("cpu: program: %w", read), read, fmt.Errorf("device: close: %w", fs.ErrClosed)), "program: read weight \"a\" again: gguf: the file ends\nclose: file already closed"},
		{fmt.Errorf("serve: cpu: mem: %d", 3), "3"},
		{fmt.Errorf("--model x: %w", fmt.Errorf("%w (in serve: a)", base)), "--model x: gguf: the file ends (in serve: a)"},
		{fmt.Errorf("train: two: %w and %w", errors.New("mem: a"), errors.New("b")), "two: mem: a and b"},
		{advise(read, "nothing"), `read weight "a" again: gguf: the file ends`},
		{usage("", "--x: %v", read), `--x: read weight "a" again: gguf: the file ends`},
		{errors.New("a sentence: serve: said by another"), "a sentence: serve: said by another"},
	} {
		if got := words(x.err); got != x.want {
			t.Errorf("%v: got %q, want %q", x.err, got, x.want)
		}
	}
}

// TestStreamWords says what reading weights again allows, and nothing where none has been read.
func TestStreamWords(t *testing.T) {
	for _, x := range []struct {
		r    streamReport
		want string
	}{
		{streamReport{}, ""},
		{streamReport{StreamedBytes: 10 << 20}, ""},
		{streamReport{10 << 20, 25 << 20, 2.5}, "; 10 MiB of weights read for every pass, at 25 MiB/s: reading alone would allow at most 2.50 passes/s"},
	} {
		if got := x.r.words(); got != x.want {
			t.Errorf("%+v: got %q, want %q", x.r, got, x.want)
		}
	}
}

// TestInnerPackages checks that every package of the repository is either one whose name is left out of what people are told, or a word of
// theirs.
func TestInnerPackages(t *testing.T) {
	theirs := []string{"gguf", "safetensors", "tokenizer", "jsonl", "parquet", "chat"}
	silent := []string{"devicetest", "customblock", "e2e", "edits", "golden", "script", "main", "loadline"} // of tests, or without errors
	var all []string
	clause := regexp.MustCompile(`(?m)^package (\w+)$`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && (strings.HasPrefix(e.Name(), ".") && e.Name() != ".." || e.Name() == "testdata") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if m := clause.FindSubmatch(text); m != nil && !slices.Contains(all, string(m[1])) {
			all = append(all, string(m[1]))
		}
		return err
	})
	if err != nil || len(all) < 40 {
		t.Fatalf("got %d packages: %v", len(all), err)
	}
	for _, name := range all {
		known := 0
		for _, list := range [][]string{innerPackages(), theirs, silent} {
			if slices.Contains(list, name) {
				known++
			}
		}
		if known != 1 {
			t.Errorf("package %s is in %d lists, want it to be in innerPackages, or in one of this test's", name, known)
		}
	}
	for _, name := range innerPackages() {
		if !slices.Contains(all, name) {
			t.Errorf("there is no package %s", name)
		}
	}
}

// noPackages checks that no inner package is named in what went wrong or in what to do about it.
func noPackages(t *testing.T, said string) {
	t.Helper()
	if m := regexp.MustCompile(`(?m)(^loadline: |^  try: |; |: )(` + strings.Join(innerPackages(), "|") + `): `).FindString(said); m != "" {
		t.Errorf("%q begins with a package's name in\n%s", m, said)
	}
}

// TestRefusals runs every verb into what it refuses, and reads what it then says.
func TestRefusals(t *testing.T) {
	dir, data := talking(t), text(t, 2_000)
	file := filepath.Join(t.TempDir(), "model.gguf")
	document(t, &convertDocument{}, codeDone, "convert", dir, file, "--to", "gguf")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := func(edit func(dir string) error) string { // of the directory, with something changed
		to := filepath.Join(t.TempDir(), "copy")
		if err := errors.Join(os.CopyFS(to, os.DirFS(dir)), edit(to)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	cut := fileWith(t, string(whole[:len(whole)-5000]))
	short := fileWith(t, string(whole[:3000]))
	without := copied(func(d string) error { return os.Remove(filepath.Join(d, "model.safetensors")) })
	garbled := copied(func(d string) error {
		return os.WriteFile(filepath.Join(d, "tokenizer.json"), []byte(`{"model":{}}`), 0o644)
	})
	strange := copied(func(d string) error {
		return os.WriteFile(filepath.Join(d, "config.json"), []byte(`{"model_type":"rwkv"}`), 0o644)
	})
	empty := copied(func(d string) error { return os.Truncate(filepath.Join(d, "model.safetensors"), 9) })
	nowhere := filepath.Join(t.TempDir(), "no", "where")
	var lines [][]string
	for _, model := range []string{cut, short, without, garbled, strange, empty, nowhere} {
		lines = append(lines,
			[]string{"generate", model, "--prompt", "x", "--memory", "96MiB"}, []string{"chat", model, "--memory", "96MiB", "--temperature", "-1"}, []string{"bench", model, "--memory", "96MiB"},
			[]string{"eval", "--perplexity", model, "--data", data}, []string{"convert", model, nowhere, "--to", "gguf", "--type", "q8_1"}, []string{"convert", model, nowhere, "--to", "safetensors"},
			[]string{"tokenize", model + "x", data}, []string{"inspect", model + "x"}, []string{"plan", model, "--context", "8", "--memory", "9MiB"},
			[]string{"plan", model, "--hardware", "no-such-card"}, []string{"train", "--model", model, "--data", nowhere, "--memory", "9MiB"})
	}
	for _, tight := range []string{"9MiB", "50MiB", "52MiB"} {
		for _, model := range []string{dir, file} {
			lines = append(lines, []string{"generate", model, "--prompt", "x", "--memory", tight}, []string{"bench", model, "--memory", tight},
				[]string{"eval", "--perplexity", model, "--data", data, "--memory", tight}, []string{"plan", model, "--context", "2000", "--concurrency", "9", "--memory", tight},
				[]string{"train", "--model", model, "--data", data, "--memory", tight})
		}
	}
	for _, line := range []string{
		"generate DIR --prompt x --block-size 1000000000", "generate DIR --prompt x --top-p 7", "generate DIR --prompt x --stop-token 99999", "generate DIR --prompt x --kv-type q9",
		"chat DIR --chat-template /dev/null", "chat DIR --block-size 1000000000", "eval --perplexity DIR --data /dev/null", "eval --perplexity DIR --data /dev/zero", "bench DIR --prefill-chunk 5000",
		"bench DIR --block-size 1000000000", "bench DIR --kernels abacus", "convert DIR FILE --to gguf", "convert DIR DIR --to safetensors", "convert DIR /dev/null/x --to gguf", "pull a/b/c/d",
		"pull ..", "tokenize DIR /dev/zero/x", "inspect /dev/null", "train --preset llama-tiny --data /dev/null", "train --preset llama-tiny --data DIR", "train --preset llama-tiny --resume FILE",
		"train --preset llama-tiny --batch 100000000", "train --preset llama-tiny --memory 9MiB --ranks 2 --zero 3", "train --preset llama-tiny --machine /dev/null", "train --preset llama-tiny --val-data /dev/null",
		"plan --preset llama-tiny --context 100 --block-size 1000000000", "plan llama-3.1-8b --hardware RTX-4090 --task serve --context 99999999", "plan --deepspeed /dev/null llama-3.1-8b --hardware H100",
		"plan llama-3.1-8b --hardware H100 --hardware-file /dev/null", "plan score /dev/null", "plan check /dev/null --model llama-3.1-8b --hardware H100", "plan llama-3.1-8b --hardware H100 --task finetune --adapter x",
	} {
		lines = append(lines, strings.Fields(strings.NewReplacer("DIR", dir, "FILE", file).Replace(line)))
	}
	refused := 0
	for _, line := range lines {
		r := loadline(t, append(line, "--quiet")...)
		if r.code != codeDone { // some do without what is broken, or just fit
			refused++
			twoLines(t, r.err)
		}
	}
	if refused < len(lines)*9/10 {
		t.Errorf("got %d refusals of %d", refused, len(lines))
	}
}
