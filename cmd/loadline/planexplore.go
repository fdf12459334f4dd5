package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"loadline/web"
)

// exploreAddress is where the explorer listens unless it is told otherwise.
const exploreAddress = "127.0.0.1:8420"

// The explorer's patience, and how many searches run at a time: they compute, so that more would only wait for each other.
const (
	exploreHeaderSeconds = 5 * time.Second
	exploreSeconds       = time.Minute
	exploreStopSeconds   = 3 * time.Second
	exploreSearches      = 2
	maxExploreHeader     = 16 << 10
)

// exploreFlags are the flags of plan --serve.
type exploreFlags struct{ serve string }

func (x *exploreFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&x.serve, "serve", "", "open the explorer, a page on `ADDR`, a port or host:port; "+exploreAddress+" where none is given")
	f.Lookup("serve").NoOptDefVal = exploreAddress
}

// args refuses more than a model, or with --serve an address too, which it sets and leaves out.
func (x *exploreFlags) args(args []string) ([]string, error) {
	if x.serve != "" {
		if i := slices.IndexFunc(args, isAddress); i >= 0 {
			x.serve = args[i]
			args = slices.Delete(slices.Clone(args), i, i+1)
		}
	}
	return args, atMostOne(nil, args)
}

// isAddress tells whether an argument is an address rather than a model.
func isAddress(text string) bool {
	if exists(text) {
		return false
	}
	port := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		port = text[i+1:]
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

// listenAddress completes an address: without a host it is this machine's alone.
func listenAddress(text string) (string, error) {
	if _, err := strconv.ParseUint(text, 10, 16); err == nil {
		text = ":" + text
	}
	host, port, err := net.SplitHostPort(text)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return "", usage("--serve="+exploreAddress, "--serve %s: want a port or host:port", text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// hostCheck tells which Host headers are meant for this server. Another site's name that was made to point here, as in DNS rebinding, is
// none: a name has to be localhost or the one that was given, and on a loopback address the others are loopback too.
func hostCheck(listen string) func(host string) bool {
	own, _, _ := net.SplitHostPort(listen)
	ip := net.ParseIP(own)
	loopback := strings.EqualFold(own, "localhost") || ip != nil && ip.IsLoopback()
	return func(host string) bool {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		if strings.EqualFold(host, "localhost") || strings.EqualFold(host, own) {
			return true
		}
		at := net.ParseIP(host)
		return at != nil && (at.IsLoopback() || !loopback)
	}
}

// exploreDocument is the document of plan --serve, when it ends.
type exploreDocument struct {
	Address  string  `json:"address"`
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"seconds"`
}

// explore serves the explorer until an interrupt.
func (a *app) explore(c *cobra.Command, x *exploreFlags, e *explorer) error {
	for _, name := range typed(c) {
		if name != "serve" && name != "hardware-file" && name != "profile" && name != "preset" && !slices.Contains(explored, name) {
			return usage("leave it out, or --serve", "--%s says nothing to the explorer", name)
		}
	}
	address, err := listenAddress(x.serve)
	if err != nil {
		return err
	}
	handler, err := e.handler(hostCheck(address))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return advise(fmt.Errorf("--serve: %w", err), "name another port, such as --serve=127.0.0.1:0 for any that is free")
	}
	at := "http://" + l.Addr().String() + "/"
	if q := e.query(c); q != "" {
		at += "?" + q
	}
	ctx, stop := a.interruptible("the explorer closes")
	defer stop()
	begin := time.Now()
	fmt.Fprintf(a.text(), "explorer: %s\n", at)
	if ip := net.ParseIP(hostOf(address)); ip == nil || !ip.IsLoopback() {
		if !strings.EqualFold(hostOf(address), "localhost") {
			fmt.Fprintln(a.text(), "other machines can reach it: it answers everybody, and has no password")
		}
	}
	if err := a.log.write("serve", map[string]any{"address": at}); err != nil {
		return err
	}
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: exploreHeaderSeconds, ReadTimeout: exploreSeconds, WriteTimeout: exploreSeconds, IdleTimeout: exploreSeconds, MaxHeaderBytes: maxExploreHeader,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		soon, cancel := context.WithTimeout(context.Background(), exploreStopSeconds)
		defer cancel()
		if err = s.Shutdown(soon); errors.Is(err, context.DeadlineExceeded) { // somebody holds on to a connection
			err = s.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("--serve: %w", err)
	}
	return a.listed(&exploreDocument{at, e.requests.Load(), time.Since(begin).Seconds()})
}

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// explorer answers the page's questions.
type explorer struct {
	planSources
	requests  atomic.Int64
	searching chan struct{} // as many as may search
}

// types are the media types of the page's files, by what follows the last dot.
var types = map[string]string{"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}

// handler is everything that the explorer serves: the page's files, read once, and its two documents.
func (e *explorer) handler(ours func(host string) bool) (http.Handler, error) {
	e.searching = make(chan struct{}, exploreSearches)
	page, err := web.Page()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	entries, err := fs.ReadDir(page, ".")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		body, err := fs.ReadFile(page, entry.Name())
		if err != nil {
			return nil, err
		}
		path := "/" + entry.Name()
		if entry.Name() == "index.html" {
			path = "/{$}"
		}
		kind := types[entry.Name()[strings.LastIndexByte(entry.Name(), '.')+1:]]
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "no-cache")
			_, _ = w.Write(body) // who hangs up needs no answer
		})
	}
	mux.HandleFunc("GET /choices", func(w http.ResponseWriter, r *http.Request) {
		values, err := readQuery(r.URL.RawQuery)
		if err != nil {
			refuse(w, err)
			return
		}
		writeJSON(w, http.StatusOK, e.choices(values["model"], values["hardware"]))
	})
	mux.HandleFunc("GET /plan", e.servePlan)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !ours(r.Host) {
			writeJSON(w, http.StatusMisdirectedRequest, map[string]any{"error": "this server is not " + strconv.Quote(r.Host), "try": "open the address that loadline plan --serve printed"})
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// servePlan answers one question.
func (e *explorer) servePlan(w http.ResponseWriter, r *http.Request) {
	select {
	case e.searching <- struct{}{}:
		defer func() { <-e.searching }()
	case <-r.Context().Done():
		return
	}
	values, err := readQuery(r.URL.RawQuery)
	var d *exploredDocument
	if err == nil {
		d, err = e.answer(values)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	writeJSON(w, http.StatusOK, d)
}

// refuse answers with what went wrong and what to do.
func refuse(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if exitCode(err) == codeUsage {
		code = http.StatusBadRequest
	}
	writeJSON(w, code, map[string]any{"error": oneLine(words(err)), "try": oneLine(advice(err))})
}
