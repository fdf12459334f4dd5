package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/train"
)

// update reads what updates the weights.
func (t *trainFlags) update(c *cobra.Command, o *train.Options) (err error) {
	if o.Optimizer, err = compile.ParseOptimizer(t.optimizer.value); err != nil {
		return usage("loadline train --help lists them", "--%v", err)
	}
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
