package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/sys/unix"
)

// progress shows how far a run is.
type progress interface {
	// set tells that step of all is done, how long it took, and texts about the result and about memory.
	set(step int64, took time.Duration, result, memory string)
	// say shows a line.
	say(line string)
	close()
}

// newProgress shows progress on stderr: a bar if it is a terminal, a line now and then if not, and with --quiet nothing.
func (a *app) newProgress(what string, all, done int64) progress {
	if a.quiet {
		return silent{}
	}
	if f, ok := a.err.(*os.File); ok {
		if width := terminal(f); width > 0 {
			return newBar(f, width, what, all, done)
		}
	}
	return &lines{w: a.err, what: what, all: all, last: time.Now()}
}

// say shows people's text that is about progress.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.err, format, args...)
	}
}

// terminal returns how wide the terminal is that f is; 0 means that there is no room for a bar, or that f is none.
func terminal(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 {
		return 0
	}
	return int(size.Col)
}

type silent struct{}

func (silent) set(int64, time.Duration, string, string) {}
func (silent) say(string)                               {}
func (silent) close()                                   {}

// lineEvery is the time between two lines where there is no bar.
const lineEvery = 2 * time.Second

// lines prints a line now and then.
type lines struct {
	w    io.Writer
	what string
	all  int64
	last time.Time
	eta  average
}

func (l *lines) set(step int64, took time.Duration, result, memory string) {
	l.eta.add(took)
	if time.Since(l.last) < lineEvery && step < l.all {
		return
	}
	l.last = time.Now()
	text := fmt.Sprintf("%s %d/%d  %s  ETA %v  %s", l.what, step, l.all, result, l.eta.left(l.all-step), memory)
	fmt.Fprintln(l.w, strings.TrimRight(text, " ")) // what measures no model has no memory to tell of
}

func (l *lines) say(line string) { fmt.Fprintln(l.w, line) }
func (l *lines) close()          {}

// average estimates the time of a step from the last ones.
type average struct{ seconds float64 }

func (a *average) add(d time.Duration) {
	if a.seconds == 0 {
		a.seconds = d.Seconds()
	}
	a.seconds += (d.Seconds() - a.seconds) / 10
}

// left is the time that n steps take, in whole seconds.
func (a *average) left(n int64) time.Duration {
	return time.Duration(a.seconds * float64(n) * float64(time.Second)).Round(time.Second)
}

// bar is a bar on a terminal.
type bar struct {
	p     *mpb.Progress
	b     *mpb.Bar
	all   int64
	eta   average
	short *strings.Replacer // nil where there is room
	text  atomic.Pointer[string]
}

// roomy is the width of a terminal from which on the text beside a bar need not be cut short.
const roomy = 110

func newBar(f *os.File, width int, what string, all, done int64) *bar {
	b := &bar{all: all}
	if width < roomy {
		b.short = strings.NewReplacer("memory ", "", "tokens/s", "tok/s", "  ", " ", " / ", "/")
	}
	empty := ""
	b.text.Store(&empty)
	b.p = mpb.New(mpb.WithOutput(f), mpb.WithWidth(40), mpb.WithRefreshRate(200*time.Millisecond), mpb.WithAutoRefresh())
	b.b = b.p.AddBar(all,
		mpb.PrependDecorators(decor.Name(what+" "), decor.CountersNoUnit("%d/%d")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return *b.text.Load() })))
	b.b.SetCurrent(done)
	return b
}

func (b *bar) set(step int64, took time.Duration, result, memory string) {
	b.eta.add(took)
	text := fmt.Sprintf("  %s  ETA %v  %s", result, b.eta.left(b.all-step), memory)
	if b.short != nil {
		text = b.short.Replace(text)
	}
	b.text.Store(&text)
	b.b.SetCurrent(step)
}

func (b *bar) say(line string) { fmt.Fprintln(b.p, line) }

func (b *bar) close() {
	b.b.Abort(false) // of a bar that is complete it does nothing
	b.p.Wait()
}
