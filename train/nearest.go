package train

import (
	"fmt"
	"math"
	"strings"

	"loadline/compile"
	"loadline/mem"
)

// way is a run that fits, and differs from the one asked for by what flags say.
type way struct {
	o    Options
	job  *compile.Job
	auto bool // what has to be recomputed is left to the compiler, where the run asked for has it otherwise
}

// flags are what o has and from has not, as train takes them.
func (w *way) flags(from *Options) string {
	var f []string
	add := func(name string, is, was any) {
		if is != was {
			f = append(f, fmt.Sprintf("--%s %v", name, is))
		}
	}
	add("batch", w.o.Batch, from.Batch)
	add("accumulate", w.o.Accumulate, from.Accumulate)
	add("seq", w.o.Seq, from.Seq)
	add("precision", w.o.Precision, from.Precision)
	add("offload", strings.Join(w.o.Offloads(), ","), strings.Join(from.Offloads(), ","))
	if w.auto {
		f = append(f, "--recompute auto")
	}
	return strings.Join(f, " ")
}

// leastSeq is the shortest sequence that is proposed.
const leastSeq = 32

// nearest looks for a run that fits under the same limits, by giving up as little as will do: what is kept, where the optimizer's State lies, how many
// sequences are computed at once, the precision, how many are computed at all, how long they are. It returns nil if there is none.
func (c *compiler) nearest() *way {
	asked := *c.o
	if w := c.kept(asked); w != nil {
		return w
	}
	all := []Options{asked} // with and without the State below
	if o := asked; !o.OffloadOptimizer {
		o.OffloadOptimizer = true
		if o.Validate() == nil { // there is a link
			all = append(all, o)
		}
	}
	if !c.possible(all[len(all)-1]) {
		return nil
	}
	for _, o := range all[1:] {
		if w := c.kept(o); w != nil {
			return w
		}
	}
	narrow := func(o Options) Options {
		o.Precision = "bf16"
		return o
	}
	narrows := asked.Precision == "fp32" && !asked.Continues
	for _, o := range all {
		if w := c.fewer(o, true); w != nil {
			return w
		}
	}
	for _, o := range all {
		if !narrows {
			break
		}
		if w := c.kept(narrow(o)); w != nil {
			return w
		}
		if w := c.fewer(narrow(o), true); w != nil {
			return w
		}
	}
	if asked.Continues {
		return nil
	}
	for _, shorten := range []func(o Options) *way{func(o Options) *way { return c.fewer(o, false) }, c.shorter} {
		for _, o := range all {
			if w := shorten(o); w != nil {
				return w
			}
			if narrows {
				if w := shorten(narrow(o)); w != nil {
					return w
				}
			}
		}
	}
	return c.keptWithin(given(all[len(all)-1]), far)
}

// given is o with all given up that nearest gives up, the State where o has it; of a run that goes on, what takes no more than the least of them.
func given(o Options) Options {
	o.Batch = 1
	if !o.Continues {
		o.Accumulate, o.Seq = 1, min(o.Seq, leastSeq)
		if o.Precision == "fp32" {
			o.Precision = "bf16"
		}
	}
	return o
}

// possible tells whether a run may fit when all is given up that nearest gives up, with the State where o has it.
func (c *compiler) possible(o Options) bool {
	x := c.of(given(o))
	return x != nil && x.near(far)
}

// of is the compiler of other options; nil where they cannot be.
func (c *compiler) of(o Options) *compiler {
	if o.Validate() != nil {
		return nil
	}
	x, err := newCompiler(o, c.dev, c.fixed)
	if err != nil {
		return nil
	}
	return x
}

// Auto seldom needs much less than where everything is recomputed, and takes far longer to compile. It is looked for where that part of it is within the
// limits: hardly, of each of many runs; far, of the one that gives up all. So a run that only auto fits may be missed: auto has been seen at 0.952.
const (
	hardly = 0.97
	far    = 0.94
)

// near tells whether a part of what a run takes where everything is recomputed is within the limits.
func (c *compiler) near(part float64) bool {
	p, err := c.smallest(compile.Recompute{Policy: compile.Full})
	if err != nil {
		return false
	}
	j, err := c.join(p)
	if err != nil {
		return false
	}
	peak, l := j.Plan().Peak, c.limits()
	within := func(n, limit mem.Bytes) bool { return limit == 0 || part*float64(n) <= float64(limit) }
	return within(peak.Memory(), l.Memory) && within(peak.Total(mem.Device), l.Tier[mem.Device])
}

// kept is the run of o with its own policy, or else with auto; nil if neither fits.
func (c *compiler) kept(o Options) *way { return c.keptWithin(o, hardly) }

// keptWithin is kept where a run is near by that part.
func (c *compiler) keptWithin(o Options, part float64) *way {
	same := o.Batch == c.o.Batch && o.Accumulate == c.o.Accumulate && o.Seq == c.o.Seq && o.Precision == c.o.Precision && o.OffloadOptimizer == c.o.OffloadOptimizer
	x := c
	if !same {
		x = c.of(o)
	}
	if !same {
		if x == nil || !x.near(part) {
			return nil
		}
		if j, err := x.fit(o.Recompute); err == nil && j != nil {
			return &way{o: o, job: j}
		}
	}
	if o.Recompute.Policy == compile.Auto {
		return nil
	}
	o.Recompute = compile.Recompute{Policy: compile.Auto}
	if j, err := x.fit(o.Recompute); err == nil && j != nil {
		return &way{o, j, true}
	}
	return nil
}

// lowered is the run of a way, which takes a lower tier by itself where Options.Lower lets it.
func (c *compiler) lowered(w *way) *Job {
	j := &Job{Job: w.job, Options: w.o, Step: w.job.Programs[0], Promise: w.job.Plan()}
	if w.o.Lower > 0 && !w.o.OffloadOptimizer {
		if low, err := orLower(w.o, c.dev, c.fixed, j, nil); err == nil {
			return low
		}
	}
	return j
}

// fewer is the run of o with as many sequences of a micro-batch as fit; nil if one is too many. Those of a step stay as many if steady, in more micro-batches,
// for which the gradients are kept.
func (c *compiler) fewer(o Options, steady bool) *way {
	with := func(batch int) *way {
		x := o
		x.Batch = batch
		if steady {
			x.Accumulate *= o.Batch / batch
		}
		return c.kept(x)
	}
	if o.Batch == 1 {
		return nil
	}
	best := with(1)
	if best == nil {
		return nil
	}
	for batch := o.Batch - 1; batch > 1; batch-- {
		if o.Batch%batch > 0 {
			continue
		}
		if w := with(batch); w != nil {
			return w
		}
	}
	return best
}

// shorter is the run of o with one sequence that is as long as fits, of halves of Seq; nil if there is none.
func (c *compiler) shorter(o Options) *way {
	o.Batch = 1
	for o.Seq /= 2; o.Seq >= leastSeq; o.Seq /= 2 {
		if w := c.kept(o); w != nil {
			return w
		}
	}
	return nil
}

// raised is the run with the least limit that one of the policies fits in, in flags, and what it takes.
func (c *compiler) raised(least []Least) (flags string, o Options, peak mem.Bytes) {
	o = *c.o
	if o.DeviceMemory > 0 {
		return c.raisedDevice(compile.Recompute{Policy: compile.Auto}, o.Recompute)
	}
	best := least[0]
	for _, l := range least[1:] {
		if l.Memory < best.Memory {
			best = l
		}
	}
	o.Memory = (best.Memory + mem.MiB - 1) / mem.MiB * mem.MiB
	o.Recompute, _ = compile.ParseRecompute(best.Policy) // it is one of ours
	return fmt.Sprintf("--recompute %s --memory %dMiB", best.Policy, o.Memory/mem.MiB), o, best.Memory
}

// raisedDevice is raised for the device memory with which the job fits into Options.Memory. Where there is none, which of two limits to raise is
// the user's to say.
func (c *compiler) raisedDevice(policies ...compile.Recompute) (flags string, o Options, taken mem.Bytes) {
	best := mem.Bytes(math.MaxInt64)
	for _, r := range policies {
		p, err := c.smallest(r)
		if err != nil {
			continue
		}
		j, err := c.join(p)
		if err != nil {
			continue
		}
		peak := j.Plan().Peak
		if n := peak.Total(mem.Device); n < best && (c.o.Memory == 0 || peak.Memory() <= c.o.Memory) {
			o, best, taken = *c.o, n, peak.Memory()
			o.Recompute, o.DeviceMemory = r, (n+mem.MiB-1)/mem.MiB*mem.MiB
			flags = fmt.Sprintf("--recompute %s --device-memory %dMiB", r, o.DeviceMemory/mem.MiB)
		}
	}
	return flags, o, taken
}
