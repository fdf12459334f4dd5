package hub

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden is testdata/cache.json, which huggingface_hub's cache is written down in; golden.py beside it made it.
type golden struct {
	Version string `json:"huggingface_hub"`
	Repo    string `json:"repo"`
	Commit  string `json:"commit"`
	Files   map[string]struct {
		Body  []byte `json:"body"`
		Large bool   `json:"large"`
	} `json:"files"`
	Tree map[string]node `json:"tree"`
}

// node is a directory, a file or a link.
type node struct {
	Link string  `json:"link,omitempty"`
	Body *[]byte `json:"body,omitempty"`
}

func readGolden(t *testing.T) *golden {
	t.Helper()
	text, err := os.ReadFile("testdata/cache.json")
	if err != nil {
		t.Fatal(err)
	}
	g := &golden{}
	if err := json.Unmarshal(text, g); err != nil {
		t.Fatal(err)
	}
	if g.Repo != "org/name" || g.Commit != commit || len(g.Files) < 4 {
		t.Fatalf("got a golden of %s at %s", g.Repo, g.Commit)
	}
	return g
}

// hub serves the golden's model.
func (g *golden) hub(t *testing.T) *fakeHub {
	h := newFakeHub(t)
	clear(h.files)
	for name, f := range g.Files {
		h.files[name], h.large[name] = f.Body, f.Large
	}
	return h
}

// readNodes reads a directory.
func readNodes(t *testing.T, root string) map[string]node {
	t.Helper()
	nodes := map[string]node{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, err := filepath.Rel(root, path)
		n := node{}
		switch {
		case err != nil || d.IsDir():
		case d.Type()&fs.ModeSymlink != 0:
			n.Link, err = os.Readlink(path)
		default:
			var body []byte
			body, err = os.ReadFile(path)
			n.Body = &body
		}
		nodes[filepath.ToSlash(rel)] = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// TestLayout compares what Pull writes with what huggingface_hub wrote, file for file and link for link.
func TestLayout(t *testing.T) {
	g := readGolden(t)
	h := g.hub(t)
	cache := t.TempDir()
	if _, err := h.pull(h.client(cache, nil)); err != nil {
		t.Fatal(err)
	}
	want := map[string]node{}
	for path, n := range g.Tree {
		if path != "CACHEDIR.TAG" && !strings.HasPrefix(path, "models--org--name/trees") { // for backups, and a listing kept
			want[path] = n
		}
	}
	if d := cmp.Diff(want, readNodes(t, cache)); d != "" {
		t.Errorf("against huggingface_hub %s: -want +got\n%s", g.Version, d)
	}
}

// TestTheirs uses a cache that huggingface_hub has filled: nothing is fetched, nothing is changed.
func TestTheirs(t *testing.T) {
	g := readGolden(t)
	h := g.hub(t)
	cache := t.TempDir()
	for path, n := range g.Tree {
		path = filepath.Join(cache, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case n.Link != "":
			err = errors.Join(err, os.Symlink(n.Link, path))
		case n.Body != nil:
			err = errors.Join(err, os.WriteFile(path, *n.Body, 0o644))
		default:
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := readNodes(t, cache)
	if dir, ok := Cached(cache, g.Repo); !ok || !strings.HasSuffix(dir, commit) {
		t.Fatalf("Cached: got %q, %t", dir, ok)
	}
	r, err := h.pull(h.client(cache, nil))
	if err != nil || r.Fetched != 0 || h.count("GET", "/resolve/") > 0 {
		t.Fatalf("got %+v, %v, %d files asked for", r, err, h.count("GET", "/resolve/"))
	}
	h.checkFiles(r.Dir)
	if d := cmp.Diff(before, readNodes(t, cache)); d != "" {
		t.Errorf("changed: -before +after\n%s", d)
	}
}
