package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCachedModel names a model as on the hub, of which the cache has a snapshot.
func TestCachedModel(t *testing.T) {
	cache := t.TempDir()
	commit := strings.Repeat("0a", 20)
	root := filepath.Join(cache, "models--org--name")
	dir := filepath.Join(root, "snapshots", commit)
	for _, d := range []string{filepath.Join(root, "refs"), dir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "refs", "main"), []byte(commit), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := os.ReadFile("../../model/tokenizer/testdata/trained.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), p, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HUB_CACHE", cache)
	if got := cachedModel("org/name"); got != dir {
		t.Errorf("got %q, want %q", got, dir)
	}
	for _, path := range []string{"", "org/other", dir, "llama-tiny"} {
		if got := cachedModel(path); got != path {
			t.Errorf("%q: got %q", path, got)
		}
	}
	var ids struct{ IDs []int32 }
	if document(t, &ids, codeDone, "tokenize", "--model", "org/name", "cached_test.go"); len(ids.IDs) == 0 {
		t.Error("no tokens")
	}
	if r := loadline(t, "generate", "--model", "org/name", "--prompt", "x"); r.code != codeUsage || !strings.Contains(r.err, "holds neither config.json") {
		t.Errorf("without a model: got %d, %s", r.code, r.err)
	}
}
