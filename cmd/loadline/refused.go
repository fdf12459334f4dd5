package main

import (
	"encoding/json"
	"errors"
	"fmt"

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
	lines := []leastLine{}
	for _, l := range no.Largest {
		lines = append(lines, leastLine{l.Purpose.String(), l.Tier.String(), l.Bytes})
	}
	return a.refusal(advise(err, "%s", no.AdviceOf(ways)), map[string]any{
		"fits": false, "limit_bytes": no.Wanted.Memory, "predicted_peak_bytes": no.Need, "largest": lines, "nearest": ways[0],
	})
}

// refusal prints the document of what does not fit, with what every document of an error has, and returns the error.
func (a *app) refusal(err error, document any) error {
	err = a.aboutSizes(err)
	if !a.json {
		return err
	}
	fields := map[string]json.RawMessage{}
	for _, d := range []any{document, errorDocument(err)} {
		text, e := json.Marshal(d)
		if e == nil {
			e = json.Unmarshal(text, &fields)
		}
		if e != nil { // the document about the error follows
			return errors.Join(err, fmt.Errorf("document: %w", e))
		}
	}
	return errors.Join(err, a.document(fields))
}
