package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadline/compile"
	"loadline/cost"
	"loadline/device"
	"loadline/device/cpu"
	"loadline/graph"
	"loadline/mem"
	"loadline/tensor/dtype"
	"loadline/tensor/kernel"
)

// benchKernelsFlags are those of bench kernels.
type benchKernelsFlags struct {
	kernels string
	only    string
	repeat  int
}

func (a *app) benchKernelsCommand() *cobra.Command {
	b := &benchKernelsFlags{}
	c := &cobra.Command{
		Use:   "kernels",
		Short: "Measure operations of a training step one by one",
		Long: `bench kernels runs single operations on the device that trains: matrix products in float32 and bfloat16 with their gradients, attention
forward and backward, and the operations that only move memory. Each runs on one thread and on all. Where a step that trains multiplies float32 in
parts of bfloat16 (avx512amx), the rows "in parts" are what a step gets, and those beside them the multiply-adds of a server.`,
		Example: `  loadline bench kernels
  loadline bench kernels --only attention
  loadline bench kernels --kernels avx2 --threads 1 --json`,
		Args: noArgs,
		RunE: func(_ *cobra.Command, _ []string) error { return a.benchKernels(b) },
	}
	registerKernels(c.Flags(), &b.kernels)
	c.Flags().StringVar(&b.only, "only", "", "measure operations whose name holds `TEXT`, such as bf16 or attention")
	c.Flags().IntVar(&b.repeat, "repeat", 10, "least `N` measurements of each")
	return c
}

// operation is one that bench kernels measures.
type operation struct {
	name  string
	work  float64 // floating-point operations, or bytes where moves
	moves bool
	rows  int

	trains bool // measured in a job that makes gradients, besides its own
	build  func(b *graph.Builder)
}

// benchKernels is the verb.
func (a *app) benchKernels(b *benchKernelsFlags) error {
	set, err := kernelSet(b.kernels)
	if err != nil {
		return err
	}
	if b.repeat < 1 || b.repeat > maxRepeat {
		return usage("--repeat 10", "--repeat %d: want 1 to %d", b.repeat, maxRepeat)
	}
	threads := []int{1}
	if n := a.computeThreads(1); a.threads > 0 {
		threads = []int{n}
	} else if n > 1 {
		threads = append(threads, n)
	}
	ops := slices.DeleteFunc(operations(set), func(o operation) bool { return !strings.Contains(o.name, b.only) })
	if len(ops) == 0 {
		return usage("loadline bench kernels, which lists all", "--only %s: no operation's name holds it", b.only)
	}
	bar := a.newProgress("operation", int64(len(ops)*len(threads)), 0)
	defer bar.close()
	results := []benchResult{}
	rows := [][]string{{"operation", "threads", "speed"}}
	for _, op := range ops {
		for _, n := range threads {
			begin := time.Now()
			r, err := op.measure(set, n, b.repeat)
			if err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			results = append(results, r)
			rows = append(rows, []string{r.Test, fmt.Sprint(n), r.speed()})
			bar.set(int64(len(results)), time.Since(begin), r.Test+" "+r.speed(), "")
		}
	}
	table(a.text(), rows)
	if !a.json {
		return nil
	}
	return a.document(map[string]any{"results": results, "kernels": set.Name(), "cpus": runtime.GOMAXPROCS(0), "seconds": a.seconds()})
}

// open makes the operation a program of its own, and fills what it reads.
func (o *operation) open(set kernel.Set, threads int) (s device.Session, err error) {
	b := graph.NewBuilder("bench", graph.Bounds{Rows: o.rows})
	o.build(b)
	graphs := []*graph.Graph{b.G}
	if o.trains { // the device looks at a job's programs; this one is never run
		b := graph.NewBuilder("gradient", graph.Bounds{Rows: o.rows})
		product{o.rows, 1, 1}.dx(dtype.F32).build(b)
		graphs = append(graphs, b.G)
	}
	var programs []*compile.Program
	for _, g := range graphs {
		p, err := compile.Step(g, compile.Options{Machine: cost.Laptop2()})
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	job, err := compile.NewJob(mem.Usage{}, programs...)
	if err != nil {
		return nil, err
	}
	if s, err = cpu.New(cpu.Options{Threads: threads, Set: set}).Open(job, device.Env{Ledger: mem.NewLedger(mem.Limits{})}); err != nil {
		return nil, err
	}
	for _, slot := range job.Slots {
		if err := fill(s, slot, o.rows); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// measure times the operation.
func (o *operation) measure(set kernel.Set, threads, repeat int) (r benchResult, err error) {
	s, err := o.open(set, threads)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	seconds, err := timed(repeat, 200*time.Millisecond, func() error { return s.Run("bench", device.Args{}) })
	if err != nil {
		return r, err
	}
	mean, stddev := rates(o.work/1e9, seconds)
	r = benchResult{Test: o.name, Threads: threads, Stddev: stddev}
	if o.moves {
		r.GBPerSecond = mean
	} else {
		r.GFLOPS = mean
	}
	return r, nil
}

// fill writes small random numbers, or positions into what holds integers.
func fill(s device.Session, slot compile.Slot, rows int) error {
	n := slot.Type.Shape.Elems(graph.Bounds{Rows: rows})
	size := int64(slot.Type.DType.Bits() / 8)
	if slot.Type.DType == dtype.I32 && !strings.HasPrefix(slot.Name, "pos") {
		return nil // zeros
	}
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	buf := make([]byte, 0, 32<<10)
	for at := int64(0); at < n; {
		buf = buf[:0]
		from := at
		for ; at < n && len(buf)+4 <= cap(buf); at++ {
			x := float32(rng.NormFloat64())
			switch slot.Type.DType {
			case dtype.I32:
				buf = binary.LittleEndian.AppendUint32(buf, uint32(at))
			case dtype.BF16:
				buf = binary.LittleEndian.AppendUint16(buf, dtype.ToBF16(x))
			default:
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
			}
		}
		if err := s.Write(slot.Name, from*size, buf); err != nil {
			return err
		}
	}
	return nil
}
