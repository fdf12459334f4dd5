package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/train"
	"loadline/train/checkpoint"
)

// update reads what updates the weights, and what the checkpoint to go on from says of a run.
func (t *trainFlags) update(c *cobra.Command, r *trainRun, o *train.Options) (err error) {
	if o.Optimizer, err = compile.ParseOptimizer(t.optimizer.value); err != nil {
		return usage("loadline train --help lists them", "--%v", err)
	}
	from := resumedState(t.resume)
	if from != nil {
		r.resumed, o.Continues = from.Kernels, true
	}
	o.LR = t.rate(c, r, o, from)
	switch o.Optimizer {
	case compile.SGD:
		o.Momentum, o.Nesterov = t.momentum, t.nesterov
	case compile.Lion:
		o.Beta1, o.Beta2 = 0.9, 0.99
	}
	if o.Optimizer != compile.SGD && (c.Flags().Changed("momentum") || t.nesterov) {
		return usage("--optimizer sgd, or leave them out", "--momentum and --nesterov are of sgd, the optimizer is %s", o.Optimizer)
	}
	if o.NoMaster = t.master.value == "none"; o.NoMaster && t.precision.value != "bf16" {
		return usage("--precision bf16 --master none", "--master none with --precision %s: only bf16 is trained without masters", t.precision.value)
	}
	return nil
}

// rate is --lr, the peak learning rate of the run that --resume goes on from, whose state is s, or a default, which is lower where there are weights to go on from.
func (t *trainFlags) rate(c *cobra.Command, r *trainRun, o *train.Options, s *checkpoint.State) float64 {
	if c.Flags().Changed("lr") {
		return t.lr
	}
	if s != nil && s.LR > 0 {
		return s.LR
	}
	if t.model != "" && r.Weights != "" {
		return train.TuneLR(o.Optimizer)
	}
	return o.LR
}

// resumedState is the state of the newest checkpoint in a directory, or of the checkpoint itself; nil if there is none that can be read.
func resumedState(path string) *checkpoint.State {
	if path == "" {
		return nil
	}
	if e, err := checkpoint.Latest(path); err == nil {
		path = e.Path
	}
	s, err := checkpoint.ReadState(path)
	if err != nil {
		return nil // the run says what is wrong with it
	}
	return s
}

// head reads how much of the logits the loss head holds.
func (t *trainFlags) head(o *train.Options) (err error) {
	switch t.headChunk {
	case "":
	case "auto":
		o.HeadChunk = train.AutoChunk
	default:
		if o.HeadChunk, err = strconv.Atoi(t.headChunk); err != nil || o.HeadChunk <= 0 {
			return usage("--head-chunk auto", "--head-chunk %s: want auto, or a multiple of 128", t.headChunk)
		}
	}
	return nil
}
