package main

import (
	"errors"

	"loadline/serve"
)

// refuseEngine adds to the refusal of an engine what would fit, in the flags of the verb, and prints its document; other errors it only
// returns. shorter is as serve.DoesNotFitError.Ways has it.
func (a *app) refuseEngine(err error, shorter func(context int) string) error {
	var no *serve.DoesNotFitError
	if !errors.As(err, &no) {
		return err
	}
	ways := no.Ways(shorter)
	err = a.aboutSizes(advise(err, "%s", no.AdviceOf(ways)))
	if !a.json {
		return err
	}
	d, lines := errorDocument(err), []leastLine{}
	for _, l := range no.Largest {
		lines = append(lines, leastLine{l.Purpose.String(), l.Tier.String(), l.Bytes})
	}
	d["fits"], d["limit_bytes"], d["predicted_peak_bytes"], d["largest"], d["nearest"] = false, no.Wanted.Memory, no.Need, lines, ways[0]
	return errors.Join(err, a.document(d))
}
