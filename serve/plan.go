package serve

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"loadline/compile"
	"loadline/device"
	"loadline/mem"
	"loadline/model"
)

// Names of an engine's programs.
const (
	loadProgram = "load"
	passProgram = "pass"
)

// Job is an engine before it has memory.
type Job struct {
	*compile.Job
	Options Options   // with defaults filled in, and the number of blocks chosen
	Promise *mem.Plan // of everything that New reserves
}

// Plan builds the job of an engine on dev. Where Options.Blocks is 0 and the memory limit does not hold MaxSeqs sequences
// of Context tokens, it takes as many blocks as fit: sequences then wait for each other. One whole sequence has to fit. Where the
// weights do not leave room for it, they are read again for every pass, as far as memory does not hold them; Job.Notes says
// so. If that does not fit either, the error is a *DoesNotFitError.
func Plan(o Options, dev device.Device) (*Job, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.filled()
	o.Stream, o.Resident = false, 0
	j, err := inMemory(o, dev)
	if err != nil || j.fits() {
		return j, err
	}
	if o.InMemory {
		return nil, doesNotFit(j, dev)
	}
	s, err := streaming(o, dev)
	switch {
	case err != nil:
		return nil, err
	case s.fits():
		return s, nil
	case s.Streamed() == 0 || s.Promise.Memory() >= j.Promise.Memory(): // no weight is worth it; what one passes through may be larger than it
		return nil, doesNotFit(j, dev)
	}
	return nil, doesNotFit(s, dev)
}

// inMemory builds the job of o with all weights in memory; where not even the least fits, that.
func inMemory(o Options, dev device.Device) (*Job, error) {
	if o.Blocks > 0 {
		return build(o, dev)
	}
	width, most := o.width(), o.MaxSeqs*o.width()
	o.Blocks = most
	j, err := build(o, dev)
	if err != nil || j.fits() {
		return j, err
	}
	o.Blocks = width
	least, err := build(o, dev)
	if err != nil || !least.fits() {
		return least, err
	}
	return largest(width, most, least, func(n int) (*Job, error) {
		o.Blocks = n
		return build(o, dev)
	})
}

// build compiles the job of o, whether it fits or not.
func build(o Options, dev device.Device) (*Job, error) {
	g, err := model.PassGraph(o.Config, o.pass())
	if err != nil {
		return nil, err
	}
	if o.Stream {
		g = compile.Stream(g, compile.StreamOptions{Keep: o.kept(g)})
	}
	c := compile.Options{Machine: o.Machine}
	pass, err := compile.Step(g, c)
	if err != nil {
		return nil, err
	}
	stored := slices.DeleteFunc(model.StoredStates(g), func(s model.Stored) bool { return s.Tier == mem.Disk })
	load, err := compile.Step(model.RestoreGraph(loadProgram, stored...), c)
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

// largest returns the job of the largest n in lo to hi−1 that fits; best is that of lo, which does.
func largest(lo, hi int, best *Job, at func(n int) (*Job, error)) (*Job, error) {
	var failed error
	sort.Search(hi-1-lo, func(i int) bool { // the first that does not fit
		j, err := at(lo + 1 + i)
		if err != nil {
			failed = err
			return true
		}
		if j.fits() {
			best = j
		}
		return !j.fits()
	})
	return best, failed
}

// DoesNotFitError says that not even one sequence fits into the memory limit, and what would.
type DoesNotFitError struct {
	Wanted   Options    // with the blocks of one sequence, or those asked for
	Need     mem.Bytes  // the peak of that
	Largest  []mem.Line // its largest lines, at most four, largest first
	Nearest  *Options   // the nearest options that fit; nil if none do
	Narrower *Options   // what was wanted, with keys and values in the widest type that makes it fit; nil if none does

	streamed mem.Bytes // of weights that every pass would read
}

// Error says what went wrong, in one line.
func (e *DoesNotFitError) Error() string {
	var lines []string
	for _, l := range e.Largest {
		lines = append(lines, l.String())
	}
	w, even := &e.Wanted, ""
	if e.streamed > 0 {
		even = fmt.Sprintf(", even if every pass read %v of weights again", e.streamed)
	}
	need, limit := e.Need.String(), w.Memory.String()
	if need == limit { // rounded
		need, limit = fmt.Sprintf("%d bytes", int64(e.Need)), fmt.Sprint(int64(w.Memory))
	}
	return fmt.Sprintf("serve: does not fit: needs %s for %s of at most %d tokens, in %s of %d%s, --memory is %s; largest: %s",
		need, plural(w.MaxSeqs, "sequence"), w.Context, plural(w.Blocks, "KV block"), w.BlockSize, even, limit, strings.Join(lines, ", "))
}

// Advice says what to do, in one line.
func (e *DoesNotFitError) Advice() string { return e.AdviceOf(e.Ways(nil)) }

// AdviceOf says in one line that one of some ways is to be taken.
func (e *DoesNotFitError) AdviceOf(ways []string) string {
	s := strings.Join(ways, ", or ")
	if len(ways) == 1 {
		s += ", or a smaller model"
	}
	return s
}

// Ways are settings that fit, in flags, the nearest first: Nearest, Narrower, and a higher limit. shorter gives a context in the flags of a verb
// that has no --context, or for which that is not enough, and is empty where the verb cannot have it; nil gives --context.
func (e *DoesNotFitError) Ways(shorter func(context int) string) []string {
	var ways []string
	if flags := e.nearest(shorter); flags != "" {
		ways = append(ways, flags)
	}
	if e.Narrower != nil {
		ways = append(ways, "--kv-type "+kvWords(e.Narrower.KVTypes))
	}
	return append(ways, fmt.Sprintf("--memory %dMiB", (e.Need+mem.MiB-1)/mem.MiB))
}

// nearest is Nearest in flags, empty where it is nil, or flags do not say it.
func (e *DoesNotFitError) nearest(shorter func(context int) string) string {
	n := e.Nearest
	if n == nil || n.Context == e.Wanted.Context && n.Blocks != e.Wanted.Blocks && n.MaxSeqs == e.Wanted.MaxSeqs { // no flag has blocks
		return ""
	}
	var flags []string
	if n.MaxSeqs != e.Wanted.MaxSeqs {
		flags = append(flags, fmt.Sprintf("--concurrency %d", n.MaxSeqs))
	}
	if n.PrefillChunk != min(e.Wanted.PrefillChunk, n.Context) {
		flags = append(flags, fmt.Sprintf("--prefill-chunk %d", n.PrefillChunk))
	}
	if n.Context != e.Wanted.Context {
		context := fmt.Sprintf("--context %d", n.Context)
		if shorter != nil {
			context = shorter(n.Context)
		}
		if context == "" {
			return ""
		}
		flags = append(flags, context)
	}
	return strings.Join(flags, " ")
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// minChunk is the smallest prefill chunk that is proposed: below it the weights are read too often.
const minChunk = 16

// doesNotFit describes j, which does not fit. It looks for the nearest options that do by giving up, one after the other,
// blocks beyond those of one sequence, sequences, chunk and context, each as little as will do.
func doesNotFit(j *Job, dev device.Device) error {
	e := &DoesNotFitError{Wanted: j.Options, Need: j.Promise.Memory(), streamed: j.Streamed()}
	for _, l := range j.Promise.Peak.Lines() {
		if l.Tier.Memory() && len(e.Largest) < 4 {
			e.Largest = append(e.Largest, l)
		}
	}
	o := j.Options
	steps := []struct {
		now, least int
		set        func(o *Options, n int)
	}{
		{o.Blocks, o.width(), func(o *Options, n int) { o.Blocks = n }},
		{o.MaxSeqs, 1, func(o *Options, n int) { o.MaxSeqs = n }},
		{o.PrefillChunk, min(minChunk, o.PrefillChunk), func(o *Options, n int) { o.PrefillChunk = n }},
		{o.Context, 1, func(o *Options, n int) {
			o.Context, o.PrefillChunk = n, min(o.PrefillChunk, n)
			o.Blocks = o.width()
		}},
	}
	for _, s := range steps {
		if s.now == s.least {
			continue
		}
		at := func(n int) (*Job, error) {
			x := o
			s.set(&x, n)
			return build(x, dev)
		}
		least, err := at(s.least)
		if err != nil {
			return err
		}
		if !least.fits() {
			s.set(&o, s.least)
			continue
		}
		best, err := largest(s.least, s.now, least, at)
		if err != nil {
			return err
		}
		e.Nearest = &best.Options
		break
	}
	var err error
	if e.Narrower, err = narrower(j, dev); err != nil {
		return err
	}
	return e
}
