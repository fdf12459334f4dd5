package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"loadline/mem"
	"loadline/model/hub"
)

// pullFlags are pull's.
type pullFlags struct {
	revision         string
	include, exclude []string
	out, sha256      string
}

func (a *app) pullCommand() *cobra.Command {
	var f pullFlags
	c := &cobra.Command{
		Use:   "pull NAME|URL",
		Short: "Fetch a model from the Hugging Face hub, or a file from a server",
		Long: `pull fetches a model into the cache that huggingface_hub uses, and prints the path to give to --model. What is there already,
whoever fetched it, is not fetched again; what was broken off goes on where it stopped. Every file is compared with the hub's hash.

Of a model's files it takes those that loadline reads: safetensors before GGUF, configuration, tokenizer, templates. Where there
are several GGUF files, --include says which. Patterns are those of Python's fnmatch: * matches slashes too.

A URL of anything else is fetched into the directory where you are, or to --out; --sha256 says what its bytes have to be.

The environment is huggingface_hub's: HF_TOKEN (or the token of hf auth login), HF_ENDPOINT, HF_HOME, HF_HUB_CACHE,
HF_HUB_OFFLINE, and HTTPS_PROXY. The token goes to the hub alone.`,
		Example: `  loadline pull HuggingFaceTB/SmolLM2-135M-Instruct
  loadline pull bartowski/SmolLM2-135M-Instruct-GGUF --include '*Q4_K_M*'
  loadline pull Qwen/Qwen2.5-0.5B --revision main --exclude '*.md'
  loadline pull https://example.com/model.gguf --out model.gguf
  loadline generate --model "$(loadline pull HuggingFaceTB/SmolLM2-135M)" --prompt "Once upon a time"`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("loadline pull ORG/NAME", "want one NAME or URL, got %d", len(args))
			}
			return a.pull(args[0], &f)
		},
	}
	g := c.Flags()
	g.SortFlags = false
	g.StringVar(&f.revision, "revision", "", "branch, tag or commit (default: main)")
	g.StringArrayVar(&f.include, "include", nil, "take files that match `PATTERN` alone; may be given more than once")
	g.StringArrayVar(&f.exclude, "exclude", nil, "leave out files that match `PATTERN`; may be given more than once")
	g.StringVar(&f.out, "out", "", "write what a URL names to `FILE`")
	g.StringVar(&f.sha256, "sha256", "", "hash that the bytes of a URL have to have, in hexadecimal `DIGITS`")
	return c
}

// pullDocument is pull's document.
type pullDocument struct {
	Path     string     `json:"path"`     // to give to --model
	Repo     string     `json:"repo"`     // empty for a URL
	Revision string     `json:"revision"` // that was asked for
	Commit   string     `json:"commit"`   // that it is at
	Files    []pullFile `json:"files"`
	Bytes    mem.Bytes  `json:"bytes"`         // of all files
	Fetched  mem.Bytes  `json:"fetched_bytes"` // that came over the network
	Seconds  float64    `json:"seconds"`
}

type pullFile struct {
	Name  string    `json:"name"`
	Bytes mem.Bytes `json:"bytes"`
}

// pull is the verb.
func (a *app) pull(arg string, f *pullFlags) error {
	s, err := readHubEnv(os.Getenv)
	if err != nil {
		return err
	}
	n, err := hub.ParseName(arg, s.endpoint)
	if err != nil {
		return pullError(err, s)
	}
	if err := f.check(&n); err != nil {
		return err
	}
	if s.offline {
		return usage("unset HF_HUB_OFFLINE", "HF_HUB_OFFLINE is set: nothing is fetched")
	}
	view := a.newPullView()
	o := hub.Options{
		Endpoint: s.endpoint, Token: s.token, Cache: s.cache, Agent: "loadline/" + version,
		Transport: hub.NewTransport(http.ProxyFromEnvironment), Progress: view.set, Say: view.say,
	}
	a.interrupts.then("the same command again: it goes on where it stopped")
	ctx, done := a.interruptible("what has come is kept")
	defer done()
	var d *pullDocument
	client, err := hub.New(o)
	if err == nil && n.Repo != "" {
		d, err = pullModel(ctx, client, n, f, view.say)
	} else if err == nil {
		d, err = pullURL(ctx, client, n.URL, f)
	}
	view.close()
	if err != nil {
		return pullError(err, s)
	}
	d.Seconds = a.seconds()
	what := "all of it was there"
	if d.Fetched > 0 {
		what = fmt.Sprintf("%v fetched in %.1f s", d.Fetched, d.Seconds)
	}
	a.say("%s, %v: %s\n", count(len(d.Files), "file"), d.Bytes, what)
	if err := a.log.write("pull", map[string]any{"path": d.Path, "bytes": d.Bytes, "fetched_bytes": d.Fetched, "seconds": d.Seconds}); err != nil {
		return err
	}
	if a.json {
		return a.document(d)
	}
	fmt.Fprintln(a.out, d.Path)
	return nil
}

// check refuses flags that do not go with what is fetched, and takes the revision to where there is none yet.
func (f *pullFlags) check(n *hub.Name) error {
	if n.Repo == "" {
		if f.revision != "" || len(f.include)+len(f.exclude) > 0 {
			return usage("give it with ORG/NAME", "--revision, --include and --exclude are of a model of the hub")
		}
		return nil
	}
	if f.out != "" || f.sha256 != "" {
		return usage("leave it out: models go into the cache, which HF_HUB_CACHE names", "--out and --sha256 are of a URL")
	}
	if n.File != "" && len(f.include)+len(f.exclude) > 0 {
		return usage("give the model's name in its place", "--include and --exclude: the address names one file")
	}
	if f.revision != "" && n.Revision != "" && f.revision != n.Revision {
		return usage("give one of them", "there is revision %s and also --revision %s", n.Revision, f.revision)
	}
	if n.Revision == "" {
		n.Revision = f.revision
	}
	return nil
}

// pullModel fetches a model of the hub.
func pullModel(ctx context.Context, c *hub.Client, n hub.Name, f *pullFlags, say func(line string)) (*pullDocument, error) {
	l, err := c.List(ctx, n.Repo, n.Revision)
	if err != nil {
		return nil, err
	}
	main, err := chooseFiles(l, n, f, say)
	if err != nil {
		return nil, err
	}
	r, err := c.Pull(ctx, l)
	if err != nil {
		return nil, err
	}
	d := &pullDocument{Path: filepath.Join(r.Dir, filepath.FromSlash(main)), Repo: l.Repo, Revision: l.Revision, Commit: l.Commit, Files: []pullFile{}}
	d.Bytes, d.Fetched = mem.Bytes(r.Bytes), mem.Bytes(r.Fetched)
	for _, x := range l.Files {
		d.Files = append(d.Files, pullFile{x.Name, mem.Bytes(x.Bytes)})
	}
	return d, nil
}

// pullURL fetches a file from elsewhere.
func pullURL(ctx context.Context, c *hub.Client, address string, f *pullFlags) (*pullDocument, error) {
	out := f.out
	if out == "" {
		name, err := hub.FileName(address)
		if err != nil {
			return nil, advise(err, "--out FILE")
		}
		out = name
	}
	r, err := c.Fetch(ctx, address, out, f.sha256)
	if err != nil {
		return nil, err
	}
	n := mem.Bytes(r.Bytes)
	return &pullDocument{Path: r.Dir, Files: []pullFile{{filepath.Base(r.Dir), n}}, Bytes: n, Fetched: mem.Bytes(r.Fetched)}, nil
}

// pullError adds what to do to what a hub or a network has done.
func pullError(err error, s hubSettings) error {
	var (
		name   *hub.NameError
		status *hub.StatusError
		sum    *hub.ChecksumError
		space  *hub.SpaceError
		broken *hub.BrokenError
		ours   interface{ Advice() string }
	)
	const again = "the same command again: it goes on where it stopped"
	switch {
	case errors.As(err, &ours):
		return err
	case errors.Is(err, context.Canceled):
		return advise(errors.New("interrupted"), again)
	case errors.As(err, &name):
		return usage("loadline pull ORG/NAME, or https:// and an address", "%v", err)
	case errors.As(err, &status):
		return advise(err, "%s", statusAdvice(status, s))
	case errors.As(err, &sum):
		return advise(err, "the same command again; if that gives the same, what the server has is not what was promised")
	case errors.As(err, &space), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return advise(err, "free some space, or set HF_HUB_CACHE to a directory on another disk; then the same command again")
	case errors.As(err, &broken):
		return advise(err, again)
	case errors.Is(err, hub.ErrExists):
		return advise(err, "give another --out, or remove the file")
	case errors.Is(err, os.ErrPermission), errors.Is(err, os.ErrNotExist):
		return err
	}
	return advise(err, "check the address, the network, HF_ENDPOINT and HTTPS_PROXY")
}

// statusAdvice is what to do about a server's answer.
func statusAdvice(e *hub.StatusError, s hubSettings) string {
	repo, _, _ := strings.Cut(strings.Fields(e.What + " ")[0], "@")
	switch {
	case e.Reason == "GatedRepo" && e.Token:
		return fmt.Sprintf("accept the model's terms at %s/%s with the account of the token", s.endpoint, repo)
	case e.Reason == "GatedRepo":
		return fmt.Sprintf("accept the model's terms at %s/%s, and set HF_TOKEN to a token of that account", s.endpoint, repo)
	case e.Reason == "RevisionNotFound":
		return "check --revision; without it the branch is main"
	case e.Code == http.StatusUnauthorized && e.Token, e.Code == http.StatusForbidden && e.Token:
		return "check the name, and that the token in HF_TOKEN is valid and may read it"
	case e.Code == http.StatusUnauthorized, e.Code == http.StatusForbidden:
		return "check the name; what is private or gated needs a token in HF_TOKEN"
	case e.Code == http.StatusNotFound || e.Code == http.StatusGone:
		return "check the name or the address; what is private needs a token in HF_TOKEN"
	case e.Code == http.StatusTooManyRequests && !e.Token:
		return "wait some minutes, or set HF_TOKEN, for which the hub allows more; then the same command again"
	case e.Code == http.StatusTooManyRequests || e.Code >= 500:
		return "the same command again later: it goes on where it stopped"
	}
	return "check the name or the address"
}
