package compile

import (
	"fmt"

	"loadline/graph"
	"loadline/mem"
)

// Step compiles a graph: it decides what is recomputed and offloaded, schedules, and gives every buffer its place. The
// graph may be anything from a save to a whole training step; the passes that rewrite graphs (Fuse, Train, Zero) come
// before.
func Step(g *graph.Graph, o Options) (*Program, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := checkTags(g, o.Recompute.Tags); err != nil {
		return nil, err
	}
	f := wholeFlow(g, o.Machine)
	s := newSchedule(f)
	if o.Recompute.Policy == Auto {
		x, err := newSearch(s, o)
		if err != nil {
			return nil, err
		}
		return x.Under(max(o.Limit, o.Saved)) // one of them is 0
	}
	if o.Offload.Activations {
		s.away = away{o.Offload.Tier, o.Machine.Link[o.Offload.Tier]}
	}
	dec := f.policy(o.Recompute)
	if o.Offload.Activations {
		chooseOffload(s, dec)
	}
	p, err := s.compile(dec, nil)
	if err != nil {
		return nil, err
	}
	if o.Limit > 0 && p.Arena[mem.Device] > o.Limit {
		return p, &OverLimitError{g.Name, p.Arena[mem.Device], o.Limit}
	}
	return p, nil
}

// compile schedules under decisions and lays the program out.
func (s *schedule) compile(dec []decision, nest []bool) (*Program, error) {
	s.run(dec, nest)
	if len(s.insts) == 0 {
		return nil, fmt.Errorf("compile: graph %q is empty", s.f.g.Name)
	}
	if err := s.checkVersions(); err != nil {
		return nil, err
	}
	return s.program(), nil
}
