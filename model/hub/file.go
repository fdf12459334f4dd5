package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"loadline/internal/regular"
)

// FileName is the name that the last part of an address's path suggests for a file.
func FileName(address string) (string, error) {
	u, err := parseURL(address)
	if err != nil {
		return "", badName("%v", err)
	}
	name := path.Base(u.Path)
	if strings.HasSuffix(u.Path, "/") || strings.HasPrefix(name, ".") || checkFile(name) != nil || strings.Contains(name, "/") {
		return "", badName("%s names no file", shown(u))
	}
	return name, nil
}

// Fetch fetches a file from anywhere into path, by way of a file beside it that has .incomplete at its end and in its name what the
// server said of the file's version. want is the sha256 of its bytes, or empty; without it only TLS vouches for them. A file that is
// there is left: it is the one that was asked for if it has this hash, or, without one, this length; else the error is ErrExists.
func (c *Client) Fetch(ctx context.Context, address, path, want string) (*Pulled, error) {
	u, err := parseURL(address)
	if err != nil {
		return nil, badName("%v", err)
	}
	want = strings.ToLower(want)
	if want != "" && !sha256Pattern.MatchString(want) {
		return nil, badName("%.100q is no sha256: want 64 hexadecimal digits", want)
	}
	if u.Scheme != "https" && want == "" && !loopback(u) {
		return nil, badName("%s: over http without a sha256 nobody vouches for the bytes", shown(u))
	}
	t := &target{what: shown(u), url: u, bytes: -1, want: want}
	if want != "" {
		t.kind = kindSHA256
	}
	version, err := c.describe(ctx, t)
	if err != nil {
		return nil, err
	}
	if there, err := alreadyThere(path, t); there || err != nil {
		return &Pulled{Dir: path, Bytes: t.bytes}, err
	}
	partly, err := partialPath(path, t, version)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	file, err := c.hold(ctx, partly, t.what)
	if err != nil {
		return nil, err
	}
	if there, err := alreadyThere(path, t); there || err != nil { // who held it has fetched it
		return &Pulled{Dir: path, Bytes: t.bytes}, errors.Join(err, os.Remove(partly), file.Close())
	}
	if version == "" && want == "" { // nothing tells whether it is of the same version
		if err := file.Truncate(0); err != nil {
			return nil, errors.Join(fmt.Errorf("hub: %w", err), file.Close())
		}
	}
	if st, err := file.Stat(); t.bytes >= 0 && err == nil {
		if err := room(filepath.Dir(path), t.bytes-st.Size()); err != nil {
			if st.Size() == 0 {
				err = errors.Join(err, os.Remove(partly))
			}
			return nil, errors.Join(err, file.Close())
		}
	}
	came, err := c.fetch(ctx, t, file, path, func(have, came int64) {
		c.o.Progress(Progress{File: filepath.Base(path), Done: have, All: t.bytes, Fetched: came})
	})
	if err != nil {
		return nil, err
	}
	return &Pulled{Dir: path, Bytes: t.bytes, Fetched: came}, nil
}

// describe asks for the length and the version of a file: empty where the server tells nothing that another version would not share.
func (c *Client) describe(ctx context.Context, t *target) (version string, err error) {
	err = c.persist(ctx, listTries, func() (bool, error) {
		a, err := c.ask(ctx, http.MethodHead, t.url, nil, t.what)
		if err != nil {
			return false, err
		}
		a.Body.Close() // of a HEAD there is none
		switch a.StatusCode {
		case http.StatusOK:
		case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return false, nil // signed for GET alone, or GET will tell
		default:
			return false, a.status(t.what)
		}
		if a.ContentLength > maxFileBytes {
			return false, fmt.Errorf("hub: %s: the server says it has %d bytes, want at most %d", t.what, a.ContentLength, int64(maxFileBytes))
		}
		if t.bytes = a.ContentLength; t.bytes == 0 {
			t.bytes = -1 // some say so of all that they do not send; GET will tell
		}
		if etag := a.Header.Get("ETag"); etag != "" {
			version = etag
			if !strings.HasPrefix(etag, "W/") {
				t.match = etag
			}
		} else {
			version = a.Header.Get("Last-Modified")
		}
		return false, nil
	})
	return version, err
}

// alreadyThere tells whether path has the file.
func alreadyThere(path string, t *target) (bool, error) {
	f, err := regular.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("hub: %w", err)
	}
	defer f.Close() // read only
	n := int64(0)
	if t.kind == kindSHA256 {
		h := sha256.New()
		if n, err = io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, pieceBytes)); err != nil {
			return false, fmt.Errorf("hub: %w", err)
		}
		if hex.EncodeToString(h.Sum(nil)) == t.want {
			t.bytes = n
			return true, nil
		}
	} else if st, err := f.Stat(); err != nil {
		return false, fmt.Errorf("hub: %w", err)
	} else if n = st.Size(); n == t.bytes {
		return true, nil
	}
	return false, fmt.Errorf("hub: %s: %w, of %d bytes", path, ErrExists, n)
}

// partialPath names what has come of one version of a file. What came of other versions is removed, unless a process goes on with it.
func partialPath(path string, t *target, version string) (string, error) {
	address := url.URL{Scheme: t.url.Scheme, Host: t.url.Host, Path: t.url.Path}
	id := sha256.Sum256([]byte(strings.Join([]string{address.String(), version, strconv.FormatInt(t.bytes, 10), t.want}, "\n")))
	name := fmt.Sprintf("%s.%x%s", path, id[:8], incompleteSuffix)
	olds, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	for _, e := range olds {
		middle, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		middle, ok2 := strings.CutSuffix(middle, incompleteSuffix)
		old := filepath.Join(filepath.Dir(path), e.Name())
		if raw, err := hex.DecodeString(middle); !ok || !ok2 || err != nil || len(raw) != 8 || old == filepath.Clean(name) || isHeld(old) {
			continue
		}
		if err := os.Remove(old); err != nil {
			return "", err
		}
	}
	return name, nil
}

// isHeld tells whether a process is fetching what has come of a file.
func isHeld(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close() // read only
	held, err := flock(f)
	return held && err == nil
}
