package compile

import (
	"fmt"
	"strings"

	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
)

// Policy is how activations are recomputed: None, Full, Tags, or Auto.
type Policy uint8

// The policies. Tags recomputes what the named parts make; Auto searches for the fastest program within the limit.
const (
	None Policy = iota
	Full
	Tags
	Auto
)

// Recompute is the recompute pass's options.
type Recompute struct {
	Policy Policy
	Tags   []string // for Tags: parts such as "attn.core", "mlp.act", or a component of one such as "norm"
}

// ParseRecompute reads none, full, auto or a comma-separated list of tags.
func ParseRecompute(s string) (Recompute, error) {
	switch s {
	case "", "none":
		return Recompute{}, nil
	case "full":
		return Recompute{Policy: Full}, nil
	case "auto":
		return Recompute{Policy: Auto}, nil
	}
	r := Recompute{Policy: Tags}
	for _, t := range strings.Split(s, ",") {
		if t = strings.TrimSpace(t); t == "" || t == "none" || t == "full" || t == "auto" {
			return r, fmt.Errorf("recompute %q: want none, full, auto, or tags such as attn.core,mlp.act", s)
		}
		r.Tags = append(r.Tags, t)
	}
	return r, nil
}

// String is what ParseRecompute reads.
func (r Recompute) String() string {
	return [...]string{"none", "full", strings.Join(r.Tags, ","), "auto"}[r.Policy]
}

// OffloadOptions is the offload pass's options.
type OffloadOptions struct {
	Activations bool
	Tier        mem.Tier // where to: Host or Disk
}

// Options are the options of Step's passes. Gradient, zero and fuse have their own, since they rewrite the graph before.
type Options struct {
	Machine   cost.Machine
	Recompute Recompute
	Offload   OffloadOptions
	Limit     int64 // bytes that the device arena may take; 0 is no limit
	Saved     int64 // of auto, in place of Limit: bytes of forward values that may be alive when the backward half begins; 0 is no such limit
}

// Validate reports what does not fit together.
func (o Options) Validate() error {
	switch {
	case o.Recompute.Policy == Auto && o.Limit <= 0 && o.Saved <= 0:
		return fmt.Errorf("compile: recompute auto needs a limit")
	case o.Saved < 0 || o.Saved > 0 && (o.Recompute.Policy != Auto || o.Limit > 0):
		return fmt.Errorf("compile: a limit of saved values is for recompute auto, in place of another")
	}
	if o.Offload.Activations && (o.Offload.Tier == mem.Device || o.Machine.Link[o.Offload.Tier] <= 0) {
		return fmt.Errorf("compile: no link to offload to tier %v", o.Offload.Tier)
	}
	return nil
}

// OverLimitError says that no plan of the wanted kind fits.
type OverLimitError struct {
	Program string
	Need    int64 // the least arena found
	Limit   int64
}

// Error is one line with the numbers.
func (e *OverLimitError) Error() string {
	return fmt.Sprintf("compile: program %q needs %v of the device tier for buffers, the limit leaves %v", e.Program, mem.Bytes(e.Need), mem.Bytes(e.Limit))
}

// matches tells whether a part carries a tag: the tag's dot-separated words stand one after the other in the part's.
func matches(part, tag string) bool {
	return strings.Contains("."+part+".", "."+tag+".")
}

// checkTags returns an error naming a tag that matches no part of g, with the parts there are.
func checkTags(g *graph.Graph, tags []string) error {
	var parts []string
	seen := map[string]bool{}
	for i := range g.Ops {
		if p := g.Ops[i].Part; p != "" && g.Ops[i].Phase == graph.Forward && !seen[p] {
			seen[p] = true
			parts = append(parts, p)
		}
	}
next:
	for _, t := range tags {
		for _, p := range parts {
			if matches(p, t) {
				continue next
			}
		}
		return fmt.Errorf("recompute tag %q names no part of the model; parts are %s", t, strings.Join(parts, " "))
	}
	return nil
}
