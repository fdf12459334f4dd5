package search

import (
	"cmp"
	"fmt"
	"slices"
)

// near is the part of the best speed that a plan may give up for a smaller peak.
const near = 0.02

// pool is every plan that was looked at.
type pool struct {
	fits, over []Plan
}

// Plans answers a question. An error is an *Invalid, a name that no card has, or a shape that is none.
func Plans(q Question) (*Answer, error) {
	if err := q.normalize(); err != nil {
		return nil, err
	}
	all, level := q.search()
	a := &Answer{Hardware: q.Machine.String(), Limit: q.limit(), Searched: len(all.fits) + len(all.over), Question: q, Plans: []Plan{}, Frontier: []Point{}}
	a.Own = q.own()
	if len(all.fits) == 0 {
		if len(all.over) == 0 && len(a.Own) > 0 {
			return a, nil
		}
		if len(all.over) == 0 {
			return nil, &Invalid{What: "what is held", Got: q.held(), Why: "no system plans it together", Nearest: "the same without one of these"}
		}
		least := slices.MinFunc(all.over, func(a, b Plan) int { return cmp.Or(cmp.Compare(a.OOMChance, b.OOMChance), cmp.Compare(a.Peak, b.Peak)) })
		q.finish(&least, level)
		a.Plans = append(a.Plans, least)
		a.Next = q.rescue(&least)
		return a, nil
	}
	a.Fits = true
	a.Plans = q.best(all.fits)
	for i := range a.Plans {
		q.finish(&a.Plans[i], level)
		if i > 0 {
			a.Plans[i].Why = "beside the best, with " + difference(&a.Plans[0].Config, &a.Plans[i].Config) + ", " + against(&a.Plans[i], &a.Plans[0])
			if q.compare(&a.Plans[i], &a.Plans[0]) < 0 {
				a.Plans[i].Why += fmt.Sprintf("; the best is %s, and within %.0f%%", q.virtue(), 100*near)
			}
			if q.Task != Serve && halfStates(&a.Plans[i].Config) && !halfStates(&a.Plans[0].Config) {
				a.Plans[i].Why += "; its states are all in BF16, " + noMasters
			}
		}
	}
	a.Frontier = q.frontier(all.fits)
	a.Next = q.nextUp(&a.Plans[0], all.over)
	if best := &a.Plans[0]; q.queues(best) {
		a.Next = q.allAtOnce(best)
	} else if a.Searched == 1 {
		a.Next = "every setting is held, so that no other was looked at: without one of them the planner says what more memory would buy"
	}
	return a, nil
}

// search walks the space of every system, with what changes answers only where nothing else fits. It returns the
// level that it reached.
func (q *Question) search() (all pool, level int) {
	for level = range q.levels() {
		all = pool{}
		for _, system := range q.systems() {
			if q.Framework != "any" && q.Framework != system {
				continue
			}
			q.walk(system, level, func(c Config) bool {
				p, err := q.evaluate(c)
				if err != nil {
					return false
				}
				if p.Fits() {
					all.fits = append(all.fits, p)
					return true
				}
				all.over = append(all.over, p)
				return false
			})
		}
		if q.enough(all.fits, level) {
			break
		}
	}
	whole := func(p Plan) bool { return !q.partly(&p.Config) }
	if slices.ContainsFunc(all.fits, whole) { // layers wait on the CPU only where nothing holds them all
		all.fits = slices.DeleteFunc(all.fits, func(p Plan) bool { return !whole(p) })
	}
	all.fits = q.finer(all.fits)
	return all, level
}

// similar is the part of a plan's speed that keys and values in 16 bits are worth.
const similar = 0.05

// finer leaves out plans with a cache of eight bits, where nobody holds it, that are hardly faster than theirs with 16.
func (q *Question) finer(fits []Plan) []Plan {
	if q.Task != Serve || q.Hold.KVType != "" {
		return fits
	}
	of := func(c *Config) Config {
		return Config{System: c.System, Ranks: c.Ranks, TP: c.TP, PP: c.PP, Quant: c.Quant}
	}
	whole := map[Config]float64{}
	for i := range fits {
		if p := &fits[i]; p.Config.KVType == "f16" {
			whole[of(&p.Config)] = max(whole[of(&p.Config)], p.TokensPerSecond)
		}
	}
	return slices.DeleteFunc(fits, func(p Plan) bool {
		return p.Config.KVType != "f16" && whole[of(&p.Config)] >= p.TokensPerSecond*(1-similar)
	})
}

// enough tells whether a level has a plan that serves all sequences at once, or after the first one some.
func (q *Question) enough(fits []Plan, level int) bool {
	if level > 0 && len(fits) > 0 {
		return true
	}
	return slices.ContainsFunc(fits, func(p Plan) bool { return !q.queues(&p) })
}

// levels is how many times the space grows by what changes answers.
func (q *Question) levels() int {
	if q.Task == Serve {
		return servingLevels
	}
	return 2
}

// evaluate predicts one configuration.
func (q *Question) evaluate(c Config) (Plan, error) {
	if q.Task == Serve {
		return q.serving(c)
	}
	return q.training(c)
}

// compare orders plans by the question's objective, the better one first.
func (q *Question) compare(a, b *Plan) int {
	switch q.Objective {
	case Cost:
		return cmp.Compare(a.cost(), b.cost())
	case Fewest: // that serve all at once
		if wait := q.queues(a); wait != q.queues(b) {
			if wait {
				return 1
			}
			return -1
		}
		if c := cmp.Compare(a.Ranks, b.Ranks); c != 0 {
			return c
		}
	}
	return cmp.Compare(b.TokensPerSecond, a.TokensPerSecond)
}

// close tells whether a is as good as best, or nearly.
func (q *Question) close(a, best *Plan) bool {
	switch q.Objective {
	case Cost:
		return a.cost() <= best.cost()*(1+near)
	case Fewest:
		if a.Ranks != best.Ranks || q.queues(a) && !q.queues(best) {
			return false
		}
	}
	return a.TokensPerSecond >= best.TokensPerSecond*(1-near)
}

// kinds counts the ways in which a training plan splits one model, beside the data.
func (c *Config) kinds() int {
	n := 0
	for _, k := range []int{c.TP, c.PP, c.CP, c.EP} {
		if k > 1 {
			n++
		}
	}
	return n
}

// preferred returns the plan to take of those nearly as good as top. Of servers it is the smallest. Of training plans
// it is the simplest, which splits the model in the fewest ways, and the smallest of these; one that another beats in
// both memory and speed is not taken for being simple.
func (q *Question) preferred(fits []Plan, top *Plan) *Plan {
	chosen := top
	if q.Task == Serve {
		for i := range fits {
			if q.close(&fits[i], top) && fits[i].Peak < chosen.Peak {
				chosen = &fits[i]
			}
		}
		return chosen
	}
	var near []*Plan
	for i := range fits {
		if q.close(&fits[i], top) {
			near = append(near, &fits[i])
		}
	}
	for _, p := range near {
		if cmp.Or(cmp.Compare(p.Config.kinds(), chosen.Config.kinds()), cmp.Compare(p.Peak, chosen.Peak), q.compare(p, chosen)) >= 0 {
			continue
		}
		if !slices.ContainsFunc(near, func(o *Plan) bool { return o.Peak < p.Peak && o.TokensPerSecond > p.TokensPerSecond }) {
			chosen = p
		}
	}
	return chosen
}

// virtue says what counts among plans that are nearly as good.
func (q *Question) virtue() string {
	if q.Task == Serve {
		return "smaller"
	}
	return "simpler or smaller"
}

// best returns three plans that differ in more than a batch: the preferred one, then the best of what is left.
func (q *Question) best(fits []Plan) []Plan {
	// first returns the best plan of a kind that is not among those taken.
	var taken []Config
	first := func() *Plan {
		var best *Plan
		for i := range fits {
			p := &fits[i]
			if best != nil && cmp.Or(q.compare(p, best), cmp.Compare(p.Peak, best.Peak)) >= 0 {
				continue
			}
			if !slices.Contains(taken, p.Config.kind()) {
				best = p
			}
		}
		return best
	}
	top := first()
	var out []Plan
	for p := q.preferred(fits, top); p != nil && len(out) < 3; p = first() {
		out = append(out, *p)
		taken = append(taken, p.Config.kind())
	}
	return out
}

// frontier returns the plans that none beats in both memory and speed, smallest first.
func (q *Question) frontier(fits []Plan) []Point {
	order := make([]*Plan, len(fits))
	for i := range fits {
		order[i] = &fits[i]
	}
	slices.SortStableFunc(order, func(a, b *Plan) int {
		return cmp.Or(cmp.Compare(a.Peak, b.Peak), cmp.Compare(b.TokensPerSecond, a.TokensPerSecond))
	})
	points, fastest := []Point{}, 0.0
	for _, p := range order {
		if p.TokensPerSecond > fastest {
			fastest = p.TokensPerSecond
			points = append(points, Point{p.Line(q), p.Peak, p.TokensPerSecond})
		}
	}
	return points
}

// kind is the configuration without what only tunes it.
func (c Config) kind() Config {
	c.MicroBatch, c.Accumulate, c.GPULayers, c.Recompute, c.LossHead = 0, 0, 0, "", ""
	if c.System == "sglang" { // the same memory and time by these formulas
		c.System = "vllm"
	}
	return c
}

// against says how a plan compares with another.
func against(p, o *Plan) string {
	speed := p.TokensPerSecond/o.TokensPerSecond - 1
	size := fmt.Sprintf("with %v less", o.Peak-p.Peak)
	switch {
	case p.Peak > o.Peak:
		size = fmt.Sprintf("with %v more", p.Peak-o.Peak)
	case p.Peak == o.Peak:
		size = "in the same memory"
	}
	switch {
	case speed < -0.0005:
		return fmt.Sprintf("takes %.1f%% longer %s", 100*(1/(1+speed)-1), size)
	case speed < 0.0005:
		return "is as fast " + size
	}
	return fmt.Sprintf("is %.1f%% faster %s", 100*speed, size)
}

// Better tells whether a plan is better than another by a question's objective.
func Better(q *Question, p, than *Plan) bool { return q.compare(p, than) < 0 }
