package hub

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// answer is the last answer of a chain of redirects.
type answer struct {
	*http.Response
	own   http.Header // of the answers of the origin that was asked first, the later ones first
	token bool        // the token was sent to it
	what  string
}

// ask sends a question and follows redirects, by hand: who gets the token is decided for each. header may be nil. The caller closes the
// body.
func (c *Client) ask(ctx context.Context, method string, u *url.URL, header http.Header, what string) (*answer, error) {
	a := &answer{own: http.Header{}, what: what}
	first, home := u, c.o.Token != "" && sameOrigin(u, c.endpoint)
	for range maxRedirects {
		q, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
		if err != nil {
			return nil, fmt.Errorf("hub: %s: it is no address of the web", what)
		}
		for k, v := range header {
			q.Header[k] = v
		}
		q.Header.Set("Accept-Encoding", "identity")
		q.Header.Set("User-Agent", c.o.Agent)
		stays := sameOrigin(u, first)
		home = home && stays
		if home {
			q.Header.Set("Authorization", "Bearer "+c.o.Token)
		} else if password, ok := first.User.Password(); ok && stays {
			q.SetBasicAuth(first.User.Username(), password)
		}
		a.Response, err = c.wire.RoundTrip(q)
		if err != nil {
			return nil, wireError(ctx, what, u, err)
		}
		a.token = home
		if stays {
			for k, v := range a.Header {
				a.own[k] = v
			}
		}
		switch a.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return a, nil
		}
		a.Body.Close() // of no interest
		if u, err = next(u, a.Header.Get("Location")); err != nil {
			return nil, fmt.Errorf("hub: %s: the server redirects: %w", what, err)
		}
	}
	return nil, fmt.Errorf("hub: %s: the server redirects more than %d times", what, maxRedirects)
}

// next is where a redirect leads. It never leads from TLS to none.
func next(from *url.URL, location string) (*url.URL, error) {
	if location == "" || len(location) > maxURLBytes {
		return nil, fmt.Errorf("to an address of %d bytes, want 1 to %d", len(location), maxURLBytes)
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, errors.New("to what is no address of the web")
	}
	if to, err = parseURL(to.String()); err != nil {
		return nil, err
	}
	if from.Scheme == "https" && to.Scheme != "https" {
		return nil, fmt.Errorf("to %s, which is not https", shown(to))
	}
	return to, nil
}

// wireError says what happened to a question that has no answer.
func wireError(ctx context.Context, what string, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	plain := fmt.Errorf("hub: %s: %s: %w", what, u.Host, brief{err})
	var name *net.DNSError
	var proof *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &name) && name.IsNotFound || errors.As(err, &proof) || errors.As(err, &unknown) {
		return plain
	}
	return passingError{plain}
}

// brief is an error that may have a stranger's text in it, such as a header that is none.
type brief struct{ error }

func (b brief) Error() string { return short(b.error.Error()) }

func (b brief) Unwrap() error { return b.error }

// status is the error of an answer that is none.
func (a *answer) status(what string) error {
	e := &StatusError{Code: a.StatusCode, What: what, Token: a.token, Reason: short(a.Header.Get("X-Error-Code")), Message: short(a.Header.Get("X-Error-Message"))}
	if e.passing() {
		if s, err := strconv.Atoi(a.Header.Get("Retry-After")); err == nil && s > 0 {
			return &laterError{e, time.Duration(min(s, int(maxBackoff/time.Second))) * time.Second}
		}
	}
	return e
}

// laterError is a status with the server's word on when to ask again.
type laterError struct {
	*StatusError
	wait time.Duration
}

// Unwrap returns the status.
func (e *laterError) Unwrap() error { return e.StatusError }

// short is a stranger's text, cut, with what is not printed left out.
func short(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > maxReason {
		s = string(r[:maxReason]) + "…"
	}
	return s
}

// persist calls f until it is done, fails for good, or has failed so many times in a row in a way that may pass, waiting longer each
// time. f tells whether it got further than ever before.
func (c *Client) persist(ctx context.Context, tries int, f func() (further bool, err error)) error {
	wait := c.o.Backoff
	for failed := 0; ; {
		further, err := f()
		if err == nil || !passes(err) {
			return err
		}
		if further {
			failed, wait = 0, c.o.Backoff
		}
		if failed++; failed >= tries {
			return err
		}
		pause := wait
		var later *laterError
		if errors.As(err, &later) {
			pause = later.wait
		}
		c.o.Say(fmt.Sprintf("%v; trying again", err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		wait = min(2*wait, maxBackoff)
	}
}
