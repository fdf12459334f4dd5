package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/train"
	"loadline/train/checkpoint"
)

// update reads what updates the weights.
func (t *trainFlags) update(c *cobra.Command, r *trainRun, o *train.Options) (err error) {
	if o.Optimizer, err = compile.ParseOptimizer(t.optimizer.value); err != nil {
		return usage("loadline train --help lists them", "--%v", err)
	}
	o.LR = t.rate(c, r, o)
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

// rate is --lr, the peak learning rate of the run that --resume goes on from, or a default, which is lower where there are weights to go on from.
func (t *trainFlags) rate(c *cobra.Command, r *trainRun, o *train.Options) float64 {
	if c.Flags().Changed("lr") {
		return t.lr
	}
	if lr := resumedRate(t.resume); lr > 0 {
		return lr
	}
	if t.model != "" && r.Weights != "" {
		return train.TuneLR(o.Optimizer)
	}
	return o.LR
}

// resumedRate is what the newest checkpoint in a directory, or the checkpoint itself, says of its peak learning rate; 0 if nothing.
func resumedRate(path string) float64 {
	if path == "" {
		return 0
	}
	if e, err := checkpoint.Latest(path); err == nil {
		path = e.Path
	}
	s, err := checkpoint.ReadState(path)
	if err != nil {
		return 0 // the run says what is wrong with it
	}
	return s.LR
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
