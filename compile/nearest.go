package compile

import (
	"errors"

	"loadline/graph"
	"loadline/mem"
)

// LeastArena is the least device arena that a recompute policy needs.
type LeastArena struct {
	Policy string
	Arena  int64
}

// Least finds the least device arena of g under recompute none, full and auto, with o's other options. A graph without
// layers has no auto.
func Least(g *graph.Graph, o Options) ([]LeastArena, error) {
	var out []LeastArena
	for _, pol := range []Policy{None, Full, Auto} {
		o.Recompute = Recompute{Policy: pol}
		o.Limit = 0
		if pol == Auto {
			o.Limit = 1
		}
		p, err := Step(g, o)
		var over *OverLimitError
		switch {
		case errors.As(err, &over):
			out = append(out, LeastArena{o.Recompute.String(), over.Need})
		case err != nil && pol == Auto:
			continue
		case err != nil:
			return nil, err
		default:
			out = append(out, LeastArena{o.Recompute.String(), p.Arena[mem.Device]})
		}
	}
	return out, nil
}

// Nearest is what would fit under the limit: the first policy of Least, in the order none, full, auto, whose arena does, or
// else the smallest there is.
func Nearest(least []LeastArena, limit int64) (l LeastArena, fits bool) {
	for i, x := range least {
		if x.Arena <= limit {
			return x, true
		}
		if i == 0 || x.Arena < l.Arena {
			l = x
		}
	}
	return l, false
}
