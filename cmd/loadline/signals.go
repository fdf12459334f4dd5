package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// interrupts is what SIGINT and SIGTERM do. Where a verb has asked for it, by interruptible, the first one ends a context, so that the
// verb can finish what it is about; any other ends the process, with the error and the document that every error has.
type interrupts struct {
	mu     sync.Mutex
	again  string // what to do after the process was ended
	cancel func() // of the context; nil if nobody asked for one, and after the first
	word   string // to the user, at the first
	told   bool   // the first has come
}

// watchSignals begins to handle signals. The caller stops it.
func (a *app) watchSignals() (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, unix.SIGTERM)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-signals:
				a.interrupt()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// interrupt handles one signal.
func (a *app) interrupt() {
	x := &a.interrupts
	x.mu.Lock()
	cancel, twice, again := x.cancel, x.told, x.again
	x.cancel, x.told = nil, true
	x.mu.Unlock()
	if cancel != nil {
		fmt.Fprintln(a.err, "interrupted: "+x.word)
		cancel()
		return
	}
	what := "interrupted"
	if twice {
		what = "interrupted twice: stopped at once"
	}
	a.printing.Lock() // for good: whoever prints a document now is too late
	os.Exit(exitCode(a.failHeld(advise(errors.New(what), "%s", again))))
}

// then sets what to do after the process was ended.
func (x *interrupts) then(again string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.again = again
}

// interruptible returns a context that the first SIGINT or SIGTERM ends, with a word to the user; the second ends the process.
func (a *app) interruptible(word string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &a.interrupts
	x.mu.Lock()
	x.cancel, x.word = cancel, word
	x.mu.Unlock()
	return ctx, func() {
		x.mu.Lock()
		x.cancel = nil
		x.mu.Unlock()
		cancel()
	}
}
