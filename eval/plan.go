package eval

import (
	"fmt"
	"sort"
	"strings"

	"loadline/compile"
	"loadline/device"
	"loadline/graph"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/model"
)

// Names of a runner's programs.
const (
	loadProgram = "load"
	passProgram = "pass"
)

// Job is a runner before it has memory.
type Job struct {
	*compile.Job
	Options Options   // with defaults filled in
	Promise *mem.Plan // of everything that New reserves
}

// Plan builds the job of a runner on dev. What the memory limit does not hold is refused with a *DoesNotFitError.
func Plan(o Options, dev device.Device) (*Job, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	j, err := build(o.filled(), dev)
	if err != nil {
		return nil, err
	}
	if !j.fits() {
		return nil, doesNotFit(j, dev)
	}
	return j, nil
}

// build compiles the job of o, whether it fits or not.
func build(o Options, dev device.Device) (*Job, error) {
	g, err := model.PassGraph(o.Config, o.pass())
	if err != nil {
		return nil, err
	}
	c := compile.Options{Machine: o.Machine}
	pass, err := compile.Step(g, c)
	if err != nil {
		return nil, err
	}
	load, err := compile.Step(model.RestoreGraph(loadProgram, model.StoredStates(g)...), c)
	if err != nil {
		return nil, err
	}
	fixed := o.buffers().parts()
	fixed.Add(mem.Host, mem.Runtime, o.Runtime)
	fixed.Add(mem.Device, mem.Workspace, dev.Scratch([]*compile.Program{pass, load}))
	j, err := compile.NewJob(fixed, pass, load)
	if err != nil {
		return nil, err
	}
	return &Job{Job: j, Options: o, Promise: j.Plan()}, nil
}

func (j *Job) fits() bool { return j.Options.Memory == 0 || j.Promise.Memory() <= j.Options.Memory }

// buffers are the bytes of what a runner keeps on the host, in the order in which it lies there.
type buffers struct {
	logits       int64 // a row on its way from the device
	ints, window int64 // what the inputs of a pass, and the table, are made in; the tokens of the window
}

func (o Options) buffers() buffers {
	return buffers{
		logits: graph.RoundUp(4 * int64(o.Config.VocabSize)),
		ints:   graph.RoundUp(4 * int64(max(o.Chunk, o.width()))),
		window: graph.RoundUp(4 * int64(o.Context)),
	}
}

// parts is what the arena of b holds, whole pages.
func (b buffers) parts() (u mem.Usage) {
	u.Add(mem.Host, mem.Staging, mem.Bytes(b.logits))
	u.Add(mem.Host, mem.Workspace, arena.Round(mem.Bytes(b.logits+b.ints+b.window))-mem.Bytes(b.logits))
	return u
}

// DoesNotFitError says that a runner is larger than the memory limit, and what would fit.
type DoesNotFitError struct {
	Wanted  Options
	Need    mem.Bytes  // its peak
	Largest []mem.Line // its largest lines, at most four, largest first
	Nearest *Options   // the nearest options that fit: a smaller chunk, or else a smaller context too; nil if none do
}

// Error says what went wrong, in one line.
func (e *DoesNotFitError) Error() string {
	var lines []string
	for _, l := range e.Largest {
		lines = append(lines, l.String())
	}
	return fmt.Sprintf("eval: does not fit: %d tokens in chunks of %d would bring the peak to %v, the memory limit is %v; largest: %s",
		e.Wanted.Context, e.Wanted.Chunk, e.Need, e.Wanted.Memory, strings.Join(lines, ", "))
}

// Advice says what to do, in one line.
func (e *DoesNotFitError) Advice() string {
	raise := fmt.Sprintf("raise the memory limit to %v", (e.Need+mem.MiB-1)/mem.MiB*mem.MiB)
	n := e.Nearest
	switch {
	case n == nil:
		return raise + ", or take a smaller model"
	case n.Context < e.Wanted.Context:
		return fmt.Sprintf("%s, or take a context of %d tokens in chunks of %d, which fits", raise, n.Context, n.Chunk)
	}
	return fmt.Sprintf("%s, or take chunks of %d tokens, which fit", raise, n.Chunk)
}

// minChunk is the smallest chunk that is proposed: below it the weights are read too often.
const minChunk = 16

// doesNotFit describes j, which does not fit, and looks for the nearest options that do: chunk first, then context.
func doesNotFit(j *Job, dev device.Device) error {
	e := &DoesNotFitError{Wanted: j.Options, Need: j.Promise.Memory()}
	for _, l := range j.Promise.Peak.Lines() {
		if l.Tier.Memory() && len(e.Largest) < 4 {
			e.Largest = append(e.Largest, l)
		}
	}
	o := j.Options
	chunk := func(o Options, n int) Options {
		o.Chunk, o.Outs = n, min(o.Outs, n)
		return o
	}
	least := chunk(o, min(minChunk, o.Chunk))
	for _, s := range []struct {
		least, most int
		at          func(n int) Options
	}{
		{least.Chunk, o.Chunk - 1, func(n int) Options { return chunk(o, n) }},
		{1, o.Context - 1, func(n int) Options {
			x := least
			x.Context = n
			return chunk(x, min(least.Chunk, n))
		}},
	} {
		best, err := largest(s.least, s.most, s.at, dev)
		if err != nil {
			return err
		}
		if best != nil {
			e.Nearest = best
			break
		}
	}
	return e
}

// largest returns the options of the largest n in least to most that fit, nil if none do.
func largest(least, most int, at func(n int) Options, dev device.Device) (best *Options, failed error) {
	sort.Search(max(most-least+1, 0), func(i int) bool { // the first that does not fit
		j, err := build(at(least+i), dev)
		if err != nil {
			failed = err
			return true
		}
		if j.fits() {
			best = &j.Options
		}
		return !j.fits()
	})
	return best, failed
}
