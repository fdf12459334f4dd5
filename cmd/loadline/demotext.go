package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// The run that the text of demo is from. A small batch: of the same tokens, more steps learn more.
const (
	demoEnd    = 62 * time.Second // of the whole demo; this run takes what the rows leave of it,
	demoLeast  = 32 * time.Second // but at least this long,
	demoLatest = 78 * time.Second // unless the demo would then take longer than this,
	demoShort  = 16 * time.Second // and never less than this
	demoGrace  = 8 * time.Second  // how much longer, should the machine become slower meanwhile
	demoBatch  = 4
	demoSeq    = 128
	demoWarmup = 20
	demoMost   = 4000 // steps at the full learning rate
	demoPrompt = "Romeo.\nO,"
	demoTokens = 160
)

// demoTime is how long the run for the text may take when the rows have taken so long.
func demoTime(rows time.Duration) time.Duration {
	return max(min(max(demoEnd-rows, demoLeast), demoLatest-rows), demoShort)
}

// demoText trains for as long as there is time, and generates. How many steps that will be is not known before, and the fall of the
// learning rate is worth much; so it trains at the full rate until four fifths of the time are over, and then resumes for a quarter of
// the steps that this made, which is what a wsd schedule of all of them is.
func (a *app) demoText(ctx context.Context, d *demoDocument, dir string, most int) error {
	out, limit := filepath.Join(dir, "text"), d.Rows[0].Limit
	for _, r := range d.Rows {
		limit = min(limit, r.Limit)
	}
	began, whole := time.Now(), demoTime(time.Since(a.began))
	a.say("\ntraining for the text, %.0f s\n", whole.Seconds())
	all := int64(whole.Seconds())
	bar := a.newProgress("second", all, 0)
	show := func(e stepEvent) {
		bar.set(min(int64(time.Since(began).Seconds()), all-1), time.Second, // the last second lasts until the end
			fmt.Sprintf("step %d  loss %.4f", e.Step, e.Loss), fmt.Sprintf("memory %v / %v", e.Held, limit))
	}
	leg := func(until time.Duration, steps int, more ...string) (t trainDocument, err error) {
		c, cancel := context.WithDeadline(ctx, began.Add(until))
		defer cancel()
		args := append(a.demoTrain(steps, limit, out), "--recompute", "auto", "--batch", strconv.Itoa(demoBatch), "--seq", strconv.Itoa(demoSeq),
			"--warmup", strconv.Itoa(min(demoWarmup, steps/2)))
		err = a.child(c, show, &t, append(args, more...)...) // at the deadline it saves what it has
		return t, err
	}
	t, err := leg(whole*4/5, most, "--schedule", "constant")
	if err == nil {
		t, err = leg(whole+demoGrace, int(t.Steps)*5/4, "--schedule", "wsd", "--resume", out)
	}
	bar.close()
	if err != nil {
		return fmt.Errorf("training for the text: %w", err)
	}
	var g generateDocument
	err = a.child(ctx, nil, &g, "generate", "--json", "--quiet", "--model", out, "--prompt", demoPrompt, "--max-tokens", strconv.Itoa(demoTokens),
		"--temperature", "0.6", "--top-k", "40", "--seed", strconv.FormatUint(a.seed, 10))
	if err != nil {
		return fmt.Errorf("generating: %w", err)
	}
	d.Text, d.Steps, d.Limit = demoPrompt+g.Text, t.Steps, limit
	last := t.Losses[max(0, len(t.Losses)-20):]
	for _, l := range last {
		d.Loss += l / float32(len(last))
	}
	return nil
}
