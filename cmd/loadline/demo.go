package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"loadline/cost"
	"loadline/mem"
)

const (
	demoPreset = "llama-tiny"
	demoSteps  = 12 // of each row
)

// demoSlack is how far the loss of a run with ranks may be from that of one process: its sums over a batch are in another order.
const demoSlack = 1e-5

func (a *app) demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show it all: one small model under several memory settings, then text from it",
		Long: `demo trains the same few steps of a small decoder on ten plays and the sonnets of Shakespeare under several settings, each
in a process of its own, and prints for each what the plan promised, what the ledger saw, what the kernel saw, and the loss:
the budget never changes it. Then it trains longer under the smallest of the limits, and generates text. It takes about a minute
on two cores, half a minute more where others share them, and leaves nothing behind. Exit code 1 says that a promise was broken.`,
		Example: `  loadline demo
  loadline demo --json > demo.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.demo() },
	}
}

// demoRow is one row of demo's document.
type demoRow struct {
	Setting     string    `json:"setting"`
	Limit       mem.Bytes `json:"limit_bytes"`
	Predicted   mem.Bytes `json:"predicted_peak_bytes"`
	Ledger      mem.Bytes `json:"ledger_peak_bytes"`
	RSS         mem.Bytes `json:"rss_peak_bytes"`
	StepSeconds float64   `json:"step_seconds"`
	Loss        float32   `json:"loss"` // of the last step
	Ranks       int       `json:"ranks"`
}

// demoDocument is demo's document.
type demoDocument struct {
	Rows    []demoRow `json:"rows"`
	Text    string    `json:"text"`        // the prompt and what was generated
	Steps   int64     `json:"steps"`       // of the run that the text is from,
	Loss    float32   `json:"loss"`        // its mean over the last 20 of them,
	Limit   mem.Bytes `json:"limit_bytes"` // and the limit that it kept
	Seconds float64   `json:"seconds"`
}

// demo is the verb.
func (a *app) demo() (err error) {
	dir, err := os.MkdirTemp("", "loadline-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, stop := a.interruptible("ending the demo; once more to stop at once")
	defer stop()
	settings, err := a.demoSettings()
	if err != nil {
		return err
	}
	d := &demoDocument{Rows: []demoRow{}}
	if err := a.log.write("start", map[string]any{"verb": "demo", "rows": len(settings)}); err != nil {
		return err
	}
	for i, s := range settings {
		a.say("%d of %d: %s, limit %v\n", i+1, len(settings), s.name, s.limit)
		row, err := a.demoRow(ctx, s, filepath.Join(dir, "row-"+strconv.Itoa(i)))
		if err != nil {
			return fmt.Errorf("setting %s: %w", s.name, err)
		}
		d.Rows = append(d.Rows, row)
	}
	w := a.text()
	fmt.Fprintf(w, "\n%s on Shakespeare, %d steps, each setting in a process of its own:\n\n", demoPreset, demoSteps)
	table(w, demoTable(d.Rows))
	broken := demoCheck(d.Rows)
	if broken == nil {
		fmt.Fprintf(w, "\nKept: the ledger saw the predicted peak to the byte, no process grew past its limit, and the loss has the same bits\n"+
			"in every row of one process. Two ranks sum a batch in another order: within %g of it.\n", demoSlack)
	}
	if err := a.demoText(ctx, d, dir, demoMost); err != nil {
		return errors.Join(broken, err)
	}
	fmt.Fprintf(w, "\nText after %d steps within %v, loss %.2f:\n\n%s\n", d.Steps, d.Limit, d.Loss, d.Text)
	d.Seconds = a.seconds()
	if err := a.log.write("end", map[string]any{"seconds": d.Seconds}); err != nil {
		return err
	}
	if a.json {
		if err := a.document(d); err != nil {
			return err
		}
	}
	return broken
}

// demoRow runs a setting.
func (a *app) demoRow(ctx context.Context, s demoSetting, out string) (demoRow, error) {
	args := append(a.demoTrain(demoSteps, s.limit, out), s.args...)
	var d trainDocument
	if err := a.child(ctx, nil, &d, args...); err != nil {
		return demoRow{}, err
	}
	if len(d.Losses) != demoSteps {
		return demoRow{}, fmt.Errorf("want %d losses, got %d", demoSteps, len(d.Losses))
	}
	return demoRow{
		Setting: s.name, Limit: d.Limit, Predicted: d.Predicted, Ledger: d.Ledger, RSS: d.RSS,
		StepSeconds: d.StepSeconds, Loss: d.Losses[demoSteps-1], Ranks: d.Ranks,
	}, os.RemoveAll(out)
}

// demoTrain is the command line that all runs share.
func (a *app) demoTrain(steps int, limit mem.Bytes, out string) []string {
	args := []string{
		"train", "--json", "--quiet", "--preset", demoPreset, "--steps", strconv.Itoa(steps), "--lr", "0.003", "--save-every", "0",
		"--seed", strconv.FormatUint(a.seed, 10), "--memory", strconv.FormatInt(int64(limit), 10), "--out", out,
		"--machine", cost.Laptop2().Name, // by which the limits above were found
	}
	if a.threads > 0 {
		args = append(args, "--threads", strconv.Itoa(a.threads))
	}
	return args
}

// demoTable is the table for people.
func demoTable(rows []demoRow) [][]string {
	out := [][]string{{"setting", "limit", "predicted peak", "ledger peak", "process peak RSS", "step time", "loss"}}
	for _, r := range rows {
		out = append(out, []string{
			r.Setting, r.Limit.String(), r.Predicted.String(), r.Ledger.String(), r.RSS.String(),
			fmt.Sprintf("%.0f ms", 1000*r.StepSeconds), strconv.FormatFloat(float64(r.Loss), 'g', -1, 32),
		})
	}
	return out
}

// demoCheck returns an error about the first row that breaks a promise.
func demoCheck(rows []demoRow) error {
	const report = "this is a fault of loadline: please report the table"
	for _, r := range rows {
		far := math.Abs(float64(r.Loss)-float64(rows[0].Loss)) / float64(rows[0].Loss)
		switch {
		case r.Predicted != r.Ledger:
			return advise(fmt.Errorf("setting %s: predicted %d bytes, the ledger saw %d", r.Setting, int64(r.Predicted), int64(r.Ledger)), report)
		case r.RSS > r.Limit:
			return advise(fmt.Errorf("setting %s: the process held %v, the limit is %v", r.Setting, r.RSS, r.Limit), report)
		case r.Ranks == 1 && math.Float32bits(r.Loss) != math.Float32bits(rows[0].Loss):
			return advise(fmt.Errorf("setting %s: the loss is %v, under %s it is %v", r.Setting, r.Loss, rows[0].Setting, rows[0].Loss), report)
		case !(far <= demoSlack):
			return advise(fmt.Errorf("setting %s: the loss is %v, of one process it is %v", r.Setting, r.Loss, rows[0].Loss), report)
		}
	}
	return nil
}
