package hub

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub is a hub of one model, and the server that has its large files.
type fakeHub struct {
	t     *testing.T
	repo  string
	files map[string][]byte
	large map[string]bool

	bare         bool   // the list has neither sizes nor hashes
	token        string // that every question needs
	dropEvery    int    // bytes after which a connection breaks; 0 for never
	ignoreRange  bool
	lie          map[string][]byte // what is sent in place of a file
	list         string            // in place of the list
	status       func(r *http.Request) int
	headers      map[string]string // beside a status
	back         bool              // the large files' server redirects back to the hub
	hangs        bool              // nothing comes after the first bytes
	chunked      bool              // no length is said
	xet          bool              // answers name the storage of chunks that newer clients may ask, and small files are redirected within the hub
	hub, storage *httptest.Server

	busy sync.WaitGroup // handlers; nothing above changes while there are some
	mu   sync.Mutex
	asks []ask
}

// ask is a question that came.
type ask struct{ server, method, path, span, token string }

func newFakeHub(t *testing.T) *fakeHub {
	h := &fakeHub{t: t, repo: "org/name", files: map[string][]byte{}, large: map[string]bool{}, lie: map[string][]byte{}, headers: map[string]string{}}
	r := rand.New(rand.NewPCG(1, 2))
	add := func(name string, n int, large bool) {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		h.files[name], h.large[name] = p, large
	}
	add("config.json", 600, false)
	add("model.safetensors", 200_000, true)
	add("sub/dir/notes ä.txt", 31, false)
	add("empty.txt", 0, false)
	h.files["copy.json"] = h.files["config.json"]
	h.hub = httptest.NewServer(http.HandlerFunc(h.serveHub))
	h.storage = httptest.NewServer(http.HandlerFunc(h.serveStorage))
	t.Cleanup(func() {
		h.hub.CloseClientConnections()
		h.hub.Close()
		h.storage.CloseClientConnections()
		h.storage.Close()
	})
	return h
}

func (h *fakeHub) etag(name string) string {
	p := h.files[name]
	if h.large[name] {
		s := sha256.Sum256(p)
		return hex.EncodeToString(s[:])
	}
	s := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(p), p))
	return hex.EncodeToString(s[:])
}

func (h *fakeHub) note(server string, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asks = append(h.asks, ask{server, r.Method, r.URL.Path, r.Header.Get("Range"), r.Header.Get("Authorization")})
}

// count is how many questions of a method there were for a path that has some text in it.
func (h *fakeHub) count(method, text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.asks {
		if a.method == method && strings.Contains(a.path, text) {
			n++
		}
	}
	return n
}

func (h *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	h.busy.Add(1)
	defer h.busy.Done()
	h.note("hub", r)
	if h.status != nil {
		if code := h.status(r); code != 0 {
			for k, v := range h.headers {
				w.Header().Set(k, v)
			}
			w.WriteHeader(code)
			return
		}
	}
	if h.token != "" && r.Header.Get("Authorization") != "Bearer "+h.token {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		w.Header().Set("X-Error-Message", "Repository not found.\u202e")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/models/"+h.repo+"/revision/") {
		h.serveList(w)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/"+h.repo+"/resolve/"+commit+"/")
	if within, is := strings.CutPrefix(r.URL.Path, "/api/resolve-cache/models/"+h.repo+"/"+commit+"/"); is && h.xet {
		if _, ok := h.files[within]; !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", `W/"`+h.etag(within)+`"`)
		h.send(w, r, within)
		return
	}
	p, known := h.files[name]
	if !ok || !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("X-Repo-Commit", commit)
	if h.xet {
		w.Header().Set("X-Xet-Hash", strings.Repeat("e", 64))
		w.Header().Set("X-Xet-Refresh-Route", "/api/models/"+h.repo+"/xet-read-token/"+commit)
		w.Header().Set("Link", "<"+h.storage.URL+"/token>; rel=\"xet-auth\", <"+h.storage.URL+"/reconstruction>; rel=\"xet-reconstruction-info\"")
		if !h.large[name] {
			w.Header().Set("ETag", `W/"`+h.etag(name)+`"`)
			w.Header().Set("Location", (&url.URL{Path: "/api/resolve-cache/models/" + h.repo + "/" + commit + "/" + name}).String())
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
	}
	if h.large[name] {
		w.Header().Set("X-Linked-Etag", `"`+h.etag(name)+`"`)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(p)))
		if !h.back || r.URL.Query().Get("back") == "" {
			w.Header().Set("Location", h.storage.URL+"/"+name+"?signature=secret")
			w.WriteHeader(http.StatusFound)
			return
		}
	}
	w.Header().Set("ETag", `"`+h.etag(name)+`"`)
	h.send(w, r, name)
}

func (h *fakeHub) serveList(w http.ResponseWriter) {
	if h.list != "" {
		w.Write([]byte(h.list))
		return
	}
	var siblings []map[string]any
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		s := map[string]any{"rfilename": name}
		if !h.bare {
			s["size"], s["blobId"] = len(h.files[name]), h.etag(name)
			if h.large[name] {
				s["blobId"] = "ffff"
				s["lfs"] = map[string]any{"sha256": h.etag(name), "size": len(h.files[name]), "pointerSize": 133}
			}
		}
		siblings = append(siblings, s)
	}
	json.NewEncoder(w).Encode(map[string]any{"id": h.repo, "sha": commit, "siblings": siblings})
}

func (h *fakeHub) serveStorage(w http.ResponseWriter, r *http.Request) {
	h.busy.Add(1)
	defer h.busy.Done()
	h.note("storage", r)
	name := strings.TrimPrefix(r.URL.Path, "/")
	if _, ok := h.files[name]; !ok {
		http.NotFound(w, r)
		return
	}
	if h.back {
		http.Redirect(w, r, h.hub.URL+"/"+h.repo+"/resolve/"+commit+"/"+name+"?back=1", http.StatusFound)
		return
	}
	w.Header().Set("ETag", `"storage"`)
	h.send(w, r, name)
}

// send sends a file as the faults say.
func (h *fakeHub) send(w http.ResponseWriter, r *http.Request, name string) {
	p := h.files[name]
	if lie, ok := h.lie[name]; ok {
		p = lie
	}
	from := 0
	if s, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && !h.ignoreRange {
		from, _ = strconv.Atoi(strings.TrimSuffix(s, "-"))
		if from >= len(p) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", len(p)))
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(p)-1, len(p)))
	}
	if !h.chunked {
		w.Header().Set("Content-Length", strconv.Itoa(len(p)-from))
	}
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodHead {
		return
	}
	if h.dropEvery > 0 && len(p)-from > h.dropEvery {
		w.Write(p[from : from+h.dropEvery])
		w.(http.Flusher).Flush()
		if h.hangs {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}
	if h.chunked {
		w.(http.Flusher).Flush()
	}
	w.Write(p[from:])
}

// client is a Client of the hub.
func (h *fakeHub) client(cache string, change func(o *Options)) *Client {
	h.t.Helper()
	o := Options{Endpoint: h.hub.URL, Cache: cache, Agent: "test", Backoff: time.Microsecond}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// pull lists and pulls.
func (h *fakeHub) pull(c *Client) (*Pulled, error) {
	h.t.Helper()
	defer h.busy.Wait()
	l, err := c.List(h.t.Context(), h.repo, "")
	if err != nil {
		return nil, err
	}
	return c.Pull(h.t.Context(), l)
}

// checkFiles compares a snapshot with what the hub has.
func (h *fakeHub) checkFiles(dir string) {
	h.t.Helper()
	for name, want := range h.files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			h.t.Errorf("%s: got %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}
}

// incomplete lists what is left of transfers below a directory.
func incomplete(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, incompleteSuffix) {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestPull(t *testing.T) {
	for _, bare := range []bool{false, true} {
		h := newFakeHub(t)
		h.bare = bare
		cache := t.TempDir()
		var last Progress
		c := h.client(cache, func(o *Options) { o.Progress = func(p Progress) { last = p } })
		r, err := h.pull(c)
		if err != nil {
			t.Fatal(err)
		}
		h.checkFiles(r.Dir)
		root := filepath.Join(cache, "models--org--name")
		if want := filepath.Join(root, "snapshots", commit); r.Dir != want {
			t.Errorf("got %s, want %s", r.Dir, want)
		}
		if r.Bytes != 600+200_000+31+600 {
			t.Errorf("got %d bytes in all", r.Bytes)
		}
		if r.Fetched != r.Bytes-600 { // the copy is the same blob
			t.Errorf("got %d bytes over the network, want %d", r.Fetched, r.Bytes-600)
		}
		if last.Done != r.Bytes || last.All != r.Bytes || last.Fetched != r.Fetched {
			t.Errorf("got the last progress %+v, want %d bytes", last, r.Bytes)
		}
		if to, err := os.Readlink(filepath.Join(r.Dir, "sub/dir/notes ä.txt")); err != nil || to != "../../../../blobs/"+h.etag("sub/dir/notes ä.txt") {
			t.Errorf("got a link to %q, %v", to, err)
		}
		if ref, err := os.ReadFile(filepath.Join(root, "refs/main")); err != nil || string(ref) != commit {
			t.Errorf("got the reference %q, %v", ref, err)
		}
		if names := incomplete(t, cache); len(names) > 0 {
			t.Errorf("left %q", names)
		}
		before := h.count("GET", "/resolve/")
		if r, err = h.pull(c); err != nil || r.Fetched != 0 || h.count("GET", "/resolve/") != before {
			t.Errorf("again: got %+v, %v, %d questions for files", r, err, h.count("GET", "/resolve/")-before)
		}
		for _, name := range []string{"org/name", "org/name@main", "org/name@" + commit} {
			if dir, ok := Cached(cache, name); !ok || dir != r.Dir {
				t.Errorf("Cached %s: got %q, %t", name, dir, ok)
			}
		}
		for _, name := range []string{"org/other", "org/name@v2", "../org", "org/name@../../x", "name", ""} {
			if dir, ok := Cached(cache, name); ok {
				t.Errorf("Cached %s: got %q, want none", name, dir)
			}
		}
	}
}

// TestDropped has connections break every so many bytes.
func TestDropped(t *testing.T) {
	h := newFakeHub(t)
	h.dropEvery = 30_000
	r, err := h.pull(h.client(t.TempDir(), nil))
	if err != nil {
		t.Fatal(err)
	}
	h.checkFiles(r.Dir)
	if r.Fetched != r.Bytes-600 {
		t.Errorf("got %d bytes over the network of %d, want none twice", r.Fetched, r.Bytes)
	}
	var spans []string
	for _, a := range h.asks {
		if a.server == "storage" {
			spans = append(spans, a.span)
		}
	}
	want := []string{"", "bytes=30000-", "bytes=60000-", "bytes=90000-", "bytes=120000-", "bytes=150000-", "bytes=180000-"}
	if !slices.Equal(spans, want) {
		t.Errorf("got ranges %q, want %q", spans, want)
	}
}

// TestBroken has a server from which nothing more ever comes: what came is kept, and another process goes on.
func TestBroken(t *testing.T) {
	for _, x := range []struct {
		name  string
		fault func(h *fakeHub)
	}{
		{"ranges ignored", func(h *fakeHub) { h.dropEvery, h.ignoreRange = 30_000, true }},
		{"nothing comes", func(h *fakeHub) { h.dropEvery, h.hangs, h.ignoreRange = 30_000, true, true }},
	} {
		h := newFakeHub(t)
		x.fault(h)
		cache := t.TempDir()
		c := h.client(cache, func(o *Options) { o.Stall = 100 * time.Millisecond })
		_, err := h.pull(c)
		var broken *BrokenError
		if !errors.As(err, &broken) || broken.Have != 30_000 || broken.All != 200_000 {
			t.Fatalf("%s: got %v, want it to break off after 30000 bytes", x.name, err)
		}
		if n := h.count("GET", "/model.safetensors"); n != 2*transferTries {
			t.Errorf("%s: got %d questions, want %d to each server", x.name, n, transferTries)
		}
		if _, ok := Cached(cache, "org/name"); ok {
			t.Errorf("%s: what is not whole has a reference", x.name)
		}
		h.dropEvery, h.ignoreRange, h.hangs = 0, false, false
		r, err := h.pull(c)
		if err != nil || r.Fetched != 170_031 {
			t.Fatalf("%s: going on: got %+v, %v, want 170031 bytes", x.name, r, err)
		}
		h.checkFiles(r.Dir)
	}
}

// TestLeftBefore begins with what an earlier process has left.
func TestLeftBefore(t *testing.T) {
	for _, x := range []struct {
		name    string
		left    func(p []byte) []byte
		fetched int64
		ignore  bool
	}{
		{"the beginning", func(p []byte) []byte { return p[:123_456] }, 200_000 - 123_456, false},
		{"all of it", func(p []byte) []byte { return p }, 0, false},
		{"of another file", func(p []byte) []byte { return make([]byte, 50_000) }, 150_000 + 200_000, false},
		{"of another file, as long", func(p []byte) []byte { return make([]byte, 200_000) }, 200_000, false},
		{"too long", func(p []byte) []byte { return make([]byte, 200_001) }, 200_000, false},
		{"the beginning, and ranges are ignored", func(p []byte) []byte { return p[:123_456] }, 200_000, true},
	} {
		h := newFakeHub(t)
		h.ignoreRange = x.ignore
		for name := range h.files {
			if name != "model.safetensors" {
				delete(h.files, name)
			}
		}
		cache := t.TempDir()
		blobs := filepath.Join(cache, "models--org--name", "blobs")
		if err := os.MkdirAll(blobs, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(blobs, h.etag("model.safetensors")+incompleteSuffix), x.left(h.files["model.safetensors"]), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := h.pull(h.client(cache, nil))
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		h.checkFiles(r.Dir)
		if r.Fetched != x.fetched {
			t.Errorf("%s: got %d bytes over the network, want %d", x.name, r.Fetched, x.fetched)
		}
	}
}

func TestChecksum(t *testing.T) {
	for _, name := range []string{"model.safetensors", "config.json"} {
		h := newFakeHub(t)
		wrong := bytes.Clone(h.files[name])
		wrong[len(wrong)/2] ^= 1
		h.lie[name] = wrong
		delete(h.files, "copy.json")
		cache := t.TempDir()
		_, err := h.pull(h.client(cache, nil))
		var sum *ChecksumError
		if !errors.As(err, &sum) || sum.Want != h.etag(name) || sum.Got == sum.Want || !strings.Contains(sum.What, name) {
			t.Errorf("%s: got %v, want an error about its hash", name, err)
		}
		if _, err := os.Stat(filepath.Join(cache, "models--org--name", "blobs", h.etag(name))); err == nil {
			t.Errorf("%s: the wrong bytes are in the cache", name)
		}
		if names := incomplete(t, cache); len(names) > 0 {
			t.Errorf("%s: left %q", name, names)
		}
		if n := h.count("GET", "/"+name); n > 2 {
			t.Errorf("%s: got %d questions, want one, and one redirected", name, n)
		}
	}
	// A server that lies and breaks off is not asked for ever.
	h := newFakeHub(t)
	h.lie["model.safetensors"], h.dropEvery = make([]byte, 200_000), 150_000
	_, err := h.pull(h.client(t.TempDir(), nil))
	var sum *ChecksumError
	if !errors.As(err, &sum) {
		t.Errorf("lies and breaks off: got %v, want an error about its hash", err)
	}
	if n := h.count("GET", "/model.safetensors"); n != 8 {
		t.Errorf("lies and breaks off: got %d questions, want 8", n)
	}
}

// TestOtherLength has a server send more or less than the hub said.
func TestOtherLength(t *testing.T) {
	for _, n := range []int{199_999, 200_001} {
		h := newFakeHub(t)
		h.lie["model.safetensors"] = make([]byte, n)
		cache := t.TempDir()
		if _, err := h.pull(h.client(cache, nil)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("says it has %d bytes, want 200000", n)) {
			t.Errorf("got %v, want an error about %d bytes", err, n)
		}
		if names := incomplete(t, cache); len(names) > 0 {
			t.Errorf("left %q", names)
		}
	}
}
