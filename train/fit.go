package train

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"loadline/compile"
	"loadline/mem"
	"loadline/mem/arena"
)

// Least is the least memory that a run would need under a recompute policy, everything counted.
type Least struct {
	Policy string    `json:"policy"` // as --recompute takes it: none, full, auto
	Memory mem.Bytes `json:"memory"`
}

// DoesNotFitError says that a run needs more memory than it may have.
type DoesNotFitError struct {
	Limit   mem.Bytes
	Bound   string     // which limit: "memory" or "device"
	Need    mem.Bytes  // what the run as asked for needs under that limit
	Lines   []mem.Line // the largest of what it would hold, largest first
	Least   []Least
	Nearest string // the nearest setting that fits, in flags; empty if none was found
}

// Error returns one line: what went wrong.
func (e *DoesNotFitError) Error() string {
	flag := "--memory"
	if e.Bound != "memory" {
		flag = "--device-memory"
	}
	lines := make([]string, len(e.Lines))
	for i, l := range e.Lines {
		lines[i] = l.String()
	}
	need, limit := e.Need.String(), e.Limit.String()
	if need == limit { // rounded
		need, limit = fmt.Sprintf("%d bytes", int64(e.Need)), fmt.Sprint(int64(e.Limit))
	}
	return fmt.Sprintf("train: does not fit: needs %s, %s is %s; largest: %s", need, flag, limit, strings.Join(lines, ", "))
}

// Advice returns one line: what to do.
func (e *DoesNotFitError) Advice() string {
	least := make([]string, len(e.Least))
	for i, l := range e.Least {
		least[i] = fmt.Sprintf("%s %v", l.Policy, l.Memory)
	}
	s := "least memory by recompute policy: " + strings.Join(least, ", ")
	if e.Nearest != "" {
		return "use " + e.Nearest + " (" + s + ")"
	}
	return "use a smaller --batch or --seq (" + s + ")"
}

// within returns the most bytes that a mapping may hold so that, rounded to whole pages, it takes no more than n.
func within(n mem.Bytes) mem.Bytes {
	if n <= 0 {
		return 0
	}
	page := arena.Round(1)
	if fit := n / page * page; arena.Round(fit) <= n {
		return fit
	}
	return n / hugePage * hugePage
}

// hugePage is the unit of large mappings.
const hugePage = 2 * mem.MiB

// leasts compiles the step at the least arena of each policy and returns what the whole job then takes.
func (c *compiler) leasts() ([]Least, error) {
	var out []Least
	for _, policy := range []compile.Policy{compile.None, compile.Full, compile.Auto} {
		r := compile.Recompute{Policy: policy}
		p, err := c.smallest(r)
		if err != nil && policy == compile.Auto { // a graph whose layers are not in order has no auto
			continue
		}
		if err != nil {
			return nil, err
		}
		j, err := c.join(p)
		if err != nil {
			return nil, err
		}
		out = append(out, Least{r.String(), j.Plan().Memory()})
	}
	return out, nil
}

// smallest compiles the step under a policy into the least arena that the policy reaches.
func (c *compiler) smallest(r compile.Recompute) (*compile.Program, error) {
	if p := c.small[r.String()]; p != nil {
		return p, nil
	}
	p, err := c.leastStep(r)
	if err != nil {
		return nil, err
	}
	c.small[r.String()] = p
	return p, nil
}

func (c *compiler) leastStep(r compile.Recompute) (*compile.Program, error) {
	if r.Policy == compile.Auto {
		c.o.planning(c.graphs.main.Name + ", least memory of recompute auto")
		x, err := c.auto()
		if err != nil {
			return nil, err
		}
		return x.Least()
	}
	p, err := c.step(r, 1)
	var over *compile.OverLimitError
	if err != nil && !errors.As(err, &over) {
		return nil, err
	}
	return p, nil
}

// doesNotFit describes why a job is refused.
func (c *compiler) doesNotFit(j *compile.Job, least []Least) error {
	peak := j.Plan().Peak
	limits := c.limits()
	_, bound := limits.Allows(peak)
	e := &DoesNotFitError{Limit: limits.Memory, Bound: bound, Need: peak.Memory(), Least: least}
	lines := peak.Lines()
	if bound != "memory" {
		e.Limit, e.Need = limits.Tier[mem.Device], peak.Total(mem.Device)
	}
	for _, l := range lines {
		if len(e.Lines) < 3 && l.Tier.Memory() && (bound == "memory" || l.Tier == mem.Device) {
			e.Lines = append(e.Lines, l)
		}
	}
	e.Nearest = c.nearest(least)
	return e
}

// nearestDevice looks for the least device memory with which the job fits into Options.Memory. Where there is none, which of two limits
// to raise is the user's to say.
func (c *compiler) nearestDevice(policies ...compile.Recompute) string {
	best, flags := mem.Bytes(math.MaxInt64), ""
	for _, r := range append(policies, c.o.Recompute) {
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
			best, flags = n, fmt.Sprintf("--recompute %s --device-memory %dMiB", r, (n+mem.MiB-1)/mem.MiB)
		}
	}
	return flags
}

// nearest looks for a setting that fits: the same limit with less kept, or with less in it, then the least limit.
func (c *compiler) nearest(least []Least) string {
	auto := compile.Recompute{Policy: compile.Auto}
	if c.o.Recompute.Policy != compile.Auto {
		if j, err := c.fit(auto); err == nil && j != nil {
			return "--recompute auto"
		}
	}
	if flags := c.nearestLower(); flags != "" {
		return flags
	}
	if c.o.DeviceMemory > 0 {
		return c.nearestDevice(auto)
	}
	best := least[0]
	for _, l := range least[1:] {
		if l.Memory < best.Memory {
			best = l
		}
	}
	return fmt.Sprintf("--recompute %s --memory %dMiB", best.Policy, (best.Memory+mem.MiB-1)/mem.MiB)
}
