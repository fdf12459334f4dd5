// Command browser holds the explorer's page to its promises in a headless Chromium: it starts `loadline plan --serve`,
// opens the page, moves its controls with the keyboard alone, and checks that the bars move under the line at once,
// that the address brings the same page back, that nothing is asked of any other server, and that the script makes no
// error. It leaves screenshots for people. It is a module of its own, since only `make peers` needs a browser.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func main() {
	loadline := flag.String("loadline", "loadline", "the program to test")
	chromium := flag.String("chromium", "chromium", "the browser")
	out := flag.String("out", ".", "folder for screenshots")
	flag.Parse()
	if err := run(*loadline, *chromium, *out); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// serve starts the explorer and returns its address, and what ends it and waits for its end.
func serve(loadline string) (at string, stop func() error, err error) {
	c := exec.Command(loadline, "plan", "--serve=127.0.0.1:0")
	pipe, err := c.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			return err
		}
		return c.Wait()
	}
	for s := bufio.NewScanner(pipe); s.Scan(); {
		if at, ok := strings.CutPrefix(s.Text(), "explorer: "); ok {
			at, _, _ = strings.Cut(at, "?")
			return at, stop, nil
		}
	}
	return "", nil, errors.Join(errors.New("loadline printed no address"), stop())
}

// page is one tab, and what went wrong in it.
type page struct {
	ctx    context.Context
	at     string // the explorer's address
	out    string
	mu     sync.Mutex
	faults []string
	asked  int // requests
}

func (p *page) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// listen notes errors of the script, what the page's policy stopped among them.
func (p *page) listen() {
	chromedp.ListenTarget(p.ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			p.fault("the script fails: %s", ev.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError {
				p.fault("the console has an error: %s", ev.Args[0].Value)
			}
		}
	})
}

// look is what a reader sees.
type look struct {
	Address, Verdict, Peak string
	Bars                   int
	Heights                []float64 // of the segments of the first bar, in pixels
	Line                   float64   // from the top of the plot
	Top                    float64   // of the first bar's highest segment
	Named                  bool      // every control has a name for assistive technology
	High                   float64   // of the plot
	Wide                   float64   // how much wider the page is than its window
	Asked                  []string  // everything that was fetched
}

const looks = `(() => {
  const plot = document.querySelector('.plot'), top = plot ? plot.getBoundingClientRect().top : 0;
  const segments = plot ? [...document.querySelector('.bar').querySelectorAll('[data-purpose]')].map(e => e.getBoundingClientRect()) : [];
  const controls = [...document.querySelectorAll('input, select, button')];
  return {
    Address: location.search, Verdict: document.querySelector('#verdict').textContent, Peak: document.querySelector('.key .sum td:last-child')?.textContent ?? '',
    Bars: document.querySelectorAll('.bar').length, Heights: segments.map(r => r.height), Line: plot ? document.querySelector('.limit').getBoundingClientRect().top - top : 0,
    Top: Math.min(...segments.filter(r => r.height > 0).map(r => r.top)) - top,
    Named: controls.every(c => c.labels?.length || c.getAttribute('aria-label') || c.textContent.trim()), Wide: document.documentElement.scrollWidth - innerWidth,
    High: plot ? plot.getBoundingClientRect().height : 0,
    Asked: performance.getEntriesByType('resource').map(e => e.name),
  };
})()`

// settled waits until the page has the answer to all that was asked, and its bars rest.
const settled = `new Promise(done => { const look = () => { if (document.getElementById('result').getAttribute('aria-busy') === 'false') setTimeout(done, 250); else setTimeout(look, 10); }; look(); })`

func (p *page) settle() chromedp.Action {
	return chromedp.Evaluate(settled, nil, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) })
}

// see opens a query of the explorer and returns what is there.
func (p *page) see(query string) (look, error) {
	var l look
	err := chromedp.Run(p.ctx, chromedp.Navigate(p.at+query), chromedp.WaitVisible("#verdict h2"), p.settle(), chromedp.Evaluate(looks, &l))
	p.own(l)
	return l, err
}

// own checks that everything came from the explorer.
func (p *page) own(l look) {
	p.asked += len(l.Asked)
	if len(l.Asked) < 4 {
		p.fault("got %d requests, want the style, the script and the two documents: %v", len(l.Asked), l.Asked)
	}
	for _, at := range l.Asked {
		if !strings.HasPrefix(at, p.at) {
			p.fault("the page asks %s", at)
		}
	}
}

// press sends a key to a control, and returns what is there afterwards with the time until the bars had moved.
func (p *page) press(selector, key string) (look, time.Duration, error) {
	var l look
	var before, after float64
	err := chromedp.Run(p.ctx,
		chromedp.Focus(selector),
		chromedp.Evaluate(`window.moved = 0; new MutationObserver(() => { window.moved ||= performance.now(); }).observe(document.querySelector('#verdict'), { childList: true }); performance.now()`, &before),
		chromedp.KeyEvent(key), p.settle(), chromedp.Evaluate("window.moved", &after), chromedp.Evaluate(looks, &l))
	return l, time.Duration((after - before) * float64(time.Millisecond)), err
}

// shoot takes a picture of a query in a window.
func (p *page) shoot(name, query string, wide, high int64, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	var png []byte
	err := chromedp.Run(p.ctx, chromedp.EmulateViewport(wide, high), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Navigate(p.at+query), chromedp.WaitVisible("#verdict h2"), p.settle(), chromedp.CaptureScreenshot(&png))
	if err != nil {
		return err
	}
	var l look
	if err := chromedp.Run(p.ctx, chromedp.Evaluate(looks, &l)); err != nil {
		return err
	}
	p.own(l)
	if l.Bars > 0 && l.High < 150 {
		p.fault("%s: the plot is %g pixels high", name, l.High)
	}
	if l.Wide > 1 {
		p.fault("%s: the page is %g pixels wider than a window of %d", name, l.Wide, wide)
	}
	return os.WriteFile(filepath.Join(p.out, name+".png"), png, 0o644)
}

func run(loadline, chromium, out string) (err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	at, end, err := serve(loadline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WindowSize(1400, 1000),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")) // no network
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	defer stop()
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithErrorf(func(format string, args ...any) {
		if !strings.HasPrefix(format, "could not unmarshal event") { // events of a newer browser, which nothing here listens to
			fmt.Fprintf(os.Stderr, "chromedp: "+format+"\n", args...)
		}
	}))
	defer closeTab()
	p := &page{ctx: ctx, at: at, out: out}
	p.listen()
	if err := chromedp.Run(ctx, runtime.Enable()); err != nil {
		return fmt.Errorf("%s: %w", chromium, err)
	}
	if err := p.check(); err != nil {
		return err
	}
	for _, s := range []struct {
		name, query string
		wide, high  int64
		dark        bool
	}{
		{"train", "?model=Llama-3.1-70B&hardware=4x8xH100&task=train&seq=8192&global-batch=256&framework=megatron&pp=4", 1400, 1250, false},
		{"serve-dark", "?model=Qwen3-32B&hardware=2xRTX-4090&task=serve&context=16384&concurrency=8", 1400, 1250, true},
		{"refused", "?model=Llama-3.1-8B&hardware=8xH100&task=train&tp=3", 1400, 700, false},
		{"phone", "?model=Llama-3.1-8B&hardware=RTX-3060&task=train", 390, 844, false},
	} {
		if err := p.shoot(s.name, s.query, s.wide, s.high, s.dark); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) > 0 {
		return errors.New(strings.Join(p.faults, "\n  "))
	}
	fmt.Printf("explorer: %d requests, none to others; screenshots in %s\n", p.asked, out)
	return nil
}

// check goes through the page as a user does.
func (p *page) check() error {
	first, err := p.see("?model=llama-3.1-8b&hardware=8xH100&task=train&seq=4096&framework=deepspeed&zero=0")
	if err != nil {
		return err
	}
	if first.Bars != 8 || !strings.HasPrefix(first.Verdict, "Does not fit") || first.Top >= first.Line || !first.Named {
		p.fault("ZeRO 0 of 8 B on 80 GiB: got %+v, want eight bars over the line, and every control named", first)
	}
	// ZeRO to stage 3: the arrow keys move along the choice, and the bars sink under the line.
	last := first
	for range 3 {
		next, took, err := p.press(`input[name=zero]:checked`, kb.ArrowRight)
		if err != nil {
			return err
		}
		fmt.Printf("ZeRO one further: bars moved %v after the key; peak %s\n", took.Round(time.Millisecond), next.Peak)
		if next.Address == last.Address || slices.Equal(next.Heights, last.Heights) || took <= 0 || took > time.Second {
			p.fault("one key on ZeRO: %+v became %+v in %v, want another address and other bars within a second", last, next, took)
		}
		last = next
	}
	if !strings.HasPrefix(last.Verdict, "Fits") || last.Top <= last.Line || !strings.Contains(last.Address, "zero=3") {
		p.fault("ZeRO 3: got %+v, want bars under the line", last)
	}
	longer, took, err := p.press("#c-seq", kb.ArrowRight)
	if err != nil {
		return err
	}
	fmt.Printf("sequence one step longer: bars moved %v after the key; peak %s\n", took.Round(time.Millisecond), longer.Peak)
	if !strings.Contains(longer.Address, "seq=8192") || slices.Equal(longer.Heights, last.Heights) {
		p.fault("a longer sequence: %+v became %+v", last, longer)
	}
	again, err := p.see(longer.Address)
	if err != nil {
		return err
	}
	if again.Peak != longer.Peak || again.Address != longer.Address || again.Verdict != longer.Verdict {
		p.fault("the address brings back %+v, want %+v", again, longer)
	}
	// The plans are tabs: arrows choose among them.
	second, _, err := p.press("#plan-0", kb.ArrowRight)
	if err != nil {
		return err
	}
	if second.Peak == again.Peak && second.Verdict == again.Verdict {
		p.fault("the second plan shows what the first does: %+v", second)
	}
	// Everything can be reached by Tab, and what cannot be planned has a button that mends it.
	if _, err := p.see("?model=llama-3.1-8b&hardware=8xH100&task=train&tp=3"); err != nil {
		return err
	}
	var mended look
	var reached int
	if err := chromedp.Run(p.ctx, chromedp.Evaluate(`document.querySelectorAll('#controls :is(input, select):not([tabindex="-1"])').length`, &reached),
		chromedp.Focus("#verdict button"), chromedp.KeyEvent(kb.Enter), p.settle(), chromedp.Evaluate(looks, &mended)); err != nil {
		return err
	}
	if reached < 15 || !strings.Contains(mended.Address, "tp=2") || mended.Bars == 0 {
		p.fault("%d controls; after mending tp=3: %+v", reached, mended)
	}
	return nil
}
