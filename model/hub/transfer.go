package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// pieceBytes is how much is read from a server, or of what came before, at a time.
const pieceBytes = 64 << 10

// The kinds of hashes.
const (
	kindNone   = ""
	kindSHA256 = "sha256"
	kindGit    = "git's hash"
)

// target is a file that is to be fetched.
type target struct {
	what  string // for people
	url   *url.URL
	bytes int64  // −1 while it is not known
	kind  string // of want
	want  string
	match string // an entity tag for If-Range; empty for none
}

// hashKind is what an entity tag of a hub is: its length tells.
func hashKind(etag string) string {
	if _, err := hex.DecodeString(etag); err == nil && strings.ToLower(etag) == etag {
		switch len(etag) {
		case 2 * sha256.Size:
			return kindSHA256
		case 2 * sha1.Size:
			return kindGit
		}
	}
	return kindNone
}

// partial is what has come of a target.
type partial struct {
	f    *os.File
	sum  hash.Hash
	have int64
	best int64 // the most it has been
	old  bool  // some of it came in an earlier transfer
	came int64 // bytes over the network
	t    *target
}

// newPartial goes on with what is in f.
func newPartial(ctx context.Context, f *os.File, t *target) (*partial, error) {
	p := &partial{f: f, t: t}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := p.reset(); err != nil || st.Size() == 0 {
		return p, err
	}
	n := st.Size()
	if t.bytes >= 0 && n > t.bytes {
		return p, p.truncate()
	}
	buf := make([]byte, pieceBytes)
	for p.have < n {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		k, err := f.Read(buf[:min(n-p.have, pieceBytes)])
		p.sum.Write(buf[:k]) // never fails
		p.have += int64(k)
		if err != nil {
			return nil, err
		}
	}
	p.best, p.old = p.have, true
	return p, nil
}

// reset begins to hash anew.
func (p *partial) reset() error {
	switch p.t.kind {
	case kindGit:
		p.sum = sha1.New()
		fmt.Fprintf(p.sum, "blob %d\x00", p.t.bytes)
	default:
		p.sum = sha256.New()
	}
	p.have, p.old = 0, false
	_, err := p.f.Seek(0, io.SeekStart)
	return err
}

// truncate forgets what has come.
func (p *partial) truncate() error {
	if err := p.f.Truncate(0); err != nil {
		return err
	}
	return p.reset()
}

// Write appends to the file and to what is hashed.
func (p *partial) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	p.sum.Write(b[:n]) // never fails
	p.have += int64(n)
	p.came += int64(n)
	return n, err
}

// check compares hashes, where there is one to compare with.
func (p *partial) check() error {
	if got := hex.EncodeToString(p.sum.Sum(nil)); p.t.kind != kindNone && got != p.t.want {
		return &ChecksumError{What: p.t.what, Kind: p.t.kind, Want: p.t.want, Got: got}
	}
	return nil
}

// transfer fetches what is missing of a target. If that and what was there before do not give the right hash, all of it is fetched once
// more; a file with a wrong hash is left empty.
func (c *Client) transfer(ctx context.Context, p *partial, tell func()) error {
	for again := false; ; again = true {
		old := p.old
		if p.t.bytes < 0 || p.have < p.t.bytes {
			err := c.persist(ctx, transferTries, func() (bool, error) {
				err := c.attempt(ctx, p, tell)
				further := p.have > p.best
				p.best = max(p.best, p.have)
				p.old = p.have > 0
				old = old || p.old && err != nil
				return further, err
			})
			if passes(err) {
				var s *StatusError
				if errors.As(err, &s) {
					return err
				}
				return &BrokenError{What: p.t.what, Have: p.have, All: p.t.bytes, Err: cause(err)}
			}
			if err != nil {
				return err
			}
		}
		err := p.check()
		if err == nil {
			return nil
		}
		if e := p.truncate(); e != nil {
			return errors.Join(err, e)
		}
		if !old || again {
			return err
		}
		c.o.Say(fmt.Sprintf("%v: what was there before is of another file; beginning anew", err))
		p.best = 0
	}
}

// cause is an error without the words in front that say what it is about.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.HasPrefix(err.Error(), "hub: ") {
			return err
		}
		err = inner
	}
}

// attempt is one connection.
func (c *Client) attempt(ctx context.Context, p *partial, tell func()) error {
	t := p.t
	header := http.Header{}
	if p.have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", p.have))
		if t.match != "" {
			header.Set("If-Range", t.match)
		}
	}
	conn, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := c.ask(conn, http.MethodGet, t.url, header, t.what)
	if err != nil {
		return err
	}
	defer a.Body.Close() // read only
	if e := a.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return fmt.Errorf("hub: %s: the server compresses it (%.50q) though asked not to", t.what, e)
	}
	all := a.ContentLength
	switch a.StatusCode {
	case http.StatusOK:
		if p.have > 0 { // the server takes no ranges, or has another file by now
			if err := p.truncate(); err != nil {
				return err
			}
		}
		if e := a.Header.Get("ETag"); t.match != "" && e != "" && !strings.HasPrefix(e, "W/") {
			t.match = e
		}
	case http.StatusPartialContent:
		if e := a.Header.Get("ETag"); t.match != "" && e != "" && e != t.match { // it does not know If-Range
			if err := p.truncate(); err != nil {
				return err
			}
			return passingError{fmt.Errorf("hub: %s: the server has another version by now", t.what)}
		}
		from, total, err := contentRange(a.Header.Get("Content-Range"))
		if err != nil || from != p.have {
			return fmt.Errorf("hub: %s: the server sends the range %.100q, want one from %d on", t.what, a.Header.Get("Content-Range"), p.have)
		}
		all = total
	case http.StatusRequestedRangeNotSatisfiable:
		if err := p.truncate(); err != nil {
			return err
		}
		return passingError{fmt.Errorf("hub: %s: the server has not as many bytes as came before", t.what)}
	default:
		return a.status(t.what)
	}
	switch {
	case all > maxFileBytes:
		return fmt.Errorf("hub: %s: the server says it has %d bytes, want at most %d", t.what, all, int64(maxFileBytes))
	case t.bytes < 0 && all >= 0:
		t.bytes = all
	case all >= 0 && all != t.bytes:
		return fmt.Errorf("hub: %s: the server says it has %d bytes, want %d", t.what, all, t.bytes)
	}
	if err := c.receive(cancel, p, a.Body, tell); ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// receive reads a body to its end, which has to be where the file's is. A connection over which nothing comes for long is ended.
func (c *Client) receive(cancel func(), p *partial, body io.Reader, tell func()) error {
	t := p.t
	slow := c.patient(body, cancel)
	limit := t.bytes
	if limit < 0 {
		limit = maxFileBytes
	}
	buf := make([]byte, pieceBytes)
	for {
		n, err := slow.Read(buf)
		if int64(n) > limit-p.have {
			return errors.Join(fmt.Errorf("hub: %s: the server sends more than %d bytes", t.what, limit), p.truncate())
		}
		if n > 0 {
			if _, err := p.Write(buf[:n]); err != nil {
				return fmt.Errorf("hub: %s: %w", t.what, err)
			}
			tell()
		}
		switch {
		case err == io.EOF && (t.bytes < 0 || p.have == t.bytes):
			t.bytes = p.have
			return nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		case err == nil:
			continue
		}
		return passingError{fmt.Errorf("hub: %s: broke off after %d bytes: %w", t.what, p.have, err)}
	}
}

// patient is the body of an answer that fails when nothing comes for long.
type patient struct {
	body  io.Reader
	stall time.Duration
	timer *time.Timer // ends the connection; it runs during a Read alone
}

// patient makes one; cancel ends the connection.
func (c *Client) patient(body io.Reader, cancel func()) *patient {
	p := &patient{body, c.o.Stall, time.AfterFunc(c.o.Stall, cancel)}
	p.timer.Stop()
	return p
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	p.timer.Reset(p.stall)
	n, err := p.body.Read(b)
	if !p.timer.Stop() { // it went off
		err = fmt.Errorf("nothing came for %v", p.stall)
	}
	return n, err
}

// contentRange reads "bytes FROM-TO/ALL"; all is −1 where it is *.
func contentRange(text string) (from, all int64, err error) {
	bad := errors.New("not a range of bytes")
	text, ok := strings.CutPrefix(text, "bytes ")
	span, total, ok2 := strings.Cut(text, "/")
	first, _, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, bad
	}
	if from, err = strconv.ParseInt(first, 10, 64); err != nil {
		return 0, 0, bad
	}
	if total == "*" {
		return from, -1, nil
	}
	if all, err = strconv.ParseInt(total, 10, 64); err != nil || all < from {
		return 0, 0, bad
	}
	return from, all, nil
}
