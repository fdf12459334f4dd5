package main

import (
	"fmt"
	"time"

	"loadline/mem"
	"loadline/train"
)

// trainView shows a run to people and logs its events. It implements watcher.
type trainView struct {
	a      *app
	r      *trainRun
	bar    progress
	tokens int
	failed error  // of the event log; the run goes on
	begun  func() // nil, or called when the first step begins, or the run has ended
}

func (a *app) newTrainView(r *trainRun) *trainView {
	return &trainView{a: a, r: r, tokens: r.Options.Sequences() * r.Options.Seq}
}

// note keeps the first error of the event log.
func (v *trainView) note(err error) {
	if v.failed == nil {
		v.failed = err
	}
}

func (v *trainView) begin(step int64) {
	v.start()
	if step > 0 {
		v.a.say("going on from step %d\n", step)
		v.sayKernels()
	}
	v.note(v.a.log.write("start", map[string]any{
		"verb": "train", "model": v.r.Name, "step": step, "steps": v.r.Options.Steps, "out": v.r.Out, "limit_bytes": v.r.Options.Memory, "ranks": v.r.Options.Ranks, "kernels": v.r.Kernels,
	}))
	v.bar = v.a.newProgress("step", int64(v.r.Options.Steps), step)
}

// sayKernels says whether the run goes on with other kernels than the checkpoint was made with, and what that does.
func (v *trainView) sayKernels() {
	was := v.r.resumed
	if was == "" || v.r.set.SameBits(was) {
		return
	}
	keep := ""
	if _, err := kernelSet(was); err == nil {
		keep = "; --kernels " + was + " goes on to the same"
	}
	v.a.say("the checkpoint is of %s kernels, these are %s: losses may differ in their last bits from what those would give%s\n", plain(fmt.Sprintf("%.40s", was)), v.r.Kernels, keep)
}

func (v *trainView) step(s train.StepResult, held mem.Bytes) {
	rate := float64(v.tokens) / max(s.Seconds, 1e-9)
	v.bar.set(s.Step, time.Duration(s.Seconds*float64(time.Second)),
		fmt.Sprintf("loss %.4f  %s tokens/s", s.Loss, grouped(int64(rate))), fmt.Sprintf("memory %v / %v", held, v.r.Options.Memory))
	event := map[string]any{
		"step": s.Step, "loss": s.Loss, "lr": s.LR, "grad_norm": s.GradNorm, "seconds": s.Seconds, "tokens_per_second": rate, "memory_bytes": held,
	}
	if s.LossScale > 0 {
		event["loss_scale"], event["skipped"] = s.LossScale, s.Skipped
	}
	if s.Skipped {
		v.bar.say(fmt.Sprintf("step %d: gradients overflow float16 at loss scale %g; the step is skipped", s.Step, s.LossScale))
	}
	v.note(v.a.log.write("step", event))
}

func (v *trainView) eval(step int64, loss float32) {
	v.bar.say(fmt.Sprintf("step %d: validation loss %.4f", step, loss))
	v.note(v.a.log.write("eval", map[string]any{"step": step, "loss": loss}))
}

func (v *trainView) save(step int64, path string) {
	v.bar.say(fmt.Sprintf("step %d: saved %s", step, path))
	v.note(v.a.log.write("save", map[string]any{"step": step, "path": path}))
}

func (v *trainView) start() {
	if v.begun != nil {
		v.begun()
	}
}

// close takes the bar away.
func (v *trainView) close() {
	v.start()
	if v.bar != nil {
		v.bar.close()
	}
}

// trainDocument is train's document.
type trainDocument struct {
	memoryReport
	TokensPerSecond float64   `json:"tokens_per_second"`
	StepSeconds     float64   `json:"step_seconds"`
	Losses          []float32 `json:"losses"`
	ValLosses       []float32 `json:"val_losses"`
	ValSteps        []int64   `json:"val_steps"` // the step that each of ValLosses follows
	Recompute       string    `json:"recompute"`
	Precision       string    `json:"precision"`
	Kernels         string    `json:"kernels"`
	Saved           mem.Bytes `json:"saved_activation_bytes"`
	Steps           int64     `json:"steps"`
	Skipped         int64     `json:"skipped_steps"` // of those, steps whose gradients overflowed fp16
	Interrupted     bool      `json:"interrupted"`
	Ranks           int       `json:"ranks"`
	Parameters      int64     `json:"parameters"`
	Out             string    `json:"out"`
	Checkpoint      string    `json:"checkpoint"`
}

// finishTraining prints what came of a run.
func (a *app) finishTraining(r *trainRun, w *workReport, v *trainView) error {
	d := trainDocument{
		memoryReport: w.Memory, StepSeconds: w.StepSeconds, Losses: nonNil(w.Losses), ValLosses: []float32{}, ValSteps: []int64{},
		Recompute: r.Options.Recompute.String(), Precision: r.Options.Precision, Kernels: r.Kernels, Saved: w.Saved, Steps: w.Steps, Skipped: w.Skipped, Interrupted: !w.Done,
		Ranks: r.Options.Ranks, Parameters: r.Options.Config.Params(), Out: r.Out, Checkpoint: w.Checkpoint,
	}
	d.Seconds = a.seconds()
	if w.StepSeconds > 0 {
		d.TokensPerSecond = float64(v.tokens) / w.StepSeconds
	}
	for _, x := range w.ValLosses {
		d.ValLosses, d.ValSteps = append(d.ValLosses, x.Loss), append(d.ValSteps, x.Step)
	}
	t := a.text()
	switch {
	case d.Interrupted:
		fmt.Fprintf(t, "interrupted after step %d of %d; go on with --resume %s\n", d.Steps, r.Options.Steps, r.Out)
	case d.StepSeconds == 0 && len(d.Losses) > 0:
		fmt.Fprintf(t, "nothing left to do: %s of %d are done, loss %.4f; a larger --steps goes on\n", count(int(d.Steps), "step"), r.Options.Steps, d.Losses[len(d.Losses)-1])
	case len(d.Losses) > 0:
		fmt.Fprintf(t, "step %d of %d: loss %.4f, %s tokens/s\n", d.Steps, r.Options.Steps, d.Losses[len(d.Losses)-1], grouped(int64(d.TokensPerSecond)))
	}
	if d.Skipped > 0 {
		fmt.Fprintf(t, "%s skipped: gradients overflowed fp16\n", count(int(d.Skipped), "step"))
	}
	fmt.Fprintf(t, "checkpoint %s\n", d.Checkpoint)
	d.print(t)
	v.note(a.log.write("end", map[string]any{
		"steps": d.Steps, "interrupted": d.Interrupted, "checkpoint": d.Checkpoint, "predicted_peak_bytes": d.Predicted,
		"ledger_peak_bytes": d.Ledger, "rss_peak_bytes": d.RSS, "seconds": d.Seconds,
	}))
	if a.json {
		if err := a.document(d); err != nil {
			return err
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	return v.failed
}
