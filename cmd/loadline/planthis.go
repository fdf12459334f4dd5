package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"loadline/cost"
	"loadline/graph"
	"loadline/mem"
	"loadline/planner/search"
	"loadline/tensor/dtype"
)

// measureHardware makes this machine one of the planner's where --hardware, or the list of --compare, says this: what a process may take of
// its memory, and speeds as they were measured, with all threads. It says what it found.
func (a *app) measureHardware(h *hardwareFlags, compared, flag, kernels string) error {
	if h.hardware != thisMachine && !slices.Contains(strings.Split(compared, ","), thisMachine) {
		return nil
	}
	if flag == "" {
		flag = thisMachine
	}
	set, err := kernelSet(kernels)
	if err != nil {
		return err
	}
	threads := a.computeThreads(1)
	m, err := a.machine(flag, threads, set, true)
	if err != nil {
		return err
	}
	available, _, err := availableMemory()
	if err != nil {
		return err
	}
	f32, bf16 := productRate(&m, dtype.F32), productRate(&m, dtype.BF16)
	fmt.Fprintf(a.text(), "this machine, %s: %s, %.0f GFLOP/s in f32 and %.0f in bf16, memory %.1f GB/s, file %.2f GB/s, %v available\n",
		m.Name, count(threads, "thread"), f32/1e9, bf16/1e9, m.Bandwidth/1e9, m.Link[mem.Disk]/1e9, available)
	all, err := h.machines()
	if err != nil {
		return err
	}
	best := max(math.Max(f32, bf16)/1e12, 0.001) // where products of 16 bits are slower, they are widened
	h.known, err = all.With(map[string]any{
		"name": thisMachine + " machine", "vendor": search.HostVendor, "unified": true, "memory": float64(available),
		"bandwidth_gbs": m.Bandwidth / 1e9, "host_bandwidth_gbs": m.Bandwidth / 1e9, "bf16_tflops": best, "measured_bf16_tflops": best,
		"disk_bandwidth_gbs": math.Max(m.Link[mem.Disk]/1e9, 0.001),
	})
	if err != nil {
		return fmt.Errorf("--hardware this: %w", err)
	}
	return nil
}

// productRate is the FLOP/s of a product of rows with a weight of a layer's size.
func productRate(m *cost.Machine, t dtype.Type) float64 {
	const rows, d = 512, 1024
	b := graph.NewBuilder("product", graph.Bounds{Rows: rows})
	of := func(n graph.Dim) graph.Type { return graph.Type{DType: t, Shape: graph.S(n, graph.D(d))} }
	b.MatMul(b.Input("x", of(graph.R(1))), b.Input("w", of(graph.D(d))))
	n := &b.G.Ops[0]
	return n.FLOPs / m.Op(b.G, n)
}
