// Package hub fetches models from a Hugging Face hub into huggingface_hub's cache, and single files from any server.
//
//	CACHE/models--ORG--NAME/refs/main                    the commit that a branch or tag was at
//	CACHE/models--ORG--NAME/snapshots/COMMIT/FILE ─────▶ a relative link into blobs
//	CACHE/models--ORG--NAME/blobs/ETAG                   the bytes of a file; ETAG.incomplete while they come
//	CACHE/.locks/models--ORG--NAME/ETAG.lock             locked by whoever fetches the blob
//
// The layout is huggingface_hub's, so either program uses what the other has fetched, and this one goes on with what another has begun.
//
// Invariants:
//   - A blob has its name only when it is whole, on the disk, and, where the hub says what its hash is, that is what was hashed.
//   - A reference is written after all that was asked for is there.
//   - What a server says is hostile: names that could leave the snapshot are refused, texts and lists are bounded before they are
//     kept, and no more bytes are taken than the file was said to have.
//   - The token goes to the hub's own scheme, host and port, only over TLS or to this machine, and never again once a redirect has led
//     elsewhere. No error shows it, nor the query of an address, which may be signed.
//   - A transfer that ends early goes on where it stopped (Range); a server that ignores ranges is read from the beginning.
//
// It reads no environment (the caller does), decides not which files are worth having, and does not read models.
//
// Sources: huggingface_hub 1 and 2 (file_download.py, _snapshot_download.py, constants.py); the hub's HTTP API; RFC 9110, sections 13 and 14.
package hub

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Endpoint is the address of the public hub.
const Endpoint = "https://huggingface.co"

// Bounds of what a server may say.
const (
	maxListBytes  = 32 << 20
	maxFiles      = 100_000
	maxRedirects  = 10
	maxURLBytes   = 16 << 10
	maxNameBytes  = 1 << 10
	maxReason     = 300
	maxFileBytes  = 1 << 44
	headerTimeout = 30 * time.Second
)

// How patient a Client is.
const (
	listTries     = 2 // a hub that cannot be reached is best known soon
	transferTries = 6 // without a byte more between them
	usualBackoff  = time.Second
	maxBackoff    = time.Minute
	usualStall    = time.Minute
)

// Options say where from, where to, and who is told.
type Options struct {
	Endpoint  string            // of the hub; it may have a path. Empty for the public one
	Token     string            // for the hub; empty for none
	Cache     string            // directory of huggingface_hub's cache
	Agent     string            // User-Agent
	Transport http.RoundTripper // nil for one with a bound on the wait for headers and no proxy
	Backoff   time.Duration     // before the second try, doubled before each more; 0 for a second
	Stall     time.Duration     // without a byte, after which a connection is given up; 0 for a minute
	Progress  func(Progress)    // called from the goroutine that fetches, for every few KiB; nil for none
	Say       func(line string) // told what is worth a line, such as a wait; nil for none
}

// Progress tells how far a fetch is.
type Progress struct {
	File    string // that is being fetched
	Done    int64  // bytes of all files that are there
	All     int64  // bytes of all files; −1 where the server does not tell
	Fetched int64  // bytes that came over the network by this call
}

// Client fetches. It is for one goroutine.
type Client struct {
	o        Options
	endpoint *url.URL
	wire     http.RoundTripper
}

// New checks the options.
func New(o Options) (*Client, error) {
	if o.Endpoint == "" {
		o.Endpoint = Endpoint
	}
	u, err := parseURL(strings.TrimRight(o.Endpoint, "/"))
	if err != nil {
		return nil, fmt.Errorf("hub: endpoint: %w", err)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("hub: endpoint %s: want a scheme, a host and perhaps a path", shown(u))
	}
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("hub: the token has characters that no token has")
	}
	if o.Token != "" && u.Scheme != "https" && !loopback(u) {
		return nil, fmt.Errorf("hub: endpoint %s: a token is sent over https alone", shown(u))
	}
	if o.Backoff == 0 {
		o.Backoff = usualBackoff
	}
	if o.Stall == 0 {
		o.Stall = usualStall
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	c := &Client{o: o, endpoint: u, wire: o.Transport}
	if c.wire == nil {
		c.wire = NewTransport(nil)
	}
	return c, nil
}

// NewTransport is how a Client reaches servers, through the proxy that a function names, such as http.ProxyFromEnvironment.
func NewTransport(proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy:                  proxy,
		DialContext:            (&net.Dialer{Timeout: headerTimeout, KeepAlive: headerTimeout}).DialContext,
		TLSHandshakeTimeout:    headerTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		IdleConnTimeout:        headerTimeout,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true, // a range is of the bytes as they are
		ForceAttemptHTTP2:      true,
	}
}

// parseURL reads an address that may be asked.
func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURLBytes {
		return nil, fmt.Errorf("an address of %d bytes, want at most %d", len(text), maxURLBytes)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is no address of the web")
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "" {
		return nil, fmt.Errorf("%.200q: want https:// and a host", shown(u))
	}
	return u, nil
}

// shown is an address as people may see it: without a password, a query or a fragment.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// loopback tells whether an address is on this machine.
func loopback(u *url.URL) bool {
	host := u.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// sameOrigin tells whether two addresses have the same scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if p := u.Port(); p != "" {
			return p
		}
		return map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}
