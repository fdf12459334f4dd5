package serve

import (
	"context"
	"errors"

	"loadline/serve/sched"
)

// Sample is what a request got once.
type Sample struct {
	Tokens   []int32 // the new ones, a token of Request.Stop included if that ended it
	Finished sched.Reason
}

// Generate runs one request on an idle engine until it is done or ctx is; onToken, which may be nil, gets each token as
// it comes, and an error of it ends the request. What was generated until an error is returned with it.
func (e *Engine) Generate(ctx context.Context, r Request, onToken func(Event) error) ([]Sample, error) {
	if !e.Idle() {
		return nil, errors.New("serve: Generate: want an idle engine, other requests are not done")
	}
	if err := e.Add(r); err != nil {
		return nil, err
	}
	defer e.Cancel(r.ID)
	samples := make([]Sample, max(r.N, 1))
	for !e.Idle() {
		if err := ctx.Err(); err != nil {
			return samples, err
		}
		events, err := e.Step()
		if err != nil {
			return samples, err
		}
		for _, x := range events {
			switch x.Kind {
			case Failed:
				return samples, x.Err
			case Token:
				s := &samples[x.Index]
				s.Tokens, s.Finished = append(s.Tokens, x.Token), x.Finished
				if onToken != nil {
					if err := onToken(x); err != nil {
						return samples, err
					}
				}
			}
		}
	}
	return samples, nil
}
