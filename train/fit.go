package train

import (
	"errors"
	"fmt"
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
	Limit mem.Bytes
	Bound string     // which limit: "memory" or "device"
	Need  mem.Bytes  // what the run as asked for needs under that limit
	Lines []mem.Line // the largest of what it would hold, largest first
	Least []Least

	// Nearest is the nearest setting that fits, in flags: under the same limits if there is one, else Higher. NearestOptions and NearestPeak are that run's,
	// and the memory that it takes, the least of it with Higher, whichever limit is Bound. It is empty if none was found.
	Nearest        string
	NearestOptions Options
	NearestPeak    mem.Bytes
	Higher         string // with which limit the run fits under one of the policies, in flags; empty if none was found

	higher Options   // the run's with Higher
	takes  mem.Bytes // what Nearest takes of what Bound limits
	varies bool      // what Nearest takes is the least: the loss head may hold more
	c      *compiler // that complete asks; nil when it has
}

// Besides adds to Nearest and to Higher what more says that a run of such options wants besides, for a limit that only the caller knows.
func (e *DoesNotFitError) Besides(more func(Options) string) {
	one := e.Nearest == e.Higher
	if e.Nearest != "" {
		e.Nearest += more(e.NearestOptions)
	}
	switch {
	case one:
		e.Higher = e.Nearest
	case e.Higher != "":
		e.Higher += more(e.higher)
	}
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
	s := " (least memory by recompute policy: " + strings.Join(least, ", ") + ")"
	if len(least) == 0 { // of Attempt
		s = ""
	}
	switch e.Nearest {
	case "":
	case e.Higher:
		return "use " + e.Higher + s
	default:
		takes := "takes"
		if e.varies {
			takes = "takes at least"
		}
		nearest := fmt.Sprintf("use %s, which %s %v", e.Nearest, takes, e.takes)
		if e.Bound != "memory" {
			nearest += " of device memory"
		}
		if e.Higher != "" {
			nearest += ", or " + e.Higher
		}
		return nearest + s
	}
	return "use a smaller --batch or --seq" + s
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

// doesNotFit describes why a job is refused; what would fit, complete finds.
func (c *compiler) doesNotFit(j *compile.Job) *DoesNotFitError {
	peak := j.Plan().Peak
	limits := c.limits()
	_, bound := limits.Allows(peak)
	e := &DoesNotFitError{Limit: limits.Memory, Bound: bound, Need: peak.Memory(), c: c}
	lines := peak.Lines()
	if bound != "memory" {
		e.Limit, e.Need = limits.Tier[mem.Device], peak.Total(mem.Device)
	}
	for _, l := range lines {
		if len(e.Lines) < 3 && l.Tier.Memory() && (bound == "memory" || l.Tier == mem.Device) {
			e.Lines = append(e.Lines, l)
		}
	}
	return e
}

// complete looks for what would fit in the place of what is refused.
func (e *DoesNotFitError) complete() error {
	c := e.c
	e.c = nil
	var err error
	if e.Least, err = c.leasts(); err != nil {
		return err
	}
	e.Higher, e.higher, e.NearestPeak = c.raised(e.Least)
	e.Nearest, e.NearestOptions = e.Higher, e.higher
	if w := c.nearest(); w != nil {
		peak := c.lowered(w).Promise.Peak
		e.Nearest, e.NearestOptions, e.NearestPeak = w.flags(c.o), w.o, peak.Memory()
		if e.takes = e.NearestPeak; e.Bound != "memory" {
			e.takes = peak.Total(mem.Device)
		}
	}
	if e.varies { // c's is the least
		e.NearestOptions.HeadChunk, e.higher.HeadChunk = AutoChunk, AutoChunk
	}
	return e
}
