package compile

import "loadline/mem"

// auto finds the fastest program whose arena is within the limit.
func auto(s *schedule, o Options) (*Program, error) {
	var best *Program
	for _, pol := range []Policy{None, Full} {
		p, err := s.compile(s.f.policy(Recompute{Policy: pol}), nil)
		if err != nil {
			return nil, err
		}
		best = p
		if p.Arena[mem.Device] <= o.Limit {
			return p, nil
		}
	}
	return best, &OverLimitError{s.f.g.Name, best.Arena[mem.Device], o.Limit}
}
