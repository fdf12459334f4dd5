package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBadModels gives every verb that takes a model what is none: each says so in two lines, soon, and in little memory.
func TestBadModels(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	whole, err := os.ReadFile("../../model/weights/testdata/llama_linear.gguf")
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, p []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("empty.gguf", nil)
	put("cut.gguf", whole[:len(whole)/2])
	put("other.gguf", make([]byte, 4096))
	put("many.gguf", append([]byte("GGUF\x03\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f\x01"), make([]byte, 100)...))
	config := `{"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_attention_heads":4,"num_hidden_layers":%d,"vocab_size":%d}`
	put("layers/config.json", fmt.Appendf(nil, config, 1_000_000, 128))
	put("overflows/config.json", fmt.Appendf(nil, config, 2, 1<<62))
	put("nested/config.json", []byte(strings.Repeat(`{"a":`, 100_000)))
	put("header/config.json", fmt.Appendf(nil, config, 2, 128))
	put("header/model.safetensors", append([]byte{0, 0, 0, 6, 0, 0, 0, 0, '{'}, make([]byte, 100<<20)...))
	if err := os.Mkdir(at("folder.gguf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("pipe.gguf"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop.gguf", at("loop.gguf")); err != nil {
		t.Fatal(err)
	}
	text := at("text")
	put("text", []byte("text"))
	for name, says := range map[string]string{
		"empty.gguf": "ends early", "cut.gguf": "the file is cut short: ", "other.gguf": "not a GGUF file", "many.gguf": "tensors, want at most", "pipe.gguf": "pipe", "loop.gguf": "", "folder.gguf": "",
		"layers": "", "overflows": "", "nested": "", "header": "",
	} {
		for _, args := range [][]string{
			{"generate", at(name), "--prompt", "x", "--max-tokens", "1", "--memory", "96MiB"},
			{"inspect", at(name)},
			{"convert", at(name), at("out.gguf"), "--to", "gguf"},
		} {
			if args[0] == "inspect" && says == "" && name != "loop.gguf" {
				continue // tells what is there
			}
			c := command(append(args, "--json")...)
			began := time.Now()
			r := finish(t, c)
			if r.code != codeFailed && r.code != codeUsage {
				t.Errorf("%s %s: got exit code %d: %s", args[0], name, r.code, r.err)
			}
			twoLines(t, r.err, says)
			if !json.Valid([]byte(r.out)) {
				t.Errorf("%s %s: stdout is no document: %q", args[0], name, r.out)
			}
			if took := c.ProcessState.UserTime() + c.ProcessState.SystemTime(); took > 5*time.Second || time.Since(began) > time.Minute {
				t.Errorf("%s %s: took %v of processor time, %v in all", args[0], name, took, time.Since(began))
			}
			if _, err := os.Lstat(at("out.gguf")); err == nil {
				t.Errorf("%s %s: leaves a file", args[0], name)
			}
		}
		r := loadline(t, "tokenize", "--model", at(name), text)
		if r.code != codeFailed && r.code != codeUsage && name != "cut.gguf" {
			t.Errorf("tokenize %s: got exit code %d: %s", name, r.code, r.err)
		}
	}
}
