package hub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestToken checks who gets the token: the hub, never the server that it redirects to, and not the hub again by way of that.
func TestToken(t *testing.T) {
	for _, back := range []bool{false, true} {
		h := newFakeHub(t)
		h.token, h.back = "hf_secret", back
		if back {
			delete(h.files, "copy.json")
		}
		c := h.client(t.TempDir(), func(o *Options) { o.Token = h.token })
		_, err := h.pull(c)
		var status *StatusError
		if !back && err != nil || back && (!errors.As(err, &status) || status.Code != http.StatusUnauthorized || status.Token) {
			t.Fatalf("back %t: got %v", back, err)
		}
		stored, returned := 0, 0
		for _, a := range h.asks {
			switch {
			case a.server == "storage":
				stored++
				if a.token != "" {
					t.Errorf("the storage was sent %q", a.token)
				}
			case a.token == "":
				returned++
			case a.token != "Bearer hf_secret":
				t.Errorf("the hub was sent %q", a.token)
			}
		}
		if stored == 0 || returned > 0 != back {
			t.Errorf("back %t: got %d questions to the storage, %d to the hub without a token", back, stored, returned)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells secrets: %v", err)
		}
	}
	// The same name with another port is another server.
	other := ""
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { other += r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	h := newFakeHub(t)
	h.status = func(r *http.Request) int { return http.StatusTemporaryRedirect }
	h.headers["Location"] = elsewhere.URL + "/api"
	if _, err := h.pull(h.client(t.TempDir(), func(o *Options) { o.Token = "hf_secret" })); err == nil || other != "" {
		t.Errorf("redirected list: got %v, and %q was sent", err, other)
	}
	for endpoint, says := range map[string]string{
		"http://example.com": "over https alone", "ftp://example.com": "want https://", "https://": "want https://", "https://a:b@example.com": "want a scheme",
		"https://example.com?x=1": "want a scheme", "https://example.com/\x7f": "no address",
	} {
		if _, err := New(Options{Endpoint: endpoint, Token: "hf_secret"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q in it", endpoint, err, says)
		}
	}
	if _, err := New(Options{Token: "hf\r\nX: y"}); err == nil || strings.Contains(err.Error(), "hf\r") {
		t.Errorf("a token of two lines: got %v", err)
	}
}

// TestHostileList gives lists that no hub gives. Nothing is written but below the model's own directory.
func TestHostileList(t *testing.T) {
	list := func(sibling string) string { return `{"sha":"` + commit + `","siblings":[` + sibling + `]}` }
	file := func(name, etag string, size int64) string {
		return list(fmt.Sprintf(`{"rfilename":%q,"size":%d,"blobId":%q}`, name, size, etag))
	}
	hash := strings.Repeat("a", 40)
	for text, says := range map[string]string{
		` `:                                     "the list of files",
		`{}`:                                    "is at commit",
		`[]`:                                    "not as a hub writes it",
		`{"sha":"../../x","siblings":[]}`:       "is at commit",
		`{"sha":"` + commit + `"}`:              "there is none",
		list(`1`):                               "the list of files",
		file("../x", hash, 1):                   "does not name a file",
		file("a/../../x", hash, 1):              "does not name a file",
		file("/etc/x", hash, 1):                 "does not name a file",
		file("a//b", hash, 1):                   "does not name a file",
		file("./a", hash, 1):                    "does not name a file",
		file("a/", hash, 1):                     "does not name a file",
		file("", hash, 1):                       "does not name a file",
		file(`a\..\b`, hash, 1):                 "does not name a file",
		list(`{"rfilename":"a\u0000b"}`):        "does not name a file",
		list(`{"rfilename":"a\u001b[2J"}`):      "does not name a file",
		file(strings.Repeat("a", 256), hash, 1): "does not name a file",
		file(strings.Repeat("a/", 600)+"a", hash, 1):       "does not name a file",
		file("a", "../../x", 1):                            "cannot name a file",
		file("a", ".hidden", 1):                            "cannot name a file",
		file("a", "x.incomplete", 1):                       "cannot name a file",
		file("a", strings.Repeat("a", 200), 1):             "cannot name a file",
		file("a", hash, -1):                                "has -1 bytes",
		file("a", hash, 1<<60):                             "bytes, want 0 to",
		list(`{"rfilename":"a"},{"rfilename":"a"}`):        "twice",
		list(strings.Repeat(`{},`, 10) + `{}`):             "does not name a file",
		`{"sha":"` + commit + `","siblings":[{"rfilename"`: "the list of files",
	} {
		h := newFakeHub(t)
		h.list = text
		dir := t.TempDir()
		cache := filepath.Join(dir, "cache")
		if _, err := h.pull(h.client(cache, nil)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.150s: got %v, want %q in it", text, err, says)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%.150s: wrote %v, %v", text, entries, err)
		}
	}
	var many strings.Builder
	for i := range maxFiles + 1 {
		fmt.Fprintf(&many, `{"rfilename":"%d"},`, i)
	}
	for text, says := range map[string]string{
		list(many.String() + `{"rfilename":"x"}`): "it has more than 100000",
		list(strings.Repeat(" ", maxListBytes)):   "more than 33554432 bytes",
	} {
		if _, err := readListing(strings.NewReader(text), "org/name", "main"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a long list: got %v, want %q in it", err, says)
		}
	}
	// A file in the place of a directory.
	h := newFakeHub(t)
	h.files = map[string][]byte{"a": []byte("x"), "a/b": []byte("y")}
	if _, err := h.pull(h.client(t.TempDir(), nil)); err == nil {
		t.Error("a file and a directory of one name: got no error")
	}
}

// TestHostileBlob has links where blobs or what is left of them would be: nothing is written through them.
func TestHostileBlob(t *testing.T) {
	h := newFakeHub(t)
	delete(h.files, "config.json")
	delete(h.files, "copy.json")
	dir := t.TempDir()
	blobs := filepath.Join(dir, "cache", "models--org--name", "blobs")
	outside := filepath.Join(dir, "outside")
	if err := errors.Join(os.MkdirAll(blobs, 0o755), os.WriteFile(outside, []byte("mine"), 0o644),
		os.Symlink(outside, filepath.Join(blobs, h.etag("model.safetensors")+incompleteSuffix))); err != nil {
		t.Fatal(err)
	}
	if _, err := h.pull(h.client(filepath.Join(dir, "cache"), nil)); !errors.Is(err, unix.ELOOP) {
		t.Errorf("got %v, want it refused", err)
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "mine" {
		t.Errorf("got %q, %v outside", text, err)
	}
}

// TestStatus checks what answers that are none become.
func TestStatus(t *testing.T) {
	for _, x := range []struct {
		code   int
		reason string
		asks   int
	}{
		{401, "RepoNotFound", 1}, {403, "GatedRepo", 1}, {404, "RevisionNotFound", 1}, {410, "", 1}, {429, "", listTries}, {500, "", listTries}, {503, "", listTries},
	} {
		h := newFakeHub(t)
		h.status = func(*http.Request) int { return x.code }
		h.headers["X-Error-Code"], h.headers["X-Error-Message"] = x.reason, "No.\u202e"+strings.Repeat("x", 1000)
		_, err := h.pull(h.client(t.TempDir(), nil))
		var status *StatusError
		if !errors.As(err, &status) || status.Code != x.code || status.Reason != x.reason || len(status.Message) > maxReason+3 || strings.Contains(err.Error(), "\u202e") {
			t.Errorf("%d: got %v", x.code, err)
		}
		if len(h.asks) != x.asks {
			t.Errorf("%d: got %d questions, want %d", x.code, len(h.asks), x.asks)
		}
	}
	// What passes is asked again, in the middle of a pull too.
	h := newFakeHub(t)
	n := 0
	h.status = func(*http.Request) int {
		if n++; n%2 == 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	r, err := h.pull(h.client(t.TempDir(), nil))
	if err != nil {
		t.Fatal(err)
	}
	h.checkFiles(r.Dir)
	// The server's own word on when.
	e := (&answer{Response: &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"7000"}}}}).status("x")
	var later *laterError
	if !errors.As(e, &later) || later.wait != maxBackoff || !passes(e) {
		t.Errorf("Retry-After of 7000 s: got %v", e)
	}
}

// TestXet has the hub answer as it does for files that lie in chunks: its headers for that are passed over, and what it redirects within
// itself still needs the token.
func TestXet(t *testing.T) {
	for _, bare := range []bool{false, true} {
		h := newFakeHub(t)
		h.xet, h.bare, h.token = true, bare, "hf_secret"
		r, err := h.pull(h.client(t.TempDir(), func(o *Options) { o.Token = h.token }))
		if err != nil {
			t.Fatalf("bare %t: %v", bare, err)
		}
		h.checkFiles(r.Dir)
		if to, err := os.Readlink(filepath.Join(r.Dir, "config.json")); err != nil || filepath.Base(to) != h.etag("config.json") {
			t.Errorf("bare %t: got a link to %q, %v, want to the blob %s", bare, to, err, h.etag("config.json"))
		}
		for _, a := range h.asks {
			if strings.Contains(a.path, "xet") || strings.Contains(a.path, "token") || strings.Contains(a.path, "reconstruction") {
				t.Errorf("bare %t: the storage of chunks was asked: %s", bare, a.path)
			}
		}
		if n := h.count("GET", "/resolve-cache/"); n == 0 {
			t.Errorf("bare %t: no question was redirected within the hub", bare)
		}
	}
}

// TestGated lists files that all may see the names of, and not the contents.
func TestGated(t *testing.T) {
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		h := newFakeHub(t)
		h.status = func(r *http.Request) int {
			if strings.Contains(r.URL.Path, "/resolve/") {
				return code
			}
			return 0
		}
		h.headers["X-Error-Code"] = "GatedRepo"
		h.headers["X-Error-Message"] = "Access to model org/name is restricted. You must have access to it and be authenticated to access it. Please log in."
		cache := t.TempDir()
		_, err := h.pull(h.client(cache, func(o *Options) { o.Token = "hf_secret" }))
		var status *StatusError
		if !errors.As(err, &status) || status.Code != code || status.Reason != "GatedRepo" || !status.Token || !strings.Contains(err.Error(), "is restricted") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: got %v", code, err)
		}
		if n := h.count("GET", "/resolve/"); n != 1 {
			t.Errorf("%d: got %d questions for files, want one", code, n)
		}
		if _, ok := Cached(cache, "org/name"); ok {
			t.Errorf("%d: what is not there has a reference", code)
		}
	}
}

// TestNotSatisfiable has a server with fewer bytes than came before: it is asked anew, and what is then sent has to be right.
func TestNotSatisfiable(t *testing.T) {
	for _, mends := range []bool{true, false} {
		h := newFakeHub(t)
		h.files = map[string][]byte{"model.safetensors": h.files["model.safetensors"]}
		whole := h.files["model.safetensors"]
		h.lie["model.safetensors"] = whole[:1000] // of the same name, when half of it was written
		cache := t.TempDir()
		blobs := filepath.Join(cache, "models--org--name", "blobs")
		left := filepath.Join(blobs, h.etag("model.safetensors")+incompleteSuffix)
		if err := errors.Join(os.MkdirAll(blobs, 0o755), os.WriteFile(left, whole[:5000], 0o644)); err != nil {
			t.Fatal(err)
		}
		c := h.client(cache, func(o *Options) {
			o.Say = func(line string) {
				if mends {
					h.busy.Wait()
					delete(h.lie, "model.safetensors")
				}
			}
		})
		r, err := h.pull(c)
		if mends {
			if err != nil || r.Fetched != int64(len(whole)) {
				t.Fatalf("got %+v, %v", r, err)
			}
			h.checkFiles(r.Dir)
			var spans []string
			for _, a := range h.asks {
				if a.server == "storage" {
					spans = append(spans, a.span)
				}
			}
			if want := []string{"bytes=5000-", ""}; !slices.Equal(spans, want) {
				t.Errorf("got ranges %q, want %q", spans, want)
			}
		} else if err == nil || !strings.Contains(err.Error(), "says it has 1000 bytes, want 200000") {
			t.Errorf("a file that stays short: got %v", err)
		}
	}
}

// TestRedirects checks where redirects may lead.
func TestRedirects(t *testing.T) {
	for location, says := range map[string]string{
		"": "an address of 0 bytes", "file:///etc/passwd": "want https://", "/again": "more than 10 times", "http://": "want https://", strings.Repeat("x", maxURLBytes+1): "want 1 to",
	} {
		h := newFakeHub(t)
		h.status = func(*http.Request) int { return http.StatusFound }
		h.headers["Location"] = location
		if _, err := h.pull(h.client(t.TempDir(), nil)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.50q: got %v, want %q in it", location, err, says)
		}
	}
	h := newFakeHub(t)
	tls := httptest.NewTLSServer(http.RedirectHandler(h.hub.URL+"/x?signature=secret", http.StatusFound))
	defer tls.Close()
	c := h.client(t.TempDir(), func(o *Options) { o.Transport = tls.Client().Transport })
	_, err := c.Fetch(t.Context(), tls.URL+"/x.gguf", filepath.Join(t.TempDir(), "x"), "")
	if err == nil || !strings.Contains(err.Error(), "which is not https") || strings.Contains(err.Error(), "secret") || len(h.asks) > 0 {
		t.Errorf("from TLS to none: got %v", err)
	}
}

// TestInterrupted ends a pull half-way: what came is there for the next.
func TestInterrupted(t *testing.T) {
	h := newFakeHub(t)
	h.dropEvery, h.hangs = 100_000, true
	cache := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	c := h.client(cache, func(o *Options) {
		o.Progress = func(p Progress) {
			if p.File == "model.safetensors" && p.Done >= 100_000 {
				cancel()
			}
		}
	})
	l, err := c.List(ctx, h.repo, "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pull(ctx, l); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want it interrupted", err)
	}
	h.busy.Wait()
	h.dropEvery, h.hangs = 0, false
	r, err := h.pull(h.client(cache, nil))
	if err != nil || r.Fetched > 101_000 {
		t.Fatalf("going on: got %+v, %v", r, err)
	}
	h.checkFiles(r.Dir)
}

func TestSpace(t *testing.T) {
	h := newFakeHub(t)
	h.list = `{"sha":"` + commit + `","siblings":[`
	for i := range 1000 {
		h.list += fmt.Sprintf(`{"rfilename":"%d","size":%d,"blobId":"%040d"},`, i, int64(maxFileBytes), i)
	}
	h.list = strings.TrimSuffix(h.list, ",") + "]}"
	_, err := h.pull(h.client(t.TempDir(), nil))
	var space *SpaceError
	if !errors.As(err, &space) || space.Need != 1000*maxFileBytes || space.Free <= 0 {
		t.Errorf("got %v, want the disk to be too small", err)
	}
	if n := h.count("GET", "/resolve/"); n > 0 {
		t.Errorf("got %d files asked for", n)
	}
}

// TestLock has another process fetch a blob at the same time.
func TestLock(t *testing.T) {
	h := newFakeHub(t)
	for name := range h.files {
		if name != "model.safetensors" {
			delete(h.files, name)
		}
	}
	cache := t.TempDir()
	locks, blobs := filepath.Join(cache, ".locks", "models--org--name"), filepath.Join(cache, "models--org--name", "blobs")
	if err := errors.Join(os.MkdirAll(locks, 0o755), os.MkdirAll(blobs, 0o755)); err != nil {
		t.Fatal(err)
	}
	etag := h.etag("model.safetensors")
	f, err := os.Create(filepath.Join(locks, etag+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	said := 0
	c := h.client(cache, func(o *Options) {
		o.Say = func(line string) {
			if said++; !strings.Contains(line, "waiting for another process") {
				t.Errorf("got %q", line)
			}
			if err := errors.Join(os.WriteFile(filepath.Join(blobs, etag), h.files["model.safetensors"], 0o644), f.Close()); err != nil {
				t.Error(err)
			}
		}
	})
	r, err := h.pull(c)
	if err != nil || r.Fetched != 0 || said != 1 {
		t.Fatalf("got %+v, %v, %d lines", r, err, said)
	}
	h.checkFiles(r.Dir)
	// One that is never given up ends with the context.
	f, err = os.Create(filepath.Join(locks, etag+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_EX), os.Remove(filepath.Join(blobs, etag))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c = h.client(cache, func(o *Options) { o.Say = func(string) { cancel() } })
	l, err := c.List(ctx, h.repo, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pull(ctx, l); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want it to have waited", err)
	}
}
