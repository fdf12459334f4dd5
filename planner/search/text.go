package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"loadline/mem"
)

// Text writes an answer for people: whether it fits, the plans, the peak by purpose of every kind of rank, the
// decisions of the first plan, and the next step up.
func (a *Answer) Text() string {
	var b strings.Builder
	q := &a.Question
	fmt.Fprintf(&b, "%s (%s parameters) on %s\n", q.Shape.Name, count(float64(q.Shape.Params())), a.Hardware)
	if !a.Fits {
		fmt.Fprintf(&b, "does not fit: %s\n", a.Next)
	}
	for i := range a.Plans {
		p := &a.Plans[i]
		name := "best"
		switch {
		case !a.Fits:
			name = "least"
		case i > 0:
			name = fmt.Sprintf("next %d", i)
		}
		fmt.Fprintf(&b, "%s: %s\n", name, p.Line(q))
		fmt.Fprintf(&b, "  peak %v a rank of %v usable, %v to %v with 8 chances in 10, %.1f%% to run out; %s\n", p.Peak, a.Limit, p.Range[0], p.Range[1], 100*p.OOMChance, p.pace(q))
		if p.Host > 0 {
			fmt.Fprintf(&b, "  host memory: %v a node of %v\n", p.Host, q.Machine.host())
		}
		if p.Disk > 0 {
			fmt.Fprintf(&b, "  NVMe: %v a node of %v\n", p.Disk, q.Machine.NVMe)
		}
		if i > 0 {
			fmt.Fprintf(&b, "  %s\n", p.Why)
			continue
		}
		for _, s := range p.Stages {
			fmt.Fprintf(&b, "  %s: %v: %s\n", s.Name, s.Peak, purposes(s.ByPurpose))
		}
		for _, why := range p.Path {
			fmt.Fprintf(&b, "  - %s\n", why)
		}
	}
	if a.Fits {
		fmt.Fprintf(&b, "next step up: %s\n", a.Next)
	}
	return b.String()
}

// Line is a plan's settings in one line.
func (p *Plan) Line(q *Question) string {
	c := &p.Config
	var parts []string
	for _, s := range c.settings() {
		switch {
		case s[1] == "" || s[1] == "0" || s[1] == "none" && s[0] != "recompute":
		case q.Task == Serve && !slices.Contains([]string{"framework", "ranks", "tp", "pp", "weights", "kv type", "layers on the cards"}, s[0]):
		case q.Task != Serve && slices.Contains([]string{"weights", "kv type", "layers on the cards"}, s[0]):
		case s[0] == "layers on the cards" && (c.System != "llamacpp" || q.Machine.Card.Vendor == HostVendor):
		case s[1] == "1" && s[0] != "ranks" && s[0] != "batch" && s[0] != "zero":
		case s[0] == "framework":
			parts = append(parts, s[1])
		default:
			parts = append(parts, s[0]+" "+s[1])
		}
	}
	if c.Accumulate > 1 {
		parts = append(parts, fmt.Sprintf("accumulate %d", c.Accumulate))
	}
	return strings.Join(parts, ", ")
}

// pace says how fast a plan is.
func (p *Plan) pace(q *Question) string {
	if q.Task == Serve {
		wait := ""
		if q.queues(p) {
			wait = fmt.Sprintf("; %d of %d sequences at once, the rest wait", p.Running, q.Concurrency)
		}
		return fmt.Sprintf("%s tokens/s, %s ms a token, bound by %s%s", Number(p.TokensPerSecond, 4), Number(1e3*p.StepSeconds, 3), p.Bound, wait)
	}
	return fmt.Sprintf("%s s a step, %s tokens/s, bound by %s", Number(p.StepSeconds, 4), Number(p.TokensPerSecond, 4), p.Bound)
}

// purposes lists bytes by purpose, largest first.
func purposes(by map[string]mem.Bytes) string {
	names := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		if by[a] != by[b] {
			return int(max(-1, min(1, by[b]-by[a])))
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%s %v", n, by[n]))
	}
	return strings.Join(parts, ", ")
}
