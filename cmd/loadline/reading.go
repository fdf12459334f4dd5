package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"loadline/model/hub"
	"loadline/model/tokenizer"
)

// watchEvery is the time between two looks at what is read.
const watchEvery = 250 * time.Millisecond

// watch shows how much of something is read, in bytes, until stop is called. What takes no longer than a look shows nothing.
func (a *app) watch(what string, read func() (done, all int64)) (stop func()) {
	if a.quiet {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		view := a.newPullView()
		defer view.close()
		look := time.NewTicker(watchEvery)
		defer look.Stop()
		for {
			select {
			case <-end:
				return
			case <-look.C:
				done, all := read()
				view.set(hub.Progress{File: what, Done: done, All: all, Fetched: done})
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// gauge counts what is read through it.
type gauge struct {
	r    io.Reader
	done atomic.Int64
	all  int64
}

// newGauge is a gauge of a file that is to be read to its end.
func newGauge(f *os.File) (*gauge, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &gauge{r: f, all: st.Size()}, nil
}

// Read implements io.Reader.
func (g *gauge) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	g.done.Add(int64(n))
	return n, err
}

// read is how many bytes have been read, and of how many.
func (g *gauge) read() (done, all int64) { return g.done.Load(), g.all }

// learning shows how a tokenizer grows, once its text is read; read ends what shows that. What takes no longer than a look shows nothing.
func (a *app) learning(read func()) (o tokenizer.TrainOptions, stop func()) {
	var bar progress
	var last time.Time
	tokens, readAll := 0, false
	o.Progress = func(done, all int) {
		if !readAll {
			read()
			readAll, last, tokens = true, time.Now(), done
		}
		took := time.Since(last)
		if took < watchEvery || done == tokens {
			return
		}
		if bar == nil {
			bar = a.newProgress("token", int64(all), int64(tokens))
		}
		bar.set(int64(done), took/time.Duration(done-tokens), fmt.Sprintf("%.0f/s", float64(done-tokens)/took.Seconds()), "")
		last, tokens = time.Now(), done
	}
	return o, func() {
		if !readAll {
			read()
		}
		if bar != nil {
			bar.close()
		}
	}
}
