// Command loadline trains and serves transformer language models inside a memory limit, with every byte planned before it runs.
//
// This package is the command line: flags, files, text for people, documents for scripts, exit codes, and the processes of
// a run with several ranks. There is one file per verb. What a verb does is done by the packages it joins: train and serve
// plan and run, model and tokenizer read and write.
//
// Invariants:
//   - With --json exactly one document goes to stdout, at the end, whether the verb succeeds or not; everything else goes to stderr.
//   - Nothing stays on the disk before the plan is known to fit but the events of --events. What a verb will write is tried before its work.
//   - A verb that runs programs plans first, then gives the heap of planning back, then holds the Go runtime to what the plan
//     gives it; see settle.
//   - Every error is one line about what went wrong and one about what to do. Exit codes: 0 done, 1 failed, 2 usage, 3 does not fit.
//
// It computes nothing itself and decides nothing about memory.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// app is one invocation.
type app struct {
	in       io.Reader
	out, err io.Writer // stdout and stderr
	began    time.Time

	// Of the flags that every verb has.
	json    bool
	events  string
	threads int
	seed    uint64
	quiet   bool
	config  string

	log        *eventLog
	interrupts interrupts
	unparsed   bool   // the command line could not be read to its end
	small      string // what to tell about sizes where something does not fit; see smallSizes

	printing sync.Mutex // held while the document is printed
	printed  bool       // it is out
}

// run is main without the process: it returns the exit code.
func run(args []string, in io.Reader, out, err io.Writer) (code int) {
	stdout := &checked{w: out}
	a := &app{in: in, out: stdout, err: err, began: time.Now(), interrupts: interrupts{again: "the same command again"}}
	defer a.recover(&code)
	if seat := os.Getenv(seatVar); seat != "" {
		return a.serveRank(seat)
	}
	if order := os.Getenv(probeVar); order != "" {
		return a.serveProbe(order)
	}
	defer a.watchSignals()()
	root := a.rootCommand()
	root.SetArgs(args)
	failure := root.Execute()
	if failure != nil {
		a.json = a.json || a.unparsed && asksForJSON(args)
		failure = a.fail(failure)
	}
	if e := a.log.end(a.seconds()); e != nil && failure == nil {
		failure = a.fail(e)
	}
	if e := a.log.Close(); e != nil && failure == nil {
		failure = a.fail(e)
	}
	if stdout.failed != nil && failure == nil {
		failure = a.fail(stdout.failed)
	}
	return exitCode(failure)
}

// recover makes a fault of the program an error like any other, with the stack for whoever reports it.
func (a *app) recover(code *int) {
	if fault := recover(); fault != nil {
		fmt.Fprintf(a.err, "%s\n", debug.Stack())
		*code = exitCode(a.fail(advise(fmt.Errorf("fault of loadline: %v", fault), "please report it with the command line and the lines above")))
	}
}

// asksForJSON tells whether --json is on a command line that was not read to it.
func asksForJSON(args []string) bool {
	for _, x := range args {
		switch x {
		case "--json", "--json=true", "--json=1", "--json=t":
			return true
		case "--":
			return false
		}
	}
	return false
}

// text is where people's text goes: stdout, unless a document goes there.
func (a *app) text() io.Writer {
	if a.json {
		return a.err
	}
	return a.out
}

// seconds is how long this invocation has run.
func (a *app) seconds() float64 { return time.Since(a.began).Seconds() }
