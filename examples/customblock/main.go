// Command customblock trains a block of its own on the public graph.Builder: attention and a gated feed-forward side by
// side on one norm, added to the residual stream together (the parallel block of PaLM, Chowdhery et al. 2022, arXiv
// 2204.02311, §2). It is what an author of a new architecture starts from.
//
// Nothing in Loadline knows this block. Its parts have names chosen here, and `--recompute` speaks of them:
//
//	go run ./examples/customblock --recompute twin.ffn
//
// prints the peak and the last loss when nothing, everything, and what the tags name is recomputed. Invariant: the loss
// is the same to the bit in all three (nine digits tell float32s apart); only peak and time differ. Tags are worth what
// they free: twin.sum names the residual stream itself, from which all else would be recomputed, and saves nothing. The
// program reads no files and keeps nothing.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/kernel"
)

// train compiles under a policy, runs the steps, and returns the peak and the last loss.
func train(dev device.Device, r compile.Recompute, steps int) (peak mem.Bytes, loss float32, err error) {
	o := compile.TrainOptions{Optimizer: compile.AdamW, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1}
	graphs, err := compile.Train(forward(), o)
	if err != nil {
		return 0, 0, err
	}
	program, err := compile.Step(graphs[0], compile.Options{Machine: cost.Laptop2(), Recompute: r})
	if err != nil {
		return 0, 0, err
	}
	var fixed mem.Usage
	fixed.Add(mem.Device, mem.Workspace, dev.Scratch([]*compile.Program{program}))
	job, err := compile.NewJob(fixed, program)
	if err != nil {
		return 0, 0, err
	}
	plan := job.Plan()
	ledger := mem.NewLedger(mem.Limits{Memory: plan.Memory()}) // not a byte more
	s, err := dev.Open(job, device.Env{Ledger: ledger})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range job.Slots {
		if x.Kind == graph.State && x.Purpose == mem.Weights {
			err = errors.Join(err, s.Write(x.Name, 0, start(rng, x.Type.Shape)))
		}
	}
	var hyper [graph.HyperLen]float32
	for step := 1; step <= steps && err == nil; step++ {
		t := float64(step)
		hyper[graph.HyperLR], hyper[graph.HyperGrad] = 3e-3, 1
		hyper[graph.HyperBias1], hyper[graph.HyperBias2] = float32(1-math.Pow(0.9, t)), float32(1-math.Pow(0.95, t))
		tokens, targets, sequences, positions, table := sample(rng)
		for name, v := range map[string]any{
			"tokens": tokens, "targets": targets, "sequences": sequences, "positions": positions, "table": table,
			"weight": []float32{1.0 / rows}, compile.HyperInput: hyper[:],
		} {
			err = errors.Join(err, s.Write(name, 0, encode(v)))
		}
		out := make([]byte, 4)
		err = errors.Join(err, s.Run("step", device.Args{}), s.Read("loss", 0, out))
		loss = math.Float32frombits(binary.LittleEndian.Uint32(out))
	}
	return plan.Memory(), loss, errors.Join(err, plan.Check(ledger.Peak()))
}

func run(w io.Writer, args []string) error {
	flags := flag.NewFlagSet("customblock", flag.ContinueOnError)
	tags := flags.String("recompute", "twin.ffn", "parts to recompute: twin.norm, twin.attn, twin.ffn, twin.sum, or several with commas")
	steps := flags.Int("steps", 20, "optimizer steps")
	if err := flags.Parse(args); err != nil {
		return err
	}
	fmt.Fprintf(w, "%-20s %12s %12s\n", "recompute", "peak bytes", "loss")
	for _, policy := range []string{"none", "full", *tags} {
		r, err := compile.ParseRecompute(policy)
		if err != nil {
			return err
		}
		peak, loss, err := train(cpu.New(cpu.Options{Threads: 2, Set: kernel.Best()}), r, *steps)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-20s %12d %12.9g\n", policy, peak, loss)
	}
	return nil
}

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
