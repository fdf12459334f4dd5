package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Listing is the files of a model at one commit.
type Listing struct {
	Repo     string
	Revision string // that was asked for
	Commit   string // that it is at
	Files    []File // in order of their names
}

// File is one file of a model.
type File struct {
	Name  string // a path, checked
	Bytes int64  // −1 while it is not known
	ETag  string // sha256 of a large file's bytes, git's hash of a small one's, or the server's own word; empty while it is not known
}

// listJSON is what the hub says of a model. Missing sizes and hashes are asked for file by file.
type listJSON struct {
	SHA      string          `json:"sha"`
	Siblings json.RawMessage `json:"siblings"` // of siblingJSON; read one by one, since a short one makes a long struct
}

type siblingJSON struct {
	Name   string `json:"rfilename"`
	Size   *int64 `json:"size"`
	BlobID string `json:"blobId"`
	LFS    *struct {
		SHA256 string `json:"sha256"`
		OID    string `json:"oid"`
		Size   int64  `json:"size"`
	} `json:"lfs"`
}

// List asks what files a model has. An empty revision is DefaultRevision.
func (c *Client) List(ctx context.Context, repo, revision string) (*Listing, error) {
	if revision == "" {
		revision = DefaultRevision
	}
	if err := errors.Join(checkRepo(repo), checkRevision(revision)); err != nil {
		return nil, err
	}
	u := c.at("api", "models", repo, "revision", url.PathEscape(revision))
	u.RawQuery = "blobs=true"
	var l *Listing
	err := c.persist(ctx, listTries, func() (bool, error) {
		conn, cancel := context.WithCancel(ctx)
		defer cancel()
		a, err := c.ask(conn, http.MethodGet, u, nil, repo)
		if err != nil {
			return false, err
		}
		defer a.Body.Close() // read only
		if a.StatusCode != http.StatusOK {
			return false, a.status(repo + "@" + revision)
		}
		if l, err = readListing(c.patient(a.Body, cancel), repo, revision); ctx.Err() != nil {
			return false, ctx.Err()
		}
		return false, err
	})
	return l, err
}

// readListing reads the hub's answer.
func readListing(r io.Reader, repo, revision string) (*Listing, error) {
	limited := &io.LimitedReader{R: r, N: maxListBytes}
	var j listJSON
	if err := json.NewDecoder(limited).Decode(&j); err != nil {
		if limited.N <= 0 {
			return nil, fmt.Errorf("hub: %s: the list of files has more than %d bytes", repo, maxListBytes)
		}
		var syntax *json.SyntaxError
		var kind *json.UnmarshalTypeError
		if errors.As(err, &syntax) || errors.As(err, &kind) {
			return nil, fmt.Errorf("hub: %s: the list of files is not as a hub writes it: %w", repo, err)
		}
		return nil, passingError{fmt.Errorf("hub: %s: the list of files: %w", repo, err)}
	}
	if !commitPattern.MatchString(j.SHA) {
		return nil, fmt.Errorf("hub: %s: the server says that %.100s is at commit %.100q", repo, revision, j.SHA)
	}
	l := &Listing{Repo: repo, Revision: revision, Commit: j.SHA}
	if err := l.siblings(j.Siblings); err != nil {
		return nil, fmt.Errorf("hub: %s: the list of files: %w", repo, err)
	}
	slices.SortFunc(l.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return l, nil
}

// Select keeps the files that match one of the patterns of include, all if there is none, and none of exclude. Patterns are those of
// Python's fnmatch, as huggingface_hub has them: * matches slashes too.
func (l *Listing) Select(include, exclude []string) error {
	match := func(patterns []string) (func(string) bool, error) {
		var all []*regexp.Regexp
		for _, p := range patterns {
			re, err := glob(p)
			if err != nil {
				return nil, err
			}
			all = append(all, re)
		}
		return func(name string) bool {
			return slices.ContainsFunc(all, func(re *regexp.Regexp) bool { return re.MatchString(name) })
		}, nil
	}
	in, err := match(include)
	if err != nil {
		return err
	}
	out, err := match(exclude)
	if err != nil {
		return err
	}
	l.Files = slices.DeleteFunc(l.Files, func(f File) bool { return len(include) > 0 && !in(f.Name) || out(f.Name) })
	return nil
}

// Bytes is what the files have together; −1 while it is not known.
func (l *Listing) Bytes() int64 {
	n := int64(0)
	for _, f := range l.Files {
		if f.Bytes < 0 {
			return -1
		}
		n += f.Bytes // at most maxFiles times maxFileBytes
	}
	return n
}

// complete asks for the sizes and hashes that the list did not have.
func (c *Client) complete(ctx context.Context, l *Listing) error {
	for i := range l.Files {
		f := &l.Files[i]
		if f.ETag != "" {
			continue
		}
		what := l.Repo + " " + f.Name
		err := c.persist(ctx, transferTries, func() (bool, error) {
			a, err := c.ask(ctx, http.MethodHead, c.fileURL(l, f.Name), nil, what)
			if err != nil {
				return false, err
			}
			a.Body.Close() // of a HEAD there is none
			if a.StatusCode != http.StatusOK && a.own.Get("X-Linked-Etag") == "" {
				return false, a.status(what)
			}
			return false, f.describe(a, what)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// describe takes size and hash from headers: the hub's own before those of whom it redirects to.
func (f *File) describe(a *answer, what string) (err error) {
	etag := a.own.Get("X-Linked-Etag")
	if etag == "" {
		etag = a.own.Get("ETag")
	}
	if f.ETag, err = cleanETag(etag); err != nil {
		return fmt.Errorf("%w (%s)", err, what)
	}
	f.Bytes = -1
	if a.StatusCode == http.StatusOK {
		f.Bytes = a.ContentLength
	}
	if n := a.own.Get("X-Linked-Size"); n != "" {
		if f.Bytes, err = strconv.ParseInt(n, 10, 64); err != nil {
			return fmt.Errorf("hub: %s: the server says it has %.50q bytes", what, n)
		}
	}
	if f.Bytes < 0 || f.Bytes > maxFileBytes {
		return fmt.Errorf("hub: %s: the server says it has %d bytes, want 0 to %d", what, f.Bytes, int64(maxFileBytes))
	}
	return nil
}

// fileURL is where a file's bytes are.
func (c *Client) fileURL(l *Listing, name string) *url.URL {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return c.at(append([]string{l.Repo, "resolve", l.Commit}, parts...)...)
}

// at is an address of the hub. The parts are escaped.
func (c *Client) at(parts ...string) *url.URL {
	u := *c.endpoint
	escaped := u.EscapedPath() + "/" + strings.Join(parts, "/")
	u.Path, _ = url.PathUnescape(escaped) // escaped by PathEscape, or checked
	u.RawPath = escaped
	return &u
}

// siblings reads the list itself.
func (l *Listing) siblings(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.New("there is none")
	}
	seen := map[string]bool{}
	for d.More() {
		var s siblingJSON
		if err := d.Decode(&s); err != nil {
			return err
		}
		if len(l.Files) == maxFiles {
			return fmt.Errorf("it has more than %d", maxFiles)
		}
		if err := checkFile(s.Name); err != nil {
			return err
		}
		if seen[s.Name] {
			return fmt.Errorf("it has %q twice", s.Name)
		}
		seen[s.Name] = true
		f, err := s.file()
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		l.Files = append(l.Files, f)
	}
	return nil
}

// file is what the list says of one.
func (s *siblingJSON) file() (f File, err error) {
	f = File{Name: s.Name, Bytes: -1}
	switch {
	case s.LFS != nil && s.LFS.SHA256 != "":
		f.ETag, f.Bytes = s.LFS.SHA256, s.LFS.Size
	case s.LFS != nil && s.LFS.OID != "":
		f.ETag, f.Bytes = s.LFS.OID, s.LFS.Size
	case s.LFS == nil && s.BlobID != "" && s.Size != nil:
		f.ETag, f.Bytes = s.BlobID, *s.Size
	default:
		return f, nil
	}
	if f.Bytes < 0 || f.Bytes > maxFileBytes {
		return f, fmt.Errorf("it has %d bytes, want 0 to %d", f.Bytes, int64(maxFileBytes))
	}
	f.ETag, err = cleanETag(f.ETag)
	return f, err
}
