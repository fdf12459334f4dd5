package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"loadline/compile"
	"loadline/mem"
	"loadline/train"
)

// printPlan tells people what a run will take.
func (a *app) printPlan(r *trainRun, job *train.Job, least []train.Least) {
	w := a.text()
	r.printHead(w)
	printPeak(w, job.Promise)
	if n := mem.Bytes(r.Options.Ranks); n > 1 {
		fmt.Fprintf(w, "%d ranks: %d × %v = %v\n", n, n, job.Promise.Memory(), n*job.Promise.Memory())
	}
	var branches []string
	for _, b := range job.Promise.Branches {
		branches = append(branches, fmt.Sprintf("%s %v", b.Name, b.Peak.Memory()))
	}
	fmt.Fprintf(w, "branches: %s\n", strings.Join(branches, ", "))
	fmt.Fprintf(w, "chosen: %s; saved activations %v; logits of %d rows at a time\n", why(job), job.SavedActivationBytes(),
		min(job.HeadChunk(), r.Options.Batch*r.Options.Seq))
	seconds := job.Seconds()
	fmt.Fprintf(w, "given up: %s\n", gaveUp(job))
	fmt.Fprintf(w, "time: %s a step, %s tokens/s, modelled for a %s machine\n", milliseconds(seconds),
		grouped(int64(float64(r.Options.Sequences()*r.Options.Seq)/seconds)), r.Options.Machine.Name)
	fmt.Fprintf(w, "least memory: %s\n", leastText(least))
}

// printHead says what is planned.
func (r *trainRun) printHead(w io.Writer) {
	o := &r.Options
	batch := fmt.Sprintf("%d × %d tokens", o.Batch, o.Seq)
	if o.Accumulate > 1 {
		batch += fmt.Sprintf(" × %d micro-batches", o.Accumulate)
	}
	if o.Ranks > 1 {
		batch += fmt.Sprintf(" × %d ranks", o.Ranks)
	}
	fmt.Fprintf(w, "%s: %s parameters, %s a step, %s, learning rate %g %s, %s, %s kernels\n", r.Name, grouped(o.Config.Params()), batch,
		count(o.Steps, "step"), o.LR, o.Schedule, count(r.Threads, "thread"), r.Kernels)
	fmt.Fprintf(w, "limit %v a process: %s\n", o.Memory, r.LimitFrom)
}

// gaveUp says what time the plan pays for its memory.
func gaveUp(job *train.Job) string {
	var parts []string
	if s := job.Step; s.Again > 0 {
		parts = append(parts, fmt.Sprintf("%s a step, to compute activations again", milliseconds(s.Again*float64(job.Options.Accumulate))))
	}
	if n := job.Waits(); n > 0 {
		parts = append(parts, fmt.Sprintf("%s a step, to wait for the optimizer's state", milliseconds(n)))
	}
	if len(parts) == 0 {
		return "nothing: no activation is computed twice"
	}
	return strings.Join(parts, "; ")
}

// milliseconds writes a time of a step, short ones with a decimal.
func milliseconds(seconds float64) string {
	if ms := 1000 * seconds; ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return grouped(int64(1000*seconds+0.5)) + " ms"
}

func leastText(all []train.Least) string {
	var parts []string
	for _, l := range all {
		parts = append(parts, fmt.Sprintf("%s %v", l.Policy, l.Memory))
	}
	return strings.Join(parts, ", ")
}

// printPeak prints the bytes at the peak.
func printPeak(w io.Writer, p *mem.Plan) {
	rows := [][]string{{"memory", "bytes"}}
	for _, l := range p.Peak.Lines() {
		name := l.Purpose.String()
		if l.Tier != mem.Device {
			name += " (" + l.Tier.String() + ")"
		}
		rows = append(rows, []string{name, l.Bytes.String()})
	}
	table(w, append(rows, []string{"peak", p.Memory().String()}))
}

// refuse prints the plan of a run that does not fit and returns err; other errors it only returns.
func (a *app) refuse(r *trainRun, err error) error {
	var (
		no      *train.DoesNotFitError
		tier    *tierError
		job     *train.Job
		least   []train.Least
		nearest string
		peak    mem.Bytes
		failed  error
	)
	done := a.planning(&r.Options)
	defer done()
	switch {
	case errors.As(err, &no):
		least, nearest, peak = no.Least, no.Nearest, no.NearestPeak
		job, failed = r.unbounded(no)
	case errors.As(err, &tier):
		job, nearest, peak = tier.job, tier.Advice(), tier.job.Promise.Memory()
		least, failed = job.Least()
	default:
		return err
	}
	if failed != nil {
		return err // it says the numbers itself
	}
	done()
	w := a.text()
	r.printHead(w)
	printPeak(w, job.Promise)
	fmt.Fprintf(w, "least memory: %s\n", leastText(least))
	if !a.json {
		return err
	}
	done = a.planning(&r.Options)
	d, failed := r.document(job, least)
	done()
	if failed != nil {
		return errors.Join(err, failed)
	}
	d.Plans[0].OOMChance, d.Nearest, d.NearestPeak = 1, nearest, peak
	return a.refusal(err, d)
}

// unbounded is the job of a run that does not fit, at the least that it needs.
func (r *trainRun) unbounded(no *train.DoesNotFitError) (*train.Job, error) {
	free := *r
	o := &free.Options
	o.Memory, o.DeviceMemory = 0, 0
	if r.Options.Recompute.Policy == compile.Auto && no.Bound == "memory" {
		o.Memory = no.Need
	}
	if r.Options.DeviceMemory > 0 { // where offloaded values go depends on there being a limit
		if o.DeviceMemory = no.Need; no.Bound == "memory" {
			o.DeviceMemory = max(no.Need, r.Options.DeviceMemory)
		}
	}
	return train.Attempt(*o, free.device(), free.fixed())
}
