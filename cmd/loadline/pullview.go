package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"loadline/mem"
	"loadline/model/hub"
)

// pullView shows how far a transfer is: how much of all is there, the rate, and when it will be done.
type pullView struct {
	rate rate
	w    io.Writer // of lines; nil for none
	f    *os.File  // the terminal, if it is one
	last time.Time // that one was printed
	bar  *mpb.Bar  // nil where there is no terminal
	p    *mpb.Progress
	text atomic.Pointer[string]
}

// newPullView shows a bar if stderr is a terminal, a line now and then if not, and with --quiet nothing.
func (a *app) newPullView() *pullView {
	v := &pullView{}
	if a.quiet {
		return v
	}
	v.w, v.last = a.err, time.Now()
	if f, ok := a.err.(*os.File); ok && terminal(f) > 0 {
		v.f = f
	}
	return v
}

// begin shows the bar.
func (v *pullView) begin() {
	empty := ""
	v.text.Store(&empty)
	v.p = mpb.New(mpb.WithOutput(v.f), mpb.WithWidth(30), mpb.WithRefreshRate(200*time.Millisecond), mpb.WithAutoRefresh())
	v.bar = v.p.AddBar(0, mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return *v.text.Load() })))
}

// say shows a line.
func (v *pullView) say(line string) {
	if v.p != nil {
		fmt.Fprintln(v.p, plain(line))
	} else if v.w != nil {
		fmt.Fprintln(v.w, plain(line))
	}
}

// set shows where the transfer is.
func (v *pullView) set(p hub.Progress) {
	now := time.Now()
	v.rate.add(p.Fetched, now)
	if v.f != nil && v.bar == nil {
		v.begin()
	}
	switch {
	case v.bar != nil:
		text := "  " + plain(pullText(p, v.rate.perSecond))
		v.text.Store(&text)
		if p.All >= 0 {
			v.bar.SetTotal(p.All, false)
		}
		v.bar.SetCurrent(p.Done)
	case v.w != nil && now.Sub(v.last) >= lineEvery:
		v.last = now
		fmt.Fprintf(v.w, "%s\n", plain(pullText(p, v.rate.perSecond)))
	}
}

// close ends the bar.
func (v *pullView) close() {
	if v.bar != nil {
		v.bar.Abort(false)
		v.p.Wait()
	}
}

// pullText is one line about a transfer.
func pullText(p hub.Progress, perSecond float64) string {
	s := fmt.Sprintf("%s  %v", p.File, mem.Bytes(p.Done))
	if p.All >= 0 {
		s += fmt.Sprintf(" / %v", mem.Bytes(p.All))
	}
	if perSecond > 0 {
		s += fmt.Sprintf("  %v/s", mem.Bytes(perSecond))
		if p.All >= 0 {
			s += fmt.Sprintf("  ETA %v", time.Duration(float64(p.All-p.Done)/perSecond*float64(time.Second)).Round(time.Second))
		}
	}
	return s
}

// rate estimates bytes a second over the last seconds.
type rate struct {
	perSecond float64
	at        time.Time
	bytes     int64
}

// add takes how many bytes there have been in all, at a time.
func (r *rate) add(bytes int64, now time.Time) {
	if r.at.IsZero() {
		r.at, r.bytes = now, bytes
		return
	}
	dt := now.Sub(r.at).Seconds()
	if dt < 0.5 {
		return
	}
	got := float64(bytes-r.bytes) / dt
	if r.perSecond == 0 {
		r.perSecond = got
	}
	weight := min(1, dt/3)
	r.perSecond += weight * (got - r.perSecond)
	r.at, r.bytes = now, bytes
}
