package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadline/internal/whole"
)

// TestConvertVerb trains a model, makes a GGUF file of it and a directory of that: all three write the same text.
func TestConvertVerb(t *testing.T) {
	dir := t.TempDir()
	run, file, back := filepath.Join(dir, "run"), filepath.Join(dir, "run.gguf"), filepath.Join(dir, "back")
	if r := loadline(t, "train", "--preset", "llama-tiny", "--steps", "2", "--batch", "2", "--seq", "64", "--out", run, "--quiet"); r.code != codeDone {
		t.Fatalf("train: got %+v", r)
	}
	var d convertDocument
	document(t, &d, codeDone, "convert", run, file, "--to", "gguf")
	if len(d.Files) != 1 || d.Files[0] != file || len(d.Tensors) == 0 || d.Bytes == 0 || d.Path != file {
		t.Errorf("to GGUF: got %+v", d)
	}
	document(t, &d, codeDone, "convert", file, back, "--to", "safetensors", "--type", "bf16")
	for _, x := range d.Tensors {
		if x.Type != "bf16" {
			t.Errorf("got %s of type %s, want bf16", x.Name, x.Type)
		}
	}
	if len(d.Files) < 4 {
		t.Errorf("to safetensors: got files %q", d.Files)
	}
	document(t, &d, codeDone, "convert", file, back+"32", "--to", "safetensors")
	texts := map[string]string{}
	for _, model := range []string{run, file, back + "32"} {
		r := loadline(t, "generate", "--model", model, "--prompt", "To be", "--max-tokens", "12", "--temperature", "0", "--quiet")
		if r.code != codeDone || r.out == "" {
			t.Fatalf("generate from %s: got %+v", model, r)
		}
		texts[r.out] = model
	}
	if len(texts) != 1 {
		t.Errorf("got texts %q, want one", texts)
	}
	if a, b := loadline(t, "tokenize", "--model", run, "convert.go"), loadline(t, "tokenize", "--model", back, "convert.go"); a.out != b.out || a.out == "" {
		t.Error("the tokenizers differ")
	}
	if r := loadline(t, "convert", run, dir+"/q.gguf", "--to", "gguf", "--type", "q8_0"); r.code != codeDone || !strings.Contains(r.out, "q8_0") || !strings.Contains(r.out, "q.gguf: 1 file") {
		t.Errorf("q8_0: got %+v", r)
	}
	for _, x := range []struct {
		args, says, try string
		code            int
	}{
		{run, "want IN and OUT, got 1 argument", "loadline convert IN OUT", codeUsage},
		{run + " x", "into which format", "--to gguf", codeUsage},
		{run + " x --to onnx", "--to onnx: want gguf or safetensors", "", codeUsage},
		{run + " x --to gguf --type q9", `type "q9" is not known`, "lists the types", codeUsage},
		{run + " x --to safetensors --type q4_0", "safetensors files have f32, f16 or bf16", "lists the types", codeUsage},
		{run + " " + file + " --to gguf", "it exists", "another OUT", codeUsage},
		{dir + "/none x --to gguf", "no such file or directory", "path", codeUsage},
	} {
		r := loadline(t, strings.Fields("convert "+x.args)...)
		if r.code != x.code || !strings.Contains(r.err, x.says) || !strings.Contains(r.err, "\n  try: ") || !strings.Contains(r.err, x.try) {
			t.Errorf("%s: got exit code %d and %q, want %d, %q and %q", x.args, r.code, r.err, x.code, x.says, x.try)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a conversion that was refused wrote something")
	}

	// Names that look as if they were of what is being written.
	in := filepath.Join(dir, "m.tmp")
	if err := os.Rename(back+"32", in); err != nil {
		t.Fatal(err)
	}
	document(t, &d, codeDone, "convert", in, filepath.Join(dir, "m"), "--to", "safetensors")
	ours := filepath.Join(dir, "n"+whole.Suffix)
	if err := os.Rename(in, ours); err != nil {
		t.Fatal(err)
	}
	if r := loadline(t, "convert", ours, filepath.Join(dir, "n"), "--to", "safetensors"); r.code != codeFailed || !strings.Contains(r.err, "another name first") {
		t.Errorf("from where it would be written: got %+v", r)
	}
	document(t, &d, codeDone, "convert", ours, filepath.Join(dir, "o"), "--to", "safetensors")
}
