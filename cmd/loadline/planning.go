package main

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"loadline/train"
)

// planningPatience is how long planning is silent. Where there is no terminal, each line after the first comes when twice the time has passed.
const planningPatience = time.Second

// planRun plans the run and finds its least memory, and shows that.
func (a *app) planRun(r *trainRun) (*train.Job, []train.Least, error) {
	defer a.planning(&r.Options)()
	job, err := r.plan()
	if err != nil {
		return nil, nil, err
	}
	least, err := job.Least()
	return job, least, err
}

// planning shows, from planningPatience on, what is planned with o, until done is called.
func (a *app) planning(o *train.Options) (done func()) {
	told, end := a.busy("planning")
	o.Planning = told
	return func() {
		o.Planning = nil
		end()
	}
}

// busy shows, on stderr and from planningPatience on, work whose end nobody can tell, and what of it is under way, as told. Nothing else may be written there until
// done is called, which may be called again.
func (a *app) busy(work string) (told func(what string), done func()) {
	if a.quiet {
		return func(string) {}, func() {}
	}
	var now atomic.Pointer[string]
	told = func(what string) { now.Store(&what) }
	begin := time.Now()
	text := func() string {
		s := work
		if what := now.Load(); what != nil {
			s += " " + *what
		}
		return fmt.Sprintf("%s: %v", s, time.Since(begin).Round(time.Second))
	}
	stop := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		next := time.NewTimer(planningPatience)
		defer next.Stop()
		select {
		case <-stop:
			return
		case <-next.C:
		}
		if f, ok := a.err.(*os.File); ok && terminal(f) > 0 {
			spin(f, text, stop)
			return
		}
		for wait := planningPatience; ; wait *= 2 {
			fmt.Fprintln(a.err, text())
			next.Reset(wait)
			select {
			case <-stop:
				return
			case <-next.C:
			}
		}
	})
	return told, sync.OnceFunc(func() {
		close(stop)
		ended.Wait()
	})
}

// spin shows text on a terminal until stop is closed, and then takes it away.
func spin(f *os.File, text func() string, stop <-chan struct{}) {
	p := mpb.New(mpb.WithOutput(f), mpb.WithRefreshRate(200*time.Millisecond), mpb.WithAutoRefresh())
	b := p.New(0, mpb.SpinnerStyle().PositionLeft(), mpb.BarWidth(1), mpb.BarRemoveOnComplete(),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return text() })))
	<-stop
	b.Abort(true)
	p.Wait()
}
