package golden

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The files are those of one run of the generator: a part regenerated alone, or edited by hand, is found here.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		SHA256 map[string]string `json:"sha256"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	sources := []string{".py", ".sh", ".md", ".txt"}
	total := int64(0)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains(sources, filepath.Ext(path)) || d.Name() == "manifest.json" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		if got, want := hex.EncodeToString(sum[:]), manifest.SHA256[filepath.ToSlash(name)]; got != want {
			t.Errorf("%s: got SHA-256 %s, manifest has %q", name, got, want)
		}
		delete(manifest.SHA256, filepath.ToSlash(name))
		total += int64(len(data))
		if len(data) > 2<<20 {
			t.Errorf("%s: %d bytes, want 2 MiB at most", name, len(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range manifest.SHA256 {
		t.Errorf("%s: in the manifest, not in the folder", name)
	}
	if total > 6e6 {
		t.Errorf("got %d bytes of golden data, want 6 MB at most", total)
	}
}
