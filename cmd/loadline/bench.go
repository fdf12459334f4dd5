package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/tensor/kernel"
)

func (a *app) benchCommand() *cobra.Command {
	b := &benchModelFlags{}
	c := &cobra.Command{
		Use:   "bench [MODEL]",
		Short: "Measure the speed of a model, or of this machine: whole steps, kernels alone, what the cost model says, what recomputing costs",
		Long: `bench measures. It prints one line for each measurement, and with --json a document whose results hold what was measured, on how many
threads, its speed and the standard deviation of the speed.

With a model it measures what llama-bench does: pp512, a prompt of 512 random tokens, and tg128, 128 single tokens one after the other,
each the mean of 5 after one that does not count, without tokenizing and sampling; behind --depth tokens that come before, which are not
measured. Speed, promise and peak RSS are of one run.`,
		Example: `  loadline bench --model model.gguf
  loadline bench run -p 128,512 -n 64 --depth 0,1024 --threads 2 --json
  loadline bench train --preset bench-20m --precision bf16 --threads 2 --json
  loadline bench kernels
  loadline bench cost
  loadline bench recompute`,
		Args: atMostOne,
	}
	b.register(c)
	c.AddCommand(a.benchTrainCommand(), a.benchKernelsCommand(), a.benchCostCommand(), a.benchRecomputeCommand())
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 && !exists(args[0]) && !strings.ContainsAny(args[0], "./") {
			var names []string
			for _, sub := range c.Commands() {
				names = append(names, sub.Name())
			}
			if n := nearest(args[0], names); n != "" {
				return usage("bench "+n, "there is neither a model nor a measurement %q", args[0])
			}
		}
		if err := modelArgument(&b.model, args); err != nil {
			return err
		}
		if b.model == "" {
			if c.Flags().NFlag() > 0 {
				return usage("--model PATH, as of generate", "the speed of what? want --model PATH, or train, kernels, cost or recompute")
			}
			return c.Help()
		}
		return a.benchModel(b)
	}
	return c
}

// maxRepeat bounds --repeat.
const maxRepeat = 1 << 20

// benchResult is one measurement. One of the speeds is there.
type benchResult struct {
	Test            string  `json:"test"`
	Threads         int     `json:"threads"`
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	GFLOPS          float64 `json:"gflops,omitempty"`
	GBPerSecond     float64 `json:"gb_per_second,omitempty"`
	Stddev          float64 `json:"stddev"` // of the speed
}

// speed is the mean speed with its unit, for people.
func (r *benchResult) speed() string {
	switch {
	case r.TokensPerSecond > 0:
		return fmt.Sprintf("%.0f ± %.0f tokens/s", r.TokensPerSecond, r.Stddev)
	case r.GFLOPS > 0:
		return fmt.Sprintf("%.1f ± %.1f GFLOP/s", r.GFLOPS, r.Stddev)
	}
	return fmt.Sprintf("%.1f ± %.1f GB/s", r.GBPerSecond, r.Stddev)
}

// rates is the mean and the standard deviation of the speeds work/seconds.
func rates(work float64, seconds []float64) (mean, stddev float64) {
	for _, s := range seconds {
		mean += work / s
	}
	mean /= float64(len(seconds))
	for _, s := range seconds {
		stddev += (work/s - mean) * (work/s - mean)
	}
	if len(seconds) > 1 {
		stddev = math.Sqrt(stddev / float64(len(seconds)-1))
	}
	return mean, stddev
}

// timed is how long calls of f take, until both n calls and the time least are behind it. The first call is not counted.
func timed(n int, least time.Duration, f func() error) ([]float64, error) {
	if err := f(); err != nil {
		return nil, err
	}
	var seconds []float64
	for begin := time.Now(); len(seconds) < n || time.Since(begin) < least; {
		t := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Since(t).Seconds())
	}
	return seconds, nil
}

// registerKernels adds --kernels to a verb that computes.
func registerKernels(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "kernels", "", "kernel `SET` to use (default: the best this CPU runs)")
}

// kernelSet is the set of a name; of no name, the best one here.
func kernelSet(name string) (kernel.Set, error) {
	if name == "" {
		return kernel.Best(), nil
	}
	var names []string
	for _, s := range kernel.Sets() {
		if s.Name() == name {
			return s, nil
		}
		names = append(names, s.Name())
	}
	return kernel.Set{}, usage(didYouMean(name, names, "--kernels ", "leave --kernels out"), "--kernels %s: this CPU runs %s", name, orList(names))
}
