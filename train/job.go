package train

import (
	"errors"
	"fmt"
	"math"

	"loadline/compile"
	"loadline/device"
	"loadline/mem"
	"loadline/mem/arena"
	"loadline/tensor"
)

// FixedBytes is what a process holds throughout besides what the job itself reserves. The caller reserves it, of the first Job.Runtime; Compile plans for it.
type FixedBytes struct {
	Runtime mem.Bytes // of the Go runtime, on the host tier, where programs are small; RuntimeBytes as a rule
	Comm    mem.Bytes // windows of collectives, on the host tier: local.SegmentBytes
	Tokens  mem.Bytes // buffers of the token streams, on the host tier
}

// Job is a run, planned: every branch as a program, and the promise about their memory.
type Job struct {
	*compile.Job
	Options Options
	Step    *compile.Program // the program of the forward and backward half
	Promise *mem.Plan
	Runtime mem.Bytes // what the Go runtime is given of Promise; the caller reserves it

	states   []state
	compiler *compiler // nil once sealed
}

// Least returns the least memory that would work under each recompute policy. It compiles the step anew for each, which is why a Job does
// not hold it.
func (j *Job) Least() ([]Least, error) {
	if j.compiler == nil {
		panic("train: Least of a sealed Job")
	}
	return j.compiler.leasts()
}

// Seal lets go of what planning alone needs, the graphs and the programs of other policies, which are as large as the job itself. Least
// must not be called any more.
func (j *Job) Seal() { j.compiler = nil }

// SavedActivationBytes is the bytes of forward values alive when the backward half begins.
func (j *Job) SavedActivationBytes() mem.Bytes { return mem.Bytes(j.Step.Saved) }

// Seconds is the modelled time of one step.
func (j *Job) Seconds() float64 {
	s := j.Step.Seconds * float64(j.Options.Accumulate)
	for _, name := range []string{NormProgram, UpdateProgram} {
		if p := j.Program(name); p != nil {
			s += p.Seconds
		}
	}
	return s
}

// Waits is the modelled time, of Seconds, that a step waits for what OffloadOptimizer moves.
func (j *Job) Waits() (s float64) {
	for _, p := range j.Programs {
		if p == j.Step || p.Name == UpdateProgram {
			s += p.Waits
		}
	}
	return s
}

// Offloaded is the bytes of masters and the optimizer's States that lie on a lower tier.
func (j *Job) Offloaded() (n mem.Bytes) {
	for i := range j.Slots {
		if s := &j.Slots[i]; s.Tier != mem.Device {
			n += mem.Bytes(s.Bytes)
		}
	}
	return n
}

// HeadChunk is the rows of logits that the loss head holds at once.
func (j *Job) HeadChunk() int { return j.Options.chunk() }

// Compile plans a run. It runs nothing and reads no file; the same arguments give the same job. A run that does not fit is refused with a
// *DoesNotFitError, for which it compiles many others.
func Compile(o Options, dev device.Device, fixed FixedBytes) (*Job, error) {
	job, err := compileLower(o, dev, fixed)
	if no := new(DoesNotFitError); errors.As(err, &no) {
		return nil, no.complete()
	}
	return job, err
}

// Attempt is Compile for whom a refusal says enough that tells what the run needs: it looks for nothing that would fit instead.
func Attempt(o Options, dev device.Device, fixed FixedBytes) (*Job, error) {
	job, err := compileLower(o, dev, fixed)
	if no := new(DoesNotFitError); errors.As(err, &no) {
		no.c = nil
	}
	return job, err
}

// compileLower plans a run, on the lower tier where Options.Lower lets it.
func compileLower(o Options, dev device.Device, fixed FixedBytes) (*Job, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	job, err := compileRun(o, dev, fixed)
	if o.Lower > 0 && !o.OffloadOptimizer {
		return orLower(o, dev, fixed, job, err)
	}
	return job, err
}

// compileRun plans a run of valid options as they are.
func compileRun(o Options, dev device.Device, fixed FixedBytes) (*Job, error) {
	auto := o.HeadChunk == AutoChunk
	if auto {
		o.HeadChunk = tensor.BlockRows
	}
	c, err := newCompiler(o, dev, fixed)
	if err != nil {
		return nil, err
	}
	j, err := c.fit(o.Recompute)
	if err != nil {
		return nil, err
	}
	if j == nil { // say what the least of the policy would be
		p, err := c.smallest(o.Recompute)
		if err != nil {
			return nil, err
		}
		if j, err = c.join(p); err != nil {
			return nil, err
		}
		no := c.doesNotFit(j)
		no.varies = auto
		return nil, no
	}
	job := c.job(j, c)
	if auto {
		return c.largestChunk(job)
	}
	return job, nil
}

// largestChunk looks for the largest chunk of the loss head with which the run fits and is modelled no slower than job, which has the
// smallest. What is the least memory remains the smallest chunk's to say.
func (c *compiler) largestChunk(job *Job) (*Job, error) {
	low, high := 1, (c.o.Batch*c.o.Seq+tensor.BlockRows-1)/tensor.BlockRows+1 // blocks: one that does, one that is too many
	seconds := job.Seconds()
	for high-low > 1 {
		mid := low + (high-low)/2
		o := *c.o
		o.HeadChunk = mid * tensor.BlockRows
		x, err := newCompiler(o, c.dev, c.fixed)
		if err != nil {
			return nil, err
		}
		j, err := x.fit(o.Recompute)
		if err != nil {
			return nil, err
		}
		if j != nil {
			if larger := x.job(j, c); larger.Seconds() <= seconds {
				low, job = mid, larger
				continue
			}
		}
		high = mid
	}
	return job, nil
}

// newCompiler builds the graphs of a run, and the programs in which there is nothing to choose.
func newCompiler(o Options, dev device.Device, fixed FixedBytes) (*compiler, error) {
	gs, err := buildGraphs(&o)
	if err != nil {
		return nil, err
	}
	if err := gs.checkTags(o.Recompute.Tags); err != nil {
		return nil, err
	}
	c := &compiler{o: &o, dev: dev, fixed: fixed, graphs: gs, small: map[string]*compile.Program{}}
	c.others, err = gs.programs(&o)
	return c, err
}

// job makes a Job of one that fits; least is asked for the least memory.
func (c *compiler) job(j *compile.Job, least *compiler) *Job {
	return &Job{Job: j, Options: *c.o, Step: j.Programs[0], Promise: j.Plan(), Runtime: c.runtime(j.Programs), states: c.graphs.states, compiler: least}
}

// compiler is the state of Compile.
type compiler struct {
	o      *Options
	dev    device.Device
	fixed  FixedBytes
	graphs *graphs
	others []*compile.Program          // of every branch but the step
	small  map[string]*compile.Program // by policy: the step in the least arena
	search *compile.Search             // of recompute auto, made when first asked for
}

// batchBytes is the buffer of tokens and targets of a micro-batch.
func batchBytes(o *Options) mem.Bytes { return arena.Round(mem.Bytes(2 * 4 * o.Batch * o.Seq)) }

// step compiles the main graph; 0 is no limit.
func (c *compiler) step(r compile.Recompute, limit int64) (*compile.Program, error) {
	c.o.planning(c.graphs.main.Name + ", recompute " + r.String())
	if r.Policy != compile.Auto {
		return compile.Step(c.graphs.main, c.compileOptions(r, limit))
	}
	x, err := c.auto()
	if err != nil {
		return nil, err
	}
	if s := c.o.SavedActivations; s > 0 {
		limit = int64(s)
	}
	if limit == 0 {
		limit = math.MaxInt64 / 2 // the fastest program there is
	}
	return x.Under(limit)
}

// auto is the search of recompute auto.
func (c *compiler) auto() (*compile.Search, error) {
	if c.search != nil {
		return c.search, nil
	}
	x, err := compile.NewSearch(c.graphs.main, c.compileOptions(compile.Recompute{Policy: compile.Auto}, 0))
	if err != nil {
		return nil, err
	}
	c.search = x
	return x, nil
}

func (c *compiler) compileOptions(r compile.Recompute, limit int64) compile.Options {
	o := compile.Options{
		Machine: c.o.Machine, Recompute: r, Limit: limit,
		Offload: compile.OffloadOptions{Activations: c.o.Offload, Tier: c.o.OffloadTier()},
	}
	if r.Policy == compile.Auto {
		o.Saved = int64(c.o.SavedActivations)
	}
	return o
}

// join makes the job of a step and all other branches.
func (c *compiler) join(step *compile.Program) (*compile.Job, error) {
	programs := append([]*compile.Program{step}, c.others...)
	var fixed mem.Usage
	fixed.Add(mem.Host, mem.Runtime, c.runtime(programs))
	fixed.Add(mem.Host, mem.CommBuffers, c.fixed.Comm)
	fixed.Add(mem.Host, mem.Staging, c.fixed.Tokens+batchBytes(c.o))
	fixed.Add(mem.Device, mem.Workspace, c.dev.Scratch(programs))
	return compile.NewJob(fixed, programs...)
}

// limits are what the job may take.
func (c *compiler) limits() mem.Limits {
	l := mem.Limits{Memory: c.o.Memory}
	l.Tier[mem.Device] = c.o.DeviceMemory
	return l
}

// fit compiles the step for the arena that the limits leave, and returns nil if the job does not fit then.
func (c *compiler) fit(r compile.Recompute) (*compile.Job, error) {
	fixed := r
	if r.Policy == compile.Auto { // a program that is quick to make tells what everything but the arena takes
		fixed.Policy = compile.Full
	}
	p, err := c.smallest(fixed)
	if err != nil {
		return nil, err
	}
	j, err := c.join(p)
	if err != nil {
		return nil, err
	}
	if r.Policy != compile.Auto { // only auto makes something of a larger arena
		return c.allowed(j), nil
	}
	// How much scratch the device wants may depend on the choice, and so may the arena of the tier below: start from what the quick program
	// leaves, and give back what the larger one takes besides.
	limit, bounded := c.arenaLimit(j)
	for range 8 {
		if bounded && limit <= 0 {
			break
		}
		p, err := c.step(r, int64(limit))
		var over *compile.OverLimitError
		if errors.As(err, &over) && c.o.SavedActivations == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		if j, err = c.join(p); err != nil {
			return nil, err
		}
		if c.allowed(j) != nil {
			return j, nil
		}
		next, _ := c.arenaLimit(j)
		limit = min(next, limit-limit/8)
	}
	if p, err = c.smallest(r); err != nil {
		return nil, err
	}
	if j, err = c.join(p); err != nil {
		return nil, err
	}
	return c.allowed(j), nil
}

// allowed returns j if it is within the limits, and nil otherwise.
func (c *compiler) allowed(j *compile.Job) *compile.Job {
	if ok, _ := c.limits().Allows(j.Plan().Peak); !ok {
		return nil
	}
	return j
}

// arenaLimit is the most that the device's arena may hold beside everything else in j; it is not bounded where there is no limit.
func (c *compiler) arenaLimit(j *compile.Job) (limit mem.Bytes, bounded bool) {
	peak, l := j.Plan().Peak, c.limits()
	mine := mem.Bytes(j.ArenaBytes(mem.Device))
	left := mem.Bytes(math.MaxInt64)
	if l.Memory > 0 {
		left = l.Memory - (peak.Memory() - mine)
	}
	if d := l.Tier[mem.Device]; d > 0 {
		left = min(left, d-(peak.Total(mem.Device)-mine))
	}
	if left == math.MaxInt64 {
		return 0, false
	}
	return within(left), true
}

// String is the plan's text for people: the peak by purpose, what was chosen, and the least memory of each policy.
func (j *Job) String() string {
	s := fmt.Sprintf("peak %v: %v", j.Promise.Memory(), j.Promise.Peak)
	for _, n := range j.Step.Notes {
		s += "\n" + n
	}
	return s
}
