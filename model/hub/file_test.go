package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFetch fetches a file from a server that is no hub.
func TestFetch(t *testing.T) {
	h := newFakeHub(t)
	h.token = "hf_secret" // which the storage does not ask for
	body := h.files["model.safetensors"]
	sum := sha256.Sum256(body)
	want := hex.EncodeToString(sum[:])
	address := h.storage.URL + "/model.safetensors?signature=secret"
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	c := h.client("", func(o *Options) { o.Token = h.token })
	get := func(want string) (*Pulled, error) {
		defer h.busy.Wait()
		return c.Fetch(t.Context(), address, path, want)
	}
	check := func(what string, r *Pulled, err error, fetched int64) {
		t.Helper()
		got, e := os.ReadFile(path)
		if err != nil || r.Fetched != fetched || r.Bytes != int64(len(body)) || e != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: got %+v, %v, want %d bytes fetched of %d", what, r, err, fetched, len(body))
		}
		if names := incomplete(t, dir); len(names) > 0 {
			t.Errorf("%s: left %q", what, names)
		}
	}
	r, err := get("")
	check("anew", r, err, 200_000)
	r, err = get("")
	check("again", r, err, 0)
	r, err = get(strings.ToUpper(want))
	check("again, with the hash", r, err, 0)
	if _, err := get(strings.Repeat("0", 64)); !errors.Is(err, ErrExists) {
		t.Errorf("another hash: got %v, want it refused", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := get(""); !errors.Is(err, ErrExists) {
		t.Errorf("another length: got %v, want it refused", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}

	// It goes on with its own, in another process too, and not with what is of another version.
	var broken *BrokenError
	h.dropEvery, h.ignoreRange = 50_000, true
	if _, err := get(""); !errors.As(err, &broken) || broken.Have != 50_000 {
		t.Fatalf("got %v, want it to break off", err)
	}
	names := incomplete(t, dir)
	if len(names) != 1 {
		t.Fatalf("left %q, want one", names)
	}
	h.dropEvery, h.ignoreRange = 0, false
	r, err = get("")
	check("going on", r, err, 150_000)
	if err := errors.Join(os.Remove(path), os.WriteFile(path+".0123456789abcdef.incomplete", make([]byte, 70_000), 0o644)); err != nil {
		t.Fatal(err)
	}
	r, err = get("")
	check("another version", r, err, 200_000)

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	h.chunked = true
	h.dropEvery = 0
	r, err = get(want)
	check("without a length", r, err, 200_000)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	h.chunked = false
	var bad *ChecksumError
	if _, err := get(strings.Repeat("0", 64)); !errors.As(err, &bad) {
		t.Errorf("another hash: got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("another hash: left %v, %v", entries, err)
	}
	var status *StatusError
	if _, err := c.Fetch(t.Context(), h.storage.URL+"/none?signature=secret", path, ""); !errors.As(err, &status) || status.Code != http.StatusNotFound || strings.Contains(err.Error(), "secret") {
		t.Errorf("a file that is not there: got %v", err)
	}
	for _, a := range h.asks {
		if a.token != "" {
			t.Errorf("the storage was sent %q", a.token)
		}
	}
	for address, says := range map[string]string{
		"http://example.com/x.gguf": "nobody vouches", "ftp://example.com/x": "want https://", "x": "want https://", "https://exa mple/": "no address",
	} {
		var name *NameError
		if _, err := c.Fetch(t.Context(), address, path, ""); !errors.As(err, &name) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q in it", address, err, says)
		}
	}
	if _, err := c.Fetch(t.Context(), address, path, "xyz"); err == nil || !strings.Contains(err.Error(), "no sha256") {
		t.Errorf("a hash that is none: got %v", err)
	}
}

// TestUnknownLength has a server send more than it, or the hub, said, without a length before it.
func TestUnknownLength(t *testing.T) {
	h := newFakeHub(t)
	h.chunked = true
	h.lie["model.safetensors"] = make([]byte, 300_000)
	cache := t.TempDir()
	if _, err := h.pull(h.client(cache, nil)); err == nil || !strings.Contains(err.Error(), "sends more than 200000 bytes") {
		t.Errorf("got %v, want an error about more than 200000 bytes", err)
	}
	if names := incomplete(t, cache); len(names) > 0 {
		t.Errorf("left %q", names)
	}
	h.lie["model.safetensors"] = make([]byte, 100_000)
	var broken *BrokenError
	if _, err := h.pull(h.client(cache, nil)); err == nil || errors.As(err, &broken) && broken.Have > 100_000 {
		t.Errorf("too few: got %v", err)
	}
}

func TestFileName(t *testing.T) {
	for address, want := range map[string]string{
		"https://example.com/a/model.gguf?x=y#z": "model.gguf", "https://example.com/a%20b.gguf": "a b.gguf", "https://example.com/": "", "https://example.com": "",
		"https://example.com/a/": "", "https://example.com/..": "", "https://example.com/%2e%2e%2fx": "x", "https://example.com/.bashrc": "", "https://example.com/a%5cb": "",
	} {
		if got, err := FileName(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", address, got, err, want)
		}
	}
}

func TestParseName(t *testing.T) {
	const mirror = "https://mirror.example/hf"
	for text, want := range map[string]Name{
		"org/name":                         {Repo: "org/name"},
		"gpt2":                             {Repo: "gpt2"},
		"org/name@v1.0":                    {Repo: "org/name", Revision: "v1.0"},
		"org/name@refs/pr/1":               {Repo: "org/name", Revision: "refs/pr/1"},
		"hf://org/name":                    {Repo: "org/name"},
		"https://huggingface.co/org/name":  {Repo: "org/name"},
		"https://huggingface.co/org/name/": {Repo: "org/name"},
		"https://hf.co/org/name/tree/dev":  {Repo: "org/name", Revision: "dev"},
		"https://huggingface.co/org/name/resolve/main/a/b%20c.gguf?download=true": {Repo: "org/name", Revision: "main", File: "a/b c.gguf"},
		"https://huggingface.co/org/name/blob/refs%2Fpr%2F1/x.gguf":               {Repo: "org/name", Revision: "refs/pr/1", File: "x.gguf"},
		"https://huggingface.co/gpt2/blob/main/config.json":                       {Repo: "gpt2", Revision: "main", File: "config.json"},
		"https://mirror.example/hf/org/name":                                      {Repo: "org/name"},
		"https://mirror.example/other/x.gguf":                                     {URL: "https://mirror.example/other/x.gguf"},
		"https://huggingface.co/datasets/org/name/resolve/main/x.json":            {URL: "https://huggingface.co/datasets/org/name/resolve/main/x.json"},
		"https://mirror.example/hf/x.gguf":                                        {URL: "https://mirror.example/hf/x.gguf"},
		"https://huggingface.co/":                                                 {URL: "https://huggingface.co/"},
		"https://example.com/org/name":                                            {URL: "https://example.com/org/name"},
	} {
		if got, err := ParseName(text, mirror); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "/", "a/b/c", "../x", "org/..", "-x/y", "org/name@", "org/name@../x", "org/name@a\x00", "a--b", "org/a b", "org/name.git", "./x", "/etc/passwd", "file:///etc/passwd",
		"https://huggingface.co/org/name/blob/main/../../x", "https://huggingface.co/org/name/blob/main/", "https://huggingface.co/org/name/resolve/..%2f/x", "https://huggingface.co/o%2f..%2f/x",
	} {
		if got, err := ParseName(text, mirror); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

// TestSelect compares patterns with Python's fnmatch, which gave these answers.
func TestSelect(t *testing.T) {
	names := []string{"a.json", "sub/a.json", "model-00001-of-00002.safetensors", "x[1].gguf", "Q4_K_M.gguf", "Q4_K_S.gguf", "]", "!", "a^b", "a-b", `sub\x`}
	for pattern, want := range map[string]string{
		"*.json": "a.json sub/a.json", "*": strings.Join(names, " "), "sub/": "sub/a.json", "sub/*": "sub/a.json", "?.json": "a.json", "model-0000[12]-*": "model-00001-of-00002.safetensors",
		"*Q4_K_[!S]*": "Q4_K_M.gguf", "x[[]1].gguf": "x[1].gguf", "x[1].gguf": "", "[]]": "]", "[!]]": "!", "[": "", "[!": "", "a[^x]b": "a^b", "a[,-.]b": "a-b", "a[+--]b": "a-b",
		"A.JSON": "", "a.jso": "", "a.json?": "", "**a.json": "a.json sub/a.json", `sub\x`: `sub\x`, "": "",
	} {
		l := &Listing{}
		for _, n := range names {
			l.Files = append(l.Files, File{Name: n})
		}
		var got []string
		err := l.Select([]string{pattern}, nil)
		for _, f := range l.Files {
			got = append(got, f.Name)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, %v, want %q", pattern, got, err, want)
		}
	}
	l := &Listing{}
	for _, n := range names {
		l.Files = append(l.Files, File{Name: n})
	}
	if err := l.Select([]string{"*.gguf", "*.json"}, []string{"*_K_*", Exactly("x[1].gguf")}); err != nil || len(l.Files) != 2 {
		t.Errorf("got %v, %v, want the two .json", l.Files, err)
	}
	if err := l.Select([]string{strings.Repeat("*", maxPattern+1)}, nil); err == nil {
		t.Error("a long pattern: got no error")
	}
}
