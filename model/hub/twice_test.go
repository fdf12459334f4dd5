package hub

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// plainServer serves one file to whoever asks for the whole of it.
func plainServer(t *testing.T, get http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(get)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// TestTwoFetches has two processes fetch one address into one file: the second waits, and finds what the first has fetched. The server
// tells versions apart, or does not.
func TestTwoFetches(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 20_000)
	for _, tag := range []string{"", `"1"`} {
		half, rest := make(chan bool), make(chan bool)
		s := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
			if tag != "" {
				w.Header().Set("ETag", tag)
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			if r.Method == http.MethodHead {
				return
			}
			w.Write(body[:len(body)/2])
			w.(http.Flusher).Flush()
			half <- true
			<-rest
			w.Write(body[len(body)/2:])
		})
		dir := t.TempDir()
		path := filepath.Join(dir, "x.gguf")
		fetch := func(say func(string)) (*Pulled, error) {
			c, err := New(Options{Cache: dir, Say: say})
			if err != nil {
				return nil, err
			}
			return c.Fetch(t.Context(), s.URL+"/x.gguf", path, "")
		}
		first := make(chan error)
		go func() {
			r, err := fetch(nil)
			if err == nil && r.Fetched != int64(len(body)) {
				err = fmt.Errorf("got %+v", r)
			}
			first <- err
		}()
		<-half
		said := 0
		r, err := fetch(func(line string) {
			if said++; said == 1 && strings.Contains(line, "waiting for another process") {
				rest <- true
				if err := <-first; err != nil {
					t.Errorf("tag %q: the first: %v", tag, err)
				}
			}
		})
		if err != nil || r.Fetched != 0 || said != 1 {
			t.Fatalf("tag %q: the second: got %+v, %v, %d lines", tag, r, err, said)
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("tag %q: got %d bytes, %v", tag, len(got), err)
		}
		if names := incomplete(t, dir); len(names) > 0 {
			t.Errorf("tag %q: left %q", tag, names)
		}
	}
}

// TestTakenAway removes what has come of a file while it comes, and puts another's beginning there: it does not get the name.
func TestTakenAway(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	s := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			return
		}
		names := incomplete(t, dir)
		if len(names) != 1 {
			t.Errorf("got %q, want one", names)
			return
		}
		if err := os.Rename(names[0], names[0]+"2"); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(names[0], []byte("half"), 0o600); err != nil {
			t.Error(err)
		}
		w.Write([]byte("all of it"))
	})
	c, err := New(Options{Cache: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(t.Context(), s.URL+"/x", path, ""); err == nil || !strings.Contains(err.Error(), "taken away") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("another's beginning has the name")
	}
}

// TestTwoPulls has processes pull one model at the same time.
func TestTwoPulls(t *testing.T) {
	h := newFakeHub(t)
	for i := range 20 {
		h.files[fmt.Sprintf("%d.json", i)] = []byte(fmt.Sprint(i))
	}
	for range 5 {
		cache := t.TempDir()
		var all sync.WaitGroup
		for range 4 {
			c := h.client(cache, nil)
			all.Go(func() {
				l, err := c.List(t.Context(), h.repo, "")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Pull(t.Context(), l); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		h.checkFiles(filepath.Join(cache, "models--org--name", "snapshots", commit))
	}
}

// TestSilentList has a server say nothing more in the middle of a list.
func TestSilentList(t *testing.T) {
	s := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`{"sha":"` + commit))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c, err := New(Options{Endpoint: s.URL, Cache: t.TempDir(), Stall: 50 * time.Millisecond, Backoff: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.List(t.Context(), "org/name", ""); err == nil || !strings.Contains(err.Error(), "nothing came for 50ms") {
		t.Errorf("got %v", err)
	}
}

// TestHeadOfNothing asks a server that says of every file that it has no bytes, until they are asked for.
func TestHeadOfNothing(t *testing.T) {
	for _, body := range []string{"some bytes", ""} {
		s := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
			n := len(body)
			if r.Method == http.MethodHead {
				n = 0
			}
			w.Header().Set("Content-Length", fmt.Sprint(n))
			if n > 0 {
				w.Write([]byte(body))
			}
		})
		path := filepath.Join(t.TempDir(), "x")
		c, err := New(Options{Cache: filepath.Dir(path)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Fetch(t.Context(), s.URL+"/x", path, "")
		if err != nil || r.Bytes != int64(len(body)) {
			t.Errorf("%q: got %+v, %v", body, r, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != body {
			t.Errorf("%q: got %q, %v", body, got, err)
		}
	}
}

// TestOtherVersion has a file change while it comes, on a server that knows ranges and not If-Range: parts of both are not put together.
func TestOtherVersion(t *testing.T) {
	old, new := bytes.Repeat([]byte("old "), 1000), bytes.Repeat([]byte("new "), 1000)
	for _, ranges := range []bool{true, false} {
		gets := 0
		s := plainServer(t, func(w http.ResponseWriter, r *http.Request) {
			body, tag := new, `"2"`
			if r.Method == http.MethodHead || gets == 0 {
				body, tag = old, `"1"`
			}
			from := 0
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && ranges {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
			} else {
				from = 0
			}
			w.Header().Set("ETag", tag)
			w.Header().Set("Content-Length", fmt.Sprint(len(body)-from))
			if from > 0 {
				w.WriteHeader(http.StatusPartialContent)
			}
			if r.Method == http.MethodHead {
				return
			}
			if gets++; gets == 1 {
				w.Write(body[:len(body)/2])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			w.Write(body[from:])
		})
		path := filepath.Join(t.TempDir(), "x")
		c, err := New(Options{Cache: filepath.Dir(path), Backoff: time.Microsecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Fetch(t.Context(), s.URL+"/x", path, ""); err != nil {
			t.Errorf("ranges %v: %v", ranges, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, new) {
			t.Errorf("ranges %v: got %d bytes, %.20q…%.20q, %v", ranges, len(got), got, got[len(got)/2:], err)
		}
	}
}
