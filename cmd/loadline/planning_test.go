package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadline/train"
)

// Planning says nothing for a second, then what is planned, ever more rarely, and nothing after its end or with --quiet.
func TestPlanningShown(t *testing.T) {
	for _, c := range []struct {
		quiet bool
		took  time.Duration
		want  string
	}{
		{false, 900 * time.Millisecond, ""},
		{false, 5500 * time.Millisecond, "planning: 1s\nplanning step: 2s\nplanning save: 4s\n"},
		{true, time.Hour, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var err bytes.Buffer
			a := &app{err: &err, quiet: c.quiet}
			o := &train.Options{}
			done := a.planning(o)
			begin := time.Now()
			for _, p := range []struct {
				name string
				at   time.Duration
			}{{"step", 1500 * time.Millisecond}, {"eval", 2500 * time.Millisecond}, {"save", 3500 * time.Millisecond}, {"", c.took}} {
				if left := min(p.at, c.took) - time.Since(begin); left > 0 {
					time.Sleep(left) // of a clock that the test owns
				}
				if p.at < c.took && p.name != "" {
					o.Planning(p.name)
				}
			}
			told := o.Planning
			done()
			done()
			told("late")
			time.Sleep(time.Hour)
			if got := err.String(); got != c.want {
				t.Errorf("quiet %v, %v: got %q, want %q", c.quiet, c.took, got, c.want)
			}
			if o.Planning != nil {
				t.Error("options are told of when all is done")
			}
		})
	}
}

// What ranks say comes whole, and after what is shown until they begin.
func TestRankErrors(t *testing.T) {
	var text bytes.Buffer
	a := &app{err: &text}
	_, done := a.busy("starting ranks")
	ended := 0
	w := a.rankErrors(sync.OnceFunc(func() {
		done()
		text.WriteString("(ended)\n")
		ended++
	}))
	var ranks sync.WaitGroup
	for rank := range 3 {
		ranks.Go(func() {
			for range 10 {
				fmt.Fprintf(w, "rank %d\n", rank)
			}
		})
	}
	ranks.Wait()
	if got := text.String(); ended != 1 || !strings.HasPrefix(got, "(ended)\nrank ") || len(got) != len("(ended)\n")+30*len("rank 0\n") {
		t.Errorf("ended %d times: got %q", ended, got)
	}
	if f, ok := (&app{err: os.Stderr}).rankErrors(nil).(*os.File); terminal(os.Stderr) == 0 && (!ok || f != os.Stderr) {
		t.Error("a file is not the ranks' own")
	}
}
