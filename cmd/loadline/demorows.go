package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"loadline/compile"
	"loadline/mem"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train"
)

// demoSetting is a row before it is run.
type demoSetting struct {
	name  string
	limit mem.Bytes
	args  []string
}

// demoSettings plans the rows: every limit is the least whole MiB that holds the setting. Of the two of auto one lies between what
// recomputing everything takes and what recomputing nothing does, the other below both, where only nested replay reaches.
func (a *app) demoSettings() ([]demoSetting, error) {
	config, batch, err := model.Preset(demoPreset)
	if err != nil {
		return nil, err
	}
	run := func(change func(o *train.Options)) (*train.Job, error) {
		set := kernel.Best()
		r := &trainRun{Options: train.Defaults(config), Kernels: set.Name(), set: set}
		r.Options.Batch, r.Options.Seq, r.Options.Steps = batch.Batch, batch.Seq, demoSteps
		change(&r.Options)
		r.Threads = a.computeThreads(r.Options.Ranks)
		return r.plan()
	}
	up := func(n mem.Bytes) mem.Bytes { return (n + mem.MiB - 1) / mem.MiB * mem.MiB }
	whole, err := run(func(*train.Options) {})
	if err != nil {
		return nil, err
	}
	least, err := whole.Least()
	if err != nil {
		return nil, err
	}
	none := whole.Promise.Memory()
	at := map[string]mem.Bytes{}
	for _, l := range least {
		at[l.Policy] = l.Memory
	}
	between := func(low, high string) mem.Bytes { return up((at[low] + at[high]) / 2) }
	settings := []demoSetting{{"recompute none", up(none), []string{"--recompute", "none"}}}
	for _, x := range []struct {
		name   string
		change func(o *train.Options)
		args   []string
	}{
		{"recompute full", func(o *train.Options) { o.Recompute.Policy = compile.Full }, []string{"--recompute", "full"}},
		{"recompute norm,mlp.act", func(o *train.Options) {
			o.Recompute = compile.Recompute{Policy: compile.Tags, Tags: []string{"norm", "mlp.act"}}
		}, []string{"--recompute", "norm,mlp.act"}},
		{"", nil, nil}, // where auto comes
		{"offload activations to a file", func(o *train.Options) { o.Offload = true }, []string{"--offload", "activations"}},
		{"ZeRO-1 on 2 ranks", func(o *train.Options) { o.Ranks, o.Zero, o.Batch = 2, 1, batch.Batch/2 },
			[]string{"--ranks", "2", "--zero", "1", "--batch", fmt.Sprint(batch.Batch / 2)}},
	} {
		if x.change == nil {
			auto := []string{"--recompute", "auto"}
			settings = append(settings, demoSetting{"recompute auto, halfway to none", between("full", "none"), auto},
				demoSetting{"recompute auto, below full", between("auto", "full"), auto})
			continue
		}
		job, err := run(x.change)
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", x.name, err)
		}
		settings = append(settings, demoSetting{x.name, up(job.Promise.Memory()), x.args})
	}
	return settings, nil
}

// eventsFD is the descriptor that a child writes its events to.
const eventsFD = 3

// stepEvent is what the event log of a training run says about a step.
type stepEvent struct {
	Event string
	Step  int64
	Loss  float32
	Held  mem.Bytes `json:"memory_bytes"`
}

// child runs this program again with args, reads its document into doc, and gives its steps to show, which may be nil. Its error is the
// child's own. When ctx is done the child is asked to end early; where that was a deadline, its document is what is wanted.
func (a *app) child(ctx context.Context, show func(stepEvent), doc any, args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Cancel = func() error { return c.Process.Signal(unix.SIGTERM) }
	var out, text bytes.Buffer
	c.Stdout, c.Stderr = &out, &text
	shown := func() {}
	if show != nil {
		from, to, err := os.Pipe()
		if err != nil {
			return err
		}
		c.ExtraFiles = []*os.File{to}
		c.Args = append(c.Args, "--events", fmt.Sprintf("/dev/fd/%d", eventsFD))
		done := make(chan struct{})
		go func() {
			defer close(done)
			readSteps(from, show)
		}()
		shown = func() {
			to.Close() // ours, after the child's; the reader ends then
			<-done
			from.Close()
		}
	}
	err = c.Run()
	shown()
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	if ctx.Err() == context.Canceled {
		return advise(errors.New("interrupted"), "run it again")
	}
	if err != nil {
		return childError(err, out.Bytes(), text.String())
	}
	if err := json.Unmarshal(out.Bytes(), doc); err != nil {
		return fmt.Errorf("document of loadline %s: %w", args[0], err)
	}
	return nil
}

// childError is what a child says went wrong, or how it ended.
func childError(err error, out []byte, text string) error {
	var d struct{ Error, Try string }
	if json.Unmarshal(out, &d) == nil && d.Error != "" {
		return advise(errors.New(d.Error), "%s", d.Try)
	}
	if _, said, ok := strings.Cut(text, "loadline: "); ok {
		said, _, _ = strings.Cut(said, "\n")
		return errors.New(said)
	}
	return fmt.Errorf("its process: %w", err)
}

// readSteps gives the steps of an event log to show, as they come.
func readSteps(from io.Reader, show func(stepEvent)) {
	d := json.NewDecoder(from)
	for {
		var e stepEvent
		if d.Decode(&e) != nil { // the end
			return
		}
		if e.Event == "step" {
			show(e)
		}
	}
}
